"""Fewer examples for tests that play whole traces and run for every kind of them."""

from __future__ import annotations

from hypothesis import settings


def share(part: int) -> settings:
    """One `part`th of the examples of the profile in force, and at least ten."""
    return settings(max_examples=max(10, settings.default.max_examples // part))

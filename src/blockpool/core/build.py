"""Which build is running."""

from __future__ import annotations

COMPILED = not __file__.endswith(".py")
"""True when this module, and with it the whole core, runs as compiled code."""

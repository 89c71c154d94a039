"""What commands share: options that cannot be read are usage errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import click

from blockpool.errors import ConfigError

T = TypeVar("T")


def as_usage(call: Callable[[], T]) -> T:
    """Runs a call that reads options: what it does not like is a usage error."""
    try:
        return call()
    except ConfigError as error:
        option = error.field.replace("_", "-")
        raise click.UsageError(f"--{option} {error.value}: {error.reason}") from None

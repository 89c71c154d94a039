"""What commands share: options that cannot be read are usage errors."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import TypeVar

import click

from blockpool.errors import ConfigError

T = TypeVar("T")


def as_usage(call: Callable[[], T], *, fields: Container[str] | None = None) -> T:
    """Runs a call that reads options: what it does not like is a usage error.

    Args:
        call: What to run.
        fields: Of these settings only; what else is wrong stays an error of the domain.
    """
    try:
        return call()
    except ConfigError as error:
        if fields is not None and error.field not in fields:
            raise
        option = error.field.replace("_", "-")
        value = "" if error.value is True or error.value is None else f" {error.value}"
        raise click.UsageError(f"--{option}{value}: {error.reason}") from None

"""What commands share: options that cannot be read are usage errors."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import TypeVar

import click
from click.core import ParameterSource

from blockpool.errors import ConfigError, printable

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
        raise click.UsageError(printable(f"--{option}{value}: {error.reason}")) from None


def given(parameter: str) -> bool:
    """Whether an option of the command that runs was written on its command line."""
    return click.get_current_context().get_parameter_source(parameter) is ParameterSource.COMMANDLINE


def refuse_all_but(meaningful: Container[str], reason: str) -> None:
    """Raises a usage error for the first option, in order of the help, that was given and would have no effect.

    Args:
        meaningful: Parameters that have one, as the command's function calls them.
        reason: Why the others have none, as the end of the sentence "--option ...".
    """
    for parameter in click.get_current_context().command.params:
        if parameter.name is not None and parameter.name not in meaningful:
            refuse_if_given(parameter.name, reason)


def refuse_if_given(parameter: str, reason: str) -> None:
    """Raises a usage error for an option that would have no effect.

    Args:
        parameter: As the command's function calls it.
        reason: Why, as the end of the sentence "--option ...".
    """
    if given(parameter):
        parameters = click.get_current_context().command.params
        option = next(each.opts[0] for each in parameters if each.name == parameter)
        raise click.UsageError(f"{option} {reason}")

"""The options of `blockpool replay --timed`, and what they say when --timed is missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from blockpool.commands.usage import as_usage
from blockpool.replay.settings import ENGINE_RULES
from blockpool.replay.sizes import parse_speed
from blockpool.replay.timed.timed_settings import (
    DEFAULT_DECODE_RATE,
    DEFAULT_MAX_BATCHED_TOKENS,
    DEFAULT_MAX_RUNNING,
    DEFAULT_PREFILL_RATE,
    MAX_RUNNING,
    TimedSettings,
)
from blockpool.trace.generator import MAX_SEED


def timed_options(command: Callable[..., None]) -> Callable[..., None]:
    """All of them. They reach the command together, as `**timing` by name, None where not given."""
    options = (
        click.option(
            "--timed",
            is_flag=True,
            help="Let requests run side by side and hold their blocks; by engine rules unless --rules is given.",
        ),
        click.option(
            "--speed", metavar="2x", help="With --timed: divide the times of arrival.  [default: 1x]"
        ),
        click.option(
            "--arrival-rate",
            type=float,
            metavar="REQUESTS/S",
            help="With --timed: Poisson arrivals, for a trace without timestamps.",
        ),
        click.option("--seed", type=click.IntRange(0, MAX_SEED), help="Of --arrival-rate.  [default: 0]"),
        click.option(
            "--max-running",
            type=click.IntRange(1, MAX_RUNNING),
            help=f"With --timed: requests at a time.  [default: {DEFAULT_MAX_RUNNING}]",
        ),
        click.option(
            "--max-batched-tokens",
            type=click.IntRange(1),
            help=f"With --timed: tokens per step.  [default: {DEFAULT_MAX_BATCHED_TOKENS}]",
        ),
        click.option(
            "--prefill-rate",
            type=float,
            metavar="TOKENS/S",
            help=f"With --timed: prompt tokens computed per second.  [default: {DEFAULT_PREFILL_RATE:.0f}]",
        ),
        click.option(
            "--decode-rate",
            type=float,
            metavar="TOKENS/S",
            help="With --timed: tokens per second of each request that generates.  "
            f"[default: {DEFAULT_DECODE_RATE:.0f}]",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def timed_settings(timed: bool, timing: dict[str, Any]) -> TimedSettings | None:
    """The settings that the options ask for; None without --timed.

    Args:
        timed: --timed was given.
        timing: The other options by their names, None where not given.

    Raises:
        UsageError: An option that has no effect, or a value that cannot be right.
    """
    given = {name: value for name, value in timing.items() if value is not None}
    if not timed:
        for name in given:
            raise click.UsageError(f"--{name.replace('_', '-')} goes with --timed")
        return None
    if "seed" in given and "arrival_rate" not in given:
        raise click.UsageError("--seed goes with --arrival-rate: arrivals of a trace are not drawn")
    if "speed" in given:
        given["speed"] = as_usage(lambda: parse_speed(given["speed"]))
    return as_usage(lambda: TimedSettings(**given))


def rules_for(timed: bool, rules: str) -> str:
    """Engine rules with --timed, unless the caller asked for others."""
    source = click.get_current_context().get_parameter_source("rules")
    given = source is not click.core.ParameterSource.DEFAULT
    return rules if given or not timed else ENGINE_RULES

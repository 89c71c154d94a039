"""The options of `blockpool replay --timed`, and what they say when --timed is missing."""

from __future__ import annotations

from typing import Any

import click

from blockpool.commands.options import all_of
from blockpool.commands.usage import as_usage
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

TIMED_OPTIONS = (
    "timed",
    "speed",
    "arrival_rate",
    "seed",
    "max_running",
    "max_batched_tokens",
    "prefill_rate",
    "decode_rate",
)
"""Their names, in the order of the help."""


timed_options = all_of(
    click.option(
        "--timed",
        is_flag=True,
        help="Let requests run side by side and hold their blocks; by engine rules unless --rules is given. "
        "The other options here go with it; --speed also with --publish.",
    ),
    click.option("--speed", metavar="2x", help="Divide the times of arrival.  [default: 1x]"),
    click.option(
        "--arrival-rate",
        type=float,
        metavar="REQUESTS/S",
        help="Poisson arrivals, for a trace without timestamps.",
    ),
    click.option("--seed", type=click.IntRange(0, MAX_SEED), help="Of --arrival-rate.  [default: 0]"),
    click.option(
        "--max-running",
        type=click.IntRange(1, MAX_RUNNING),
        help=f"Requests at a time.  [default: {DEFAULT_MAX_RUNNING}]",
    ),
    click.option(
        "--max-batched-tokens",
        type=click.IntRange(1),
        help=f"Tokens per step.  [default: {DEFAULT_MAX_BATCHED_TOKENS}]",
    ),
    click.option(
        "--prefill-rate",
        type=float,
        metavar="TOKENS/S",
        help=f"Prompt tokens computed per second.  [default: {DEFAULT_PREFILL_RATE:.0f}]",
    ),
    click.option(
        "--decode-rate",
        type=float,
        metavar="TOKENS/S",
        help=f"Tokens per second of each request that generates.  [default: {DEFAULT_DECODE_RATE:.0f}]",
    ),
)
"""All of them. They reach the command together, as `**timing` by name, None where not given."""


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

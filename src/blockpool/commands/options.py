"""Options and arguments that several commands have, and what goes together with what."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from blockpool.core.hasher import HASH_ALGORITHMS
from blockpool.replay.settings import DEFAULT_HASH, RULES, WINDOWS
from blockpool.replay.sizes import blocks_for_memory, parse_block_counts
from blockpool.trace import TraceReader
from blockpool.trace.demo import DEMO_NAME
from blockpool.trace.formats import MAX_BLOCK_SIZE, TOKEN_IDS

Command = TypeVar("Command", bound=Callable[..., None])


def not_empty(context: click.Context, parameter: click.Parameter, value: str) -> str:
    """A callback that refuses an empty name."""
    if not value:
        raise click.BadParameter("the name is empty", context, parameter)
    return value


class Number(click.FloatRange):
    """A range of numbers without nan, which compares as if it were in any."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number; a usage error for what is none, or out of the range."""
        number: float = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value} is no number", param, ctx)
        return number


def all_of(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Several options, or arguments, as one decorator; the help lists them in this order."""

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


BLOCK_SIZE = click.IntRange(1, MAX_BLOCK_SIZE)

trace_argument = click.argument("trace", callback=not_empty)

rules_option = click.option(
    "--rules",
    type=click.Choice(RULES),
    default=RULES[0],
    show_default=True,
    help="trace: as published simulators count, every block can hit; "
    "engine: as vLLM does, full blocks only, one token always computed.",
)

window_option = click.option(
    "--window",
    type=click.Choice(WINDOWS),
    default=WINDOWS[0],
    show_default=True,
    help="What is measured: all requests, or the last half after a warm-up on the first.",
)

hash_option = click.option(
    "--hash",
    "hash_algorithm",
    type=click.Choice(HASH_ALGORITHMS),
    help=f"How token ids are hashed; for token-id traces only.  [default: {DEFAULT_HASH}]",
)

sort_option = click.option(
    "--sort", is_flag=True, help="Play by timestamp, with the trace in memory, whatever its order."
)


block_size_option = click.option(
    "--block-size",
    type=BLOCK_SIZE,
    help="Tokens per block.  [default: 16 for token ids, 512 for mooncake]",
)

skip_bad_option = click.option("--skip-bad", is_flag=True, help="Count bad lines instead of stopping.")

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")

playing_options = all_of(
    click.option("--memory", metavar="SIZE[,SIZE...]", help="Size of the pool as memory, such as 40GiB."),
    click.option(
        "--bytes-per-block", metavar="SIZE", help="Memory of one block, such as 2MiB; goes with --memory."
    ),
    rules_option,
    window_option,
    block_size_option,
    hash_option,
    click.option(
        "--reuse-uncached-first",
        is_flag=True,
        help="Recycle blocks that can never hit before those that can.",
    ),
    skip_bad_option,
    sort_option,
    click.option(
        "--jobs",
        type=click.IntRange(1),
        help="Processes for several sizes.  [default: one per processor]",
    ),
    json_option,
)
"""The options of everything that plays a trace."""

check_options = all_of(
    click.option(
        "--check",
        is_flag=True,
        help="Check the pool's invariants after every request, with --timed after every step (slow).",
    ),
    click.option(
        "--check-every",
        type=click.IntRange(1),
        metavar="K",
        help="Check them after every K-th request, with --timed step.",
    ),
)
"""--check and --check-every, of which `check_interval` makes one number."""


def check_interval(check: bool, check_every: int | None) -> int:
    """`ReplaySettings.check_every` as the two options ask for it.

    Raises:
        UsageError: Both are given.
    """
    if check and check_every is not None:
        raise click.UsageError("either --check or --check-every")
    return check_every or int(check)


def pool_sizes(blocks: str | None, memory: str | None, bytes_per_block: str | None) -> list[int]:
    """Usable blocks of the pools that --blocks, or --memory with --bytes-per-block, ask for."""
    if (blocks is None) == (memory is None):
        raise click.UsageError(
            "give the size of the pool: either --blocks or --memory with --bytes-per-block"
        )
    if (memory is None) != (bytes_per_block is None):
        raise click.UsageError("--memory and --bytes-per-block go together")
    if blocks is not None:
        return parse_block_counts(blocks)
    return blocks_for_memory(memory or "", bytes_per_block or "")


def check_hash_is_used(
    trace: str, hash_algorithm: str | None, *, block_size: int | None, skip_bad: bool
) -> None:
    """Looks at the first request when --hash was given and the trace can be read twice."""
    if hash_algorithm is None or trace == "-" or (trace != DEMO_NAME and not Path(trace).is_file()):
        return
    reader = TraceReader(trace, block_size=block_size, skip_bad=skip_bad)
    next(iter(reader))
    check_hash_was_used(hash_algorithm, reader.format)


def check_hash_was_used(hash_algorithm: str | None, trace_format: str | None) -> None:
    """Raises a usage error when --hash was given for a trace of block ids."""
    if hash_algorithm is not None and trace_format != TOKEN_IDS:
        raise click.UsageError(f"--hash is for traces of token ids; this one has block ids ({trace_format})")

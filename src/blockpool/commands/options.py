"""Options and arguments that several commands have, and what goes together with what."""

from __future__ import annotations

from pathlib import Path

import click

from blockpool.core.hasher import HASH_ALGORITHMS
from blockpool.replay.settings import DEFAULT_HASH, RULES, WINDOWS
from blockpool.trace import TraceReader
from blockpool.trace.demo import DEMO_NAME
from blockpool.trace.formats import TOKEN_IDS


def not_empty(context: click.Context, parameter: click.Parameter, value: str) -> str:
    """A callback that refuses an empty name."""
    if not value:
        raise click.BadParameter("the name is empty", context, parameter)
    return value


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


def check_hash_is_used(
    trace: str, hash_algorithm: str | None, *, block_size: int | None, skip_bad: bool
) -> None:
    """Looks at the first request when --hash was given and the trace can be read twice."""
    if hash_algorithm is None or (trace != DEMO_NAME and not Path(trace).is_file()):
        return
    reader = TraceReader(trace, block_size=block_size, skip_bad=skip_bad)
    next(iter(reader))
    check_hash_was_used(hash_algorithm, reader.format)


def check_hash_was_used(hash_algorithm: str | None, trace_format: str | None) -> None:
    """Raises a usage error when --hash was given for a trace of block ids."""
    if hash_algorithm is not None and trace_format != TOKEN_IDS:
        raise click.UsageError(f"--hash is for traces of token ids; this one has block ids ({trace_format})")

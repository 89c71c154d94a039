"""`blockpool generate`: seeded workloads."""

from __future__ import annotations

from pathlib import Path

import click

from blockpool.commands.options import BLOCK_SIZE, not_empty
from blockpool.trace import WORKLOAD_KINDS, WRITABLE_FORMATS, generate, open_trace_for_writing, write_trace
from blockpool.trace.formats import DEFAULT_TOKEN_BLOCK_SIZE, MOONCAKE, MOONCAKE_BLOCK_SIZE
from blockpool.trace.generator import MAX_SEED


@click.command("generate", short_help="Write a seeded workload as a trace.")
@click.argument("kind", type=click.Choice(WORKLOAD_KINDS))
@click.option("--requests", "num_requests", type=click.IntRange(1), default=1000, show_default=True)
@click.option("--seed", type=click.IntRange(0, MAX_SEED), default=0, show_default=True)
@click.option(
    "--format",
    "trace_format",
    type=click.Choice(WRITABLE_FORMATS),
    default=WRITABLE_FORMATS[0],
    show_default=True,
)
@click.option(
    "--block-size",
    type=BLOCK_SIZE,
    help=f"Tokens per block; for mooncake only.  [default: {MOONCAKE_BLOCK_SIZE}]",
)
@click.option(
    "-o",
    "--output",
    default="-",
    metavar="FILE",
    callback=not_empty,
    help="Packed when it ends in .gz or .zst.  [default: stdout]",
)
def generate_command(
    kind: str, num_requests: int, seed: int, trace_format: str, block_size: int | None, output: str
) -> None:
    """Write a seeded workload: chat, agent, documents, or a mix of them.

    Equal options give equal bytes on every platform.
    """
    if block_size is not None and trace_format != MOONCAKE:
        raise click.UsageError(f"--block-size is for --format {MOONCAKE}; token ids are not cut into blocks")
    requests = generate(kind, num_requests, seed=seed, block_size=DEFAULT_TOKEN_BLOCK_SIZE)
    try:
        with open_trace_for_writing("-" if output == "-" else Path(output)) as file:
            write_trace(requests, file, trace_format, block_size=block_size or MOONCAKE_BLOCK_SIZE)
    except OSError as error:
        if error.filename is None and output != "-":
            error.filename = output
        raise

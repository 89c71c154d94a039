"""`blockpool replay`: a trace through pools of given sizes."""

from __future__ import annotations

import json
import sys

import click
from rich.console import Console

import blockpool
from blockpool.commands.options import (
    check_hash_is_used,
    check_hash_was_used,
    playing_options,
    pool_sizes,
    trace_argument,
)
from blockpool.commands.progress import progress_bar, show_fraction
from blockpool.commands.usage import as_usage
from blockpool.replay import ReplayResult, ReplaySettings, replay, replay_many, report_as_dict
from blockpool.replay.settings import DEFAULT_HASH
from blockpool.replay.tables import PLAIN_WIDTH, print_report


@click.command("replay", short_help="Play a trace through pools of given sizes.")
@trace_argument
@click.option(
    "--blocks",
    metavar="N[,N...]",
    help="Usable blocks of the pool; 10k and 1M work; several run in parallel.",
)
@playing_options
@click.option(
    "--sample-rate",
    type=click.FloatRange(0, 1, min_open=True),
    help="Share of blocks to follow for residency.  [default: about 2,000 blocks]",
)
@click.option("--check", is_flag=True, help="Check the pool's invariants after every request (slow).")
@click.option(
    "--check-every", type=click.IntRange(1), metavar="K", help="Check them after every K-th request."
)
def replay_command(
    trace: str,
    blocks: str | None,
    memory: str | None,
    bytes_per_block: str | None,
    rules: str,
    window: str,
    block_size: int | None,
    hash_algorithm: str | None,
    reuse_uncached_first: bool,
    sample_rate: float | None,
    check: bool,
    check_every: int | None,
    skip_bad: bool,
    jobs: int | None,
    as_json: bool,
) -> None:
    """Drive the pool from a trace file and report hits, evictions, occupancy, residency and speed.

    TRACE is a file of JSON lines, plain, gzip or zstd, in the mooncake, kvcache-simulator or token-id format;
    "-" is standard input, "demo" the bundled trace (a file of that name is ./demo).
    """
    if check and check_every is not None:
        raise click.UsageError("either --check or --check-every")
    sizes = as_usage(lambda: pool_sizes(blocks, memory, bytes_per_block))
    settings = as_usage(
        lambda: ReplaySettings(
            rules=rules,
            window=window,
            reuse_uncached_first=reuse_uncached_first,
            check_every=check_every or int(check),
            skip_bad=skip_bad,
            block_size=block_size,
            hash_algorithm=hash_algorithm or DEFAULT_HASH,
            sample_rate=sample_rate,
        )
    )
    check_hash_is_used(trace, hash_algorithm, block_size=block_size, skip_bad=skip_bad)
    results = _run(trace, sizes, settings, jobs)
    check_hash_was_used(hash_algorithm, results[0].trace_format)
    if as_json:
        report = report_as_dict(
            trace, settings, results, version=blockpool.__version__, compiled=blockpool.COMPILED
        )
        click.echo(json.dumps(report, indent=2, allow_nan=False))
        return
    console = Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH)
    print_report(console, trace, settings, results)


def _run(trace: str, sizes: list[int], settings: ReplaySettings, jobs: int | None) -> list[ReplayResult]:
    with progress_bar() as bar:
        if len(sizes) > 1:
            task = bar.add_task(f"{len(sizes)} pools", total=len(sizes))
            return replay_many(
                trace, sizes, settings, jobs=jobs, finished=lambda done: bar.update(task, completed=done)
            )
        show = show_fraction(bar, bar.add_task("replaying", total=None))
        return [replay(trace, sizes[0], settings, progress=None if bar.disable else show)]

"""`blockpool replay`: a trace through pools of given sizes."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

import blockpool
from blockpool.commands.html_report import html_option, html_report
from blockpool.commands.options import (
    check_hash_is_used,
    check_hash_was_used,
    playing_options,
    pool_sizes,
    trace_argument,
)
from blockpool.commands.progress import progress_bar, show_fraction
from blockpool.commands.replay_events import with_events
from blockpool.commands.timed_options import rules_for, timed_options, timed_settings
from blockpool.commands.usage import as_usage
from blockpool.replay import (
    ReplayResult,
    ReplaySettings,
    TimedResult,
    TimedSettings,
    replay,
    replay_many,
    replay_timed,
    replay_timed_many,
    report_as_dict,
    timed_report_as_dict,
)
from blockpool.replay.settings import DEFAULT_HASH
from blockpool.replay.tables import PLAIN_WIDTH, print_report
from blockpool.replay.timed.timed_tables import print_timed_report

if TYPE_CHECKING:
    from blockpool.replay.html.page import Page


@click.command("replay", short_help="Play a trace through pools of given sizes.")
@with_events
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
@click.option(
    "--check",
    is_flag=True,
    help="Check the pool's invariants after every request, with --timed after every step (slow).",
)
@click.option(
    "--check-every",
    type=click.IntRange(1),
    metavar="K",
    help="Check them after every K-th request, with --timed step.",
)
@click.option(
    "--explain", is_flag=True, help="Say why blocks missed: sums per reason and tag, costliest requests."
)
@click.option(
    "--tag",
    metavar="FIELD",
    help="Field of the trace to sum misses by; goes with --explain.  [default: session_id, where there is one]",
)
@timed_options
@html_option
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
    explain: bool,
    tag: str | None,
    skip_bad: bool,
    sort: bool,
    jobs: int | None,
    as_json: bool,
    html: str | None,
    timed: bool,
    **timing: Any,
) -> None:
    """Drive the pool from a trace file and report hits, evictions, occupancy, residency and speed.

    TRACE is a file of JSON lines, plain, gzip or zstd, in the mooncake, kvcache-simulator or token-id format;
    "-" is standard input, "demo" the bundled trace (a file of that name is ./demo). Or it is a recording of events, as
    `blockpool record` makes them: then the index is reconstructed, and what became of its blocks is told.
    """
    if check and check_every is not None:
        raise click.UsageError("either --check or --check-every")
    if tag is not None and not explain:
        raise click.UsageError("--tag goes with --explain")
    engine = timed_settings(timed, timing)
    sizes = as_usage(lambda: pool_sizes(blocks, memory, bytes_per_block))
    settings = as_usage(
        lambda: ReplaySettings(
            rules=rules_for(timed, rules),
            window=window,
            reuse_uncached_first=reuse_uncached_first,
            check_every=check_every or int(check),
            skip_bad=skip_bad,
            sort=sort,
            block_size=block_size,
            hash_algorithm=hash_algorithm or DEFAULT_HASH,
            sample_rate=sample_rate,
            explain=explain,
            tag=tag,
        )
    )
    check_hash_is_used(trace, hash_algorithm, block_size=block_size, skip_bad=skip_bad)
    if engine is not None:
        _replay_timed(trace, sizes, engine, settings, jobs, hash_algorithm, as_json)
        return
    with html_report(html, trace) as write:
        results = as_usage(
            lambda: _run(trace, sizes, settings, jobs, pictures=html is not None), fields=("sort",)
        )
        check_hash_was_used(hash_algorithm, results[0].trace_format)

        def page() -> Page:
            from blockpool.replay.html.replay_page import replay_page

            return replay_page(trace, settings, results)

        write(page)
    if as_json:
        report = report_as_dict(
            trace, settings, results, version=blockpool.__version__, compiled=blockpool.COMPILED
        )
        click.echo(json.dumps(report, indent=2, allow_nan=False))
        return
    console = Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH)
    print_report(console, trace, settings, results)


def _run(
    trace: str, sizes: list[int], settings: ReplaySettings, jobs: int | None, *, pictures: bool
) -> list[ReplayResult]:
    with progress_bar() as bar:
        if len(sizes) > 1:
            task = bar.add_task(f"{len(sizes)} pools", total=len(sizes))
            return replay_many(
                trace,
                sizes,
                settings,
                jobs=jobs,
                pictures=pictures,
                finished=lambda done: bar.update(task, completed=done),
            )
        show = show_fraction(bar, bar.add_task("replaying", total=None))
        progress = None if bar.disable else show
        return [replay(trace, sizes[0], settings, pictures=pictures, progress=progress)]


def _replay_timed(
    trace: str,
    sizes: list[int],
    engine: TimedSettings,
    settings: ReplaySettings,
    jobs: int | None,
    hash_algorithm: str | None,
    as_json: bool,
) -> None:
    results = as_usage(
        lambda: _run_timed(trace, sizes, engine, settings, jobs), fields=("sort", "speed", "arrival_rate")
    )
    check_hash_was_used(hash_algorithm, results[0].trace_format)
    if as_json:
        report = timed_report_as_dict(
            trace, engine, settings, results, version=blockpool.__version__, compiled=blockpool.COMPILED
        )
        click.echo(json.dumps(report, indent=2, allow_nan=False))
        return
    console = Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH)
    print_timed_report(console, trace, engine, settings, results)


def _run_timed(
    trace: str, sizes: list[int], engine: TimedSettings, settings: ReplaySettings, jobs: int | None
) -> list[TimedResult]:
    with progress_bar() as bar:
        if len(sizes) > 1:
            task = bar.add_task(f"{len(sizes)} pools", total=len(sizes))
            return replay_timed_many(
                trace,
                sizes,
                engine,
                settings,
                jobs=jobs,
                finished=lambda done: bar.update(task, completed=done),
            )
        show = show_fraction(bar, bar.add_task("replaying", total=None))
        return [replay_timed(trace, sizes[0], engine, settings, progress=None if bar.disable else show)]

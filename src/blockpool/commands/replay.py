"""`blockpool replay`: a trace through pools of given sizes."""

from __future__ import annotations

from typing import Any

import click

from blockpool.commands.attention_option import attention_option, rules_for
from blockpool.commands.html_report import html_option, html_report
from blockpool.commands.options import (
    Number,
    check_hash_is_used,
    check_hash_was_used,
    check_interval,
    check_options,
    playing_options,
    pool_sizes,
    trace_argument,
)
from blockpool.commands.output import print_json, table_console
from blockpool.commands.progress import fraction_task, progress_bar
from blockpool.commands.publishing import PUBLISH_OPTIONS
from blockpool.commands.recorded import RECORDING_OPTIONS
from blockpool.commands.replay_events import with_events
from blockpool.commands.replay_ways import ReplayWay, Result, one_after_the_other, side_by_side
from blockpool.commands.sections import SectionedCommand
from blockpool.commands.timed_options import TIMED_OPTIONS, timed_options, timed_settings
from blockpool.commands.usage import as_usage
from blockpool.replay import ReplaySettings
from blockpool.replay.settings import DEFAULT_HASH, FULL_ATTENTION, TRACE_RULES


class _ReplayCommand(SectionedCommand):
    sections = (
        ("Size of the pool", ("blocks", "memory", "bytes_per_block", "jobs")),
        ("The trace", ("block_size", "hash_algorithm", "skip_bad", "sort")),
        (
            "How it is played",
            ("rules", "attention", "window", "reuse_uncached_first", "check", "check_every"),
        ),
        ("Side by side", TIMED_OPTIONS),
        ("Publish events", PUBLISH_OPTIONS),
        ("Recordings of events", RECORDING_OPTIONS),
        ("What is told", ("explain", "tag", "sample_rate", "as_json", "html")),
    )


@click.command("replay", cls=_ReplayCommand, short_help="Play a trace through pools of given sizes.")
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
    type=Number(0, 1, min_open=True),
    help="Share of blocks to follow for residency.  [default: about 2,000 blocks]",
)
@check_options
@click.option(
    "--explain/--no-explain",
    default=None,
    help="Say why blocks missed: sums per reason and tag, costliest requests.  [default: only for --html]",
)
@click.option(
    "--tag",
    metavar="FIELD",
    help="Field of the trace to sum misses by; goes with --explain.  [default: session_id, where there is one]",
)
@attention_option
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
    explain: bool | None,
    tag: str | None,
    skip_bad: bool,
    sort: bool,
    jobs: int | None,
    as_json: bool,
    html: str | None,
    attention: str,
    timed: bool,
    **timing: Any,
) -> None:
    """Drive the pool from a trace file and report hits, evictions, occupancy, residency and speed.

    TRACE is a file of JSON lines, plain, gzip or zstd, in the mooncake, kvcache-simulator or token-id format;
    "-" is standard input, "demo" the bundled trace (a file of that name is ./demo). Or it is a recording of events, as
    `blockpool record` makes them: then the index is reconstructed, and what became of its blocks is told.
    """
    interval = check_interval(check, check_every)
    engine = timed_settings(timed, timing)
    sizes = as_usage(lambda: pool_sizes(blocks, memory, bytes_per_block))
    if jobs is not None and len(sizes) == 1:
        raise click.UsageError("--jobs goes with several sizes")
    settings = as_usage(
        lambda: ReplaySettings(
            rules=rules_for(rules, timed=timed, attention=attention),
            window=window,
            reuse_uncached_first=reuse_uncached_first,
            check_every=interval,
            skip_bad=skip_bad,
            sort=sort,
            block_size=block_size,
            hash_algorithm=hash_algorithm or DEFAULT_HASH,
            sample_rate=sample_rate,
            explain=_is_explained(explain, tag, html, attention),
            tag=tag,
            attention=attention,
        )
    )
    if reuse_uncached_first and not timed and settings.rules == TRACE_RULES:
        raise click.UsageError("--reuse-uncached-first: by trace rules all blocks are cached; --rules engine")
    check_hash_is_used(trace, hash_algorithm, block_size=block_size, skip_bad=skip_bad)
    if engine is None:
        _replay(one_after_the_other(settings), trace, sizes, jobs, hash_algorithm, as_json, html)
    else:
        _replay(side_by_side(settings, engine), trace, sizes, jobs, hash_algorithm, as_json, html)


def _is_explained(explain: bool | None, tag: str | None, html: str | None, attention: str) -> bool:
    """A report explains misses of full attention unless told not to; without one, only --explain does."""
    if explain is False and html is None:
        raise click.UsageError(
            "--no-explain goes with --html: without it misses are explained on demand only"
        )
    by_itself = html is not None and attention == FULL_ATTENTION
    is_explained = by_itself if explain is None else explain
    if tag is not None and not is_explained:
        raise click.UsageError("--tag goes with --explain")
    return is_explained


def _replay(
    way: ReplayWay[Result],
    trace: str,
    sizes: list[int],
    jobs: int | None,
    hash_algorithm: str | None,
    as_json: bool,
    html: str | None,
) -> None:
    """Plays, writes the report if there is to be one, then prints."""
    with html_report(html, trace) as write:
        results = as_usage(
            lambda: _play(way, trace, sizes, jobs, pictures=html is not None), fields=way.usage_fields
        )
        check_hash_was_used(hash_algorithm, results[0].trace_format)
        write(lambda: way.page(trace=trace, results=results))
    if as_json:
        print_json(way.as_dict(trace=trace, results=results))
    else:
        way.print(console=table_console(), trace=trace, results=results)


def _play(
    way: ReplayWay[Result], trace: str, sizes: list[int], jobs: int | None, *, pictures: bool
) -> list[Result]:
    with progress_bar() as bar:
        if len(sizes) > 1:
            task = bar.add_task(f"{len(sizes)} pools", total=len(sizes))
            return way.play_many(
                trace,
                sizes,
                jobs=jobs,
                pictures=pictures,
                finished=lambda done: bar.update(task, completed=done),
            )
        progress = fraction_task(bar, "replaying")
        return [way.play_one(trace, sizes[0], pictures=pictures, progress=progress)]

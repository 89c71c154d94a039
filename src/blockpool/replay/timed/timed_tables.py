"""Timed results as tables for people. Needs the package rich."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from blockpool.errors import printable
from blockpool.replay.misses.miss_tables import print_misses, print_reasons_by_size
from blockpool.replay.settings import ReplaySettings
from blockpool.replay.tables import (
    refused_words,
    residency_table,
    setting_words,
    spread,
    trimmed,
)
from blockpool.replay.timed.timed_result import TimedResult
from blockpool.replay.timed.timed_settings import TimedSettings
from blockpool.replay.whole_tables import print_whole, quantile_cells


def print_timed_report(
    console: Console,
    trace: str,
    timed: TimedSettings,
    settings: ReplaySettings,
    results: Sequence[TimedResult],
) -> None:
    """Prints a row per size when there are several, and everything about the first."""
    first = results[0]
    with trimmed(console):
        # A long path is not wrapped: whoever copies it shall have it whole.
        title = printable(f"{trace}: {setting_words(settings, first.trace_format)}")
        console.print(title, soft_wrap=True, markup=False, highlight=False)
        console.print(_engine_words(timed), soft_wrap=True, markup=False, highlight=False)
        if len(results) > 1:
            print_whole(console, _sizes_table(results))
            if any(result.counts.refused for result in results):
                console.print("Rates are over the requests that were played, without the refused ones.\n")
            reports = [result.misses for result in results if result.misses is not None]
            if reports:
                print_reasons_by_size(console, [result.blocks for result in results], reports)
            console.print(f"details: pool of {first.blocks:,} blocks", highlight=False)
        print_whole(console, _details(first))
        print_whole(console, _waiting_table(first))
        if first.occupancy_points:
            print_whole(console, _occupancy_table(first))
        if first.counts.evictions:
            print_whole(console, residency_table(first.residency))
        else:
            console.print("residency: no block was evicted", highlight=False)
        if first.misses is not None:
            print_misses(console, first.misses)


def _engine_words(timed: TimedSettings) -> str:
    words = [
        f"at most {timed.max_running:,} running",
        f"{timed.max_batched_tokens:,} tokens per step",
        f"prefill {timed.prefill_rate:,g} tokens/s",
        f"decode {timed.decode_rate:,g} tokens/s each",
    ]
    if timed.speed is not None:
        words.insert(0, f"{timed.speed:g}x speed")
    if timed.arrival_rate is not None:
        words.insert(0, f"{timed.arrival_rate:g} requests/s (seed {timed.seed})")
    return "timed: " + ", ".join(words)


def _sizes_table(results: Sequence[TimedResult]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    headings = ("blocks", "hit tokens", "rate", "alone", "preempted", "queue p90 s", "makespan s", "refused")
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    for result in results:
        counts = result.counts
        table.add_row(
            f"{result.blocks:,}",
            f"{counts.hit_tokens:,}",
            f"{counts.token_hit_rate:.2%}",
            f"{result.sequential.token_hit_rate:.2%}",
            f"{result.preemption.preemptions:,}",
            quantile_cells(result.queueing)[1],
            f"{result.makespan:,.0f}",
            f"{counts.refused:,}",
        )
    return table


def _details(result: TimedResult) -> Table:
    counts, preemption, alone = result.counts, result.preemption, result.sequential
    table = Table(box=box.SIMPLE_HEAD, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column()
    table.add_row("pool", f"{result.blocks:,} blocks")
    table.add_row("requests", f"{counts.requests:,}{refused_words(counts)}")
    if result.bad_lines:
        table.add_row("bad lines", f"{result.bad_lines:,} skipped")
    table.add_row(
        "tokens hit", f"{counts.hit_tokens:,} of {counts.prompt_tokens:,} = {counts.token_hit_rate:.2%}"
    )
    table.add_row(
        "the same, alone",
        f"{alone.hit_tokens:,} of {alone.prompt_tokens:,} = {alone.token_hit_rate:.2%}, "
        "in a plain replay: each done before the next begins",
    )
    table.add_row(
        "blocks hit", f"{counts.hit_blocks:,} of {counts.prompt_blocks:,} = {counts.block_hit_rate:.2%}"
    )
    table.add_row("evictions", f"{counts.evictions:,} blocks")
    table.add_row("preemptions", f"{preemption.preemptions:,}{_resumed_words(result)}")
    table.add_row("running", f"{result.running_mean:,.1f} on average, at most {result.running_max:,}")
    table.add_row("makespan", f"{result.makespan:,.1f} s in {result.steps:,} steps")
    table.add_row(
        "speed", f"{result.requests_per_second:,.0f} requests/s, {result.blocks_per_second:,.0f} blocks/s"
    )
    return table


def _resumed_words(result: TimedResult) -> str:
    preemption = result.preemption
    if not preemption.resumed:
        return ""
    return (
        f"; on resuming {preemption.resumed_hit_tokens:,} of {preemption.resumed_tokens:,} tokens found again, "
        f"{preemption.recomputed_tokens:,} recomputed"
    )


def _waiting_table(result: TimedResult) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("from arrival to (seconds)", no_wrap=True)
    for heading in ("samples", "median", "p90", "p99"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, quantiles in (("admission", result.queueing), ("first token", result.first_token)):
        table.add_row(name, f"{quantiles.samples:,}", *quantile_cells(quantiles))
    return table


def _occupancy_table(result: TimedResult) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("occupancy (blocks)", no_wrap=True)
    for heading in ("in use", "cached, idle", "blank"):
        table.add_column(heading, justify="right", no_wrap=True)
    for point in spread(result.occupancy_points):
        seconds = (point.time_ms or 0.0) / 1000
        table.add_row(f"{seconds:,.1f} s", *(f"{blocks:,}" for blocks in point[2:]))
    means = result.occupancy_means
    if means is not None:
        table.add_row("mean over time", *(f"{mean:,.1f}" for mean in means))
    return table

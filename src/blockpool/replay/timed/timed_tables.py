"""Timed results as tables for people. Needs the package rich."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from blockpool.replay.settings import ReplaySettings
from blockpool.replay.tables import (
    cache_rows,
    facts_table,
    hit_tokens_words,
    numbers_table,
    occupancy_table,
    played_rows,
    print_results,
    quantiles_table,
    setting_words,
    speed_row,
)
from blockpool.replay.timed.timed_result import TimedResult
from blockpool.replay.timed.timed_settings import TimedSettings
from blockpool.replay.whole_tables import quantile_cells


def print_timed_report(
    console: Console,
    trace: str,
    timed: TimedSettings,
    settings: ReplaySettings,
    results: Sequence[TimedResult],
) -> None:
    """Prints a row per size when there are several, and everything about the first."""
    titles = [f"{trace}: {setting_words(settings, results[0].trace_format)}", _engine_words(timed)]
    print_results(console, titles, results, _sizes_table, _details)


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
    headings = ("blocks", "hit tokens", "rate", "alone", "preempted", "queue p90 s", "makespan s", "refused")
    table = numbers_table("", headings)
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


def _details(result: TimedResult) -> list[Table]:
    counts = result.counts
    alone = "in a plain replay: each done before the next begins"
    rows = [
        *played_rows(result),
        ("tokens hit", hit_tokens_words(counts)),
        ("the same, alone", f"{hit_tokens_words(result.sequential)}, {alone}"),
        *cache_rows(counts),
        ("preemptions", f"{result.preemption.preemptions:,}{_resumed_words(result)}"),
        ("running", f"{result.running_mean:,.1f} on average, at most {result.running_max:,}"),
        ("makespan", f"{result.makespan:,.1f} s in {result.steps:,} steps"),
        speed_row(result),
    ]
    waiting = (("admission", result.queueing), ("first token", result.first_token))
    tables = [facts_table(rows), quantiles_table("from arrival to (seconds)", waiting)]
    if result.occupancy_points:
        tables.append(
            occupancy_table(result, lambda point: f"{(point.time_ms or 0.0) / 1000:,.1f} s", "mean over time")
        )
    return tables


def _resumed_words(result: TimedResult) -> str:
    preemption = result.preemption
    if not preemption.resumed:
        return ""
    return (
        f"; on resuming {preemption.resumed_hit_tokens:,} of {preemption.resumed_tokens:,} tokens found again, "
        f"{preemption.recomputed_tokens:,} recomputed"
    )

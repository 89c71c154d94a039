"""Results of a plain replay as tables for people. Needs the package rich."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from blockpool.replay.result import ReplayResult
from blockpool.replay.settings import ReplaySettings
from blockpool.replay.tables import (
    cache_rows,
    facts_table,
    hit_tokens_words,
    numbers_table,
    occupancy_table,
    played_rows,
    print_results,
    setting_words,
    speed_row,
)


def print_report(
    console: Console, trace: str, settings: ReplaySettings, results: Sequence[ReplayResult]
) -> None:
    """Prints a row per size when there are several, and everything about the first."""
    titles = [f"{trace}: {setting_words(settings, results[0].trace_format)}"]
    print_results(console, titles, results, _sizes_table, _details)


def _sizes_table(results: Sequence[ReplayResult]) -> Table:
    headings = ("blocks", "hit tokens", "rate", "hit blocks", "rate", "evictions", "refused")
    table = numbers_table("", headings)
    for result in results:
        counts = result.counts
        table.add_row(
            f"{result.blocks:,}",
            f"{counts.hit_tokens:,}",
            f"{counts.token_hit_rate:.2%}",
            f"{counts.hit_blocks:,}",
            f"{counts.block_hit_rate:.2%}",
            f"{counts.evictions:,}",
            f"{counts.refused:,}",
        )
    return table


def _details(result: ReplayResult) -> tuple[Table, ...]:
    rows = [
        *played_rows(result),
        ("tokens hit", hit_tokens_words(result.counts)),
        *cache_rows(result.counts),
        speed_row(result),
    ]
    occupancy = occupancy_table(result, lambda point: f"request {point.request + 1:,}", "mean")
    return facts_table(rows), occupancy

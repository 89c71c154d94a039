"""What the tables of all results have in common: their frame, and what every way of playing tells. Needs rich."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from rich import box
from rich.console import Console
from rich.table import Table

from blockpool.errors import printable
from blockpool.replay.misses.miss_tables import print_misses, print_reasons_by_size
from blockpool.replay.occupancy import OccupancyPoint
from blockpool.replay.residency import Quantiles, Residency
from blockpool.replay.result import PoolResult, WindowCounts
from blockpool.replay.settings import WHOLE_TRACE, ReplaySettings
from blockpool.replay.whole_tables import print_whole, quantile_cells

PLAIN_WIDTH = 80
"""Columns of what is printed into a file or a pipe."""

_OCCUPANCY_ROWS = 5
_BLANKS = " \t\r\n\u2800"

Result = TypeVar("Result", bound=PoolResult)


def print_results(
    console: Console,
    titles: Sequence[str],
    results: Sequence[Result],
    sizes_table: Callable[[Sequence[Result]], Table],
    details: Callable[[Result], Sequence[Table]],
) -> None:
    """Prints a row per size when there are several, and everything about the first.

    Args:
        console: Where to.
        titles: Lines above it all.
        results: One per size, at least one.
        sizes_table: Makes the rows.
        details: Make the tables of one size, before those of its residency and its misses.
    """
    first = results[0]
    with trimmed(console):
        for title in titles:
            print_title(console, title)
        if len(results) > 1:
            print_whole(console, sizes_table(results))
            if any(result.counts.refused for result in results):
                console.print("Rates are over the requests that were played, without the refused ones.\n")
            reports = [result.misses for result in results if result.misses is not None]
            if reports:
                print_reasons_by_size(console, [result.blocks for result in results], reports)
            console.print(f"details: pool of {first.blocks:,} blocks", highlight=False)
        for table in details(first):
            print_whole(console, table)
        if first.counts.evictions:
            print_whole(console, _residency_table(first.residency))
        else:
            console.print("residency: no block was evicted", highlight=False)
        if first.misses is not None:
            print_misses(console, first.misses)


@contextmanager
def trimmed(console: Console) -> Iterator[None]:
    """Takes the blanks, those of a plot too, off the ends of what is printed in its block."""
    with console.capture() as capture:
        yield
    lines = [line.rstrip(_BLANKS) for line in capture.get().rstrip(_BLANKS).splitlines()]
    console.file.write("\n".join(lines) + "\n")


def print_title(console: Console, title: str) -> None:
    """Prints a line that may hold a path: it is not wrapped, so that whoever copies the path has it whole."""
    console.print(printable(title), soft_wrap=True, markup=False, highlight=False)


def setting_words(settings: ReplaySettings, trace_format: str | None) -> str:
    """How the trace was played, in words."""
    words = [f"{settings.rules} rules"]
    if trace_format:
        words.insert(0, f"{trace_format} trace")
    if not settings.is_full_attention:
        words.append(f"attention {settings.attention}")
    if settings.window != WHOLE_TRACE:
        words.append(f"{settings.window} measured")
    if settings.reuse_uncached_first:
        words.append("uncached blocks reused first")
    if settings.check_every:
        words.append("invariants checked")
    return ", ".join(words)


def facts_table(rows: Iterable[tuple[str, str]]) -> Table:
    """Names and what they are, without headings."""
    table = Table(box=box.SIMPLE_HEAD, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column()
    for row in rows:
        table.add_row(*row)
    return table


def numbers_table(names: str, headings: Iterable[str]) -> Table:
    """A table without rows whose first column has names, if it is to have a heading, and all others numbers."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    if names:
        table.add_column(names, no_wrap=True)
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def played_rows(result: PoolResult) -> list[tuple[str, str]]:
    """The pool and the requests."""
    counts = result.counts
    refused = ", none refused"
    if counts.refused:
        refused = f", {counts.refused:,} refused (largest needs {counts.largest_refused_blocks:,} blocks)"
    rows = [("pool", f"{result.blocks:,} blocks"), ("requests", f"{counts.requests:,}{refused}")]
    if result.bad_lines:
        rows.append(("bad lines", f"{result.bad_lines:,} skipped"))
    return rows


def hit_tokens_words(counts: WindowCounts) -> str:
    """How many of the tokens."""
    return f"{counts.hit_tokens:,} of {counts.prompt_tokens:,} = {counts.token_hit_rate:.2%}"


def cache_rows(counts: WindowCounts) -> list[tuple[str, str]]:
    """Blocks that hit, and evictions."""
    hits = f"{counts.hit_blocks:,} of {counts.prompt_blocks:,} = {counts.block_hit_rate:.2%}"
    return [("blocks hit", hits), ("evictions", f"{counts.evictions:,} blocks")]


def speed_row(result: PoolResult) -> tuple[str, str]:
    """How fast it was played, by the wall clock."""
    return (
        "speed",
        f"{result.requests_per_second:,.0f} requests/s, {result.blocks_per_second:,.0f} blocks/s",
    )


def occupancy_table(result: PoolResult, name: Callable[[OccupancyPoint], str], mean_name: str) -> Table:
    """A few points of the occupancy, and the means.

    Args:
        result: What was played.
        name: What a point is called.
        mean_name: What the means are called.
    """
    table = numbers_table("occupancy (blocks)", ("in use", "cached, idle", "blank"))
    for point in _spread(result.occupancy_points):
        table.add_row(name(point), *(f"{blocks:,}" for blocks in point[2:]))
    if result.occupancy_means is not None:
        table.add_row(mean_name, *(f"{mean:,.1f}" for mean in result.occupancy_means))
    return table


def _spread(points: Sequence[OccupancyPoint]) -> list[OccupancyPoint]:
    """A few points, evenly spread from the first to the last."""
    if not points:
        return []
    last = len(points) - 1
    positions = {round(last * row / (_OCCUPANCY_ROWS - 1)) for row in range(_OCCUPANCY_ROWS)}
    return [points[position] for position in sorted(positions)]


def quantiles_table(name: str, rows: Iterable[tuple[str, Quantiles]]) -> Table:
    """A row per name: samples, median, p90 and p99."""
    table = numbers_table(name, ("samples", "median", "p90", "p99"))
    for row_name, quantiles in rows:
        table.add_row(row_name, f"{quantiles.samples:,}", *quantile_cells(quantiles))
    return table


def _residency_table(residency: Residency) -> Table:
    rows = (("lifetime", residency.lifetime), ("idle", residency.idle), ("reuse gap", residency.reuse_gap))
    return quantiles_table(f"residency ({residency.unit})", rows)

"""Results as tables for people. Needs the package rich."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich import box
from rich.console import Console
from rich.table import Table

from blockpool.errors import printable
from blockpool.replay.misses.miss_tables import print_misses, print_reasons_by_size
from blockpool.replay.occupancy import OccupancyPoint
from blockpool.replay.residency import Residency
from blockpool.replay.result import ReplayResult, WindowCounts
from blockpool.replay.settings import ReplaySettings
from blockpool.replay.whole_tables import print_whole, quantile_cells

PLAIN_WIDTH = 80

_OCCUPANCY_ROWS = 5


def print_report(
    console: Console, trace: str, settings: ReplaySettings, results: Sequence[ReplayResult]
) -> None:
    """Prints a row per size when there are several, and everything about the first."""
    first = results[0]
    with trimmed(console):
        # A long path is not wrapped: whoever copies it shall have it whole.
        title = printable(f"{trace}: {setting_words(settings, first.trace_format)}")
        console.print(title, soft_wrap=True, markup=False, highlight=False)
        if len(results) > 1:
            print_whole(console, _sizes_table(results))
            if any(result.counts.refused for result in results):
                console.print("Rates are over the requests that were played, without the refused ones.\n")
            reports = [result.misses for result in results if result.misses is not None]
            if reports:
                print_reasons_by_size(console, [result.blocks for result in results], reports)
            console.print(f"details: pool of {first.blocks:,} blocks", highlight=False)
        print_whole(console, _details(first))
        print_whole(console, _occupancy_table(first))
        if first.counts.evictions:
            print_whole(console, residency_table(first.residency))
        else:
            console.print("residency: no block was evicted", highlight=False)
        if first.misses is not None:
            print_misses(console, first.misses)


@contextmanager
def trimmed(console: Console) -> Iterator[None]:
    """Takes the blanks off the ends of what is printed in its block."""
    with console.capture() as capture:
        yield
    lines = [line.rstrip() for line in capture.get().rstrip().splitlines()]
    console.file.write("\n".join(lines) + "\n")


def setting_words(settings: ReplaySettings, trace_format: str | None) -> str:
    """How the trace was played, in words."""
    words = [f"{settings.rules} rules"]
    if trace_format:
        words.insert(0, f"{trace_format} trace")
    if not settings.is_full_attention:
        words.append(f"attention {settings.attention}")
    if settings.window != "all":
        words.append(f"{settings.window} measured")
    if settings.reuse_uncached_first:
        words.append("uncached blocks reused first")
    if settings.check_every:
        words.append("invariants checked")
    return ", ".join(words)


def _sizes_table(results: Sequence[ReplayResult]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("blocks", "hit tokens", "rate", "hit blocks", "rate", "evictions", "refused"):
        table.add_column(heading, justify="right", no_wrap=True)
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


def _details(result: ReplayResult) -> Table:
    counts = result.counts
    table = Table(box=box.SIMPLE_HEAD, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column()
    table.add_row("pool", f"{result.blocks:,} blocks")
    table.add_row("requests", f"{counts.requests:,}{refused_words(result.counts)}")
    if result.bad_lines:
        table.add_row("bad lines", f"{result.bad_lines:,} skipped")
    table.add_row(
        "tokens hit", f"{counts.hit_tokens:,} of {counts.prompt_tokens:,} = {counts.token_hit_rate:.2%}"
    )
    table.add_row(
        "blocks hit", f"{counts.hit_blocks:,} of {counts.prompt_blocks:,} = {counts.block_hit_rate:.2%}"
    )
    table.add_row("evictions", f"{counts.evictions:,} blocks")
    table.add_row(
        "speed", f"{result.requests_per_second:,.0f} requests/s, {result.blocks_per_second:,.0f} blocks/s"
    )
    return table


def refused_words(counts: WindowCounts) -> str:
    """What follows the number of requests."""
    if not counts.refused:
        return ", none refused"
    wanted = counts.largest_refused_blocks
    return f", {counts.refused:,} refused (largest needs {wanted:,} blocks)"


def _occupancy_table(result: ReplayResult) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("occupancy (blocks)", no_wrap=True)
    for heading in ("in use", "cached, idle", "blank"):
        table.add_column(heading, justify="right", no_wrap=True)
    for point in spread(result.occupancy_points):
        table.add_row(f"request {point.request + 1:,}", *(f"{blocks:,}" for blocks in point[2:]))
    means = result.occupancy_means
    if means is not None:
        table.add_row("mean", *(f"{mean:,.1f}" for mean in means))
    return table


def spread(points: Sequence[OccupancyPoint]) -> list[OccupancyPoint]:
    """A few points, evenly spread from the first to the last."""
    if not points:
        return []
    last = len(points) - 1
    positions = {round(last * row / (_OCCUPANCY_ROWS - 1)) for row in range(_OCCUPANCY_ROWS)}
    return [points[position] for position in sorted(positions)]


def residency_table(residency: Residency) -> Table:
    """Quantiles of what was evicted."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(f"residency ({residency.unit})", no_wrap=True)
    for heading in ("samples", "median", "p90", "p99"):
        table.add_column(heading, justify="right", no_wrap=True)
    rows = (("lifetime", residency.lifetime), ("idle", residency.idle), ("reuse gap", residency.reuse_gap))
    for name, quantiles in rows:
        table.add_row(name, f"{quantiles.samples:,}", *quantile_cells(quantiles))
    return table

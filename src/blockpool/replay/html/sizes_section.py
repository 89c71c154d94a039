"""All sizes that were replayed: a row and a point each, and the reasons of their misses."""

from __future__ import annotations

from collections.abc import Sequence

from blockpool.replay.html.hit_chart import HitLine, hit_chart
from blockpool.replay.html.miss_section import misses_by_size
from blockpool.replay.html.numbers import percent, whole
from blockpool.replay.html.page import Chart, DataTable, Section
from blockpool.replay.result import PoolResult


def sizes_section(
    results: Sequence[PoolResult], caption: str, headings: tuple[str, ...], rows: Sequence[tuple[str, ...]]
) -> Section | None:
    """None for a single size.

    Args:
        results: One per size.
        caption: Of the table.
        headings: Of the table.
        rows: One per result, as many cells each as there are headings.
    """
    if len(results) < 2:
        return None
    tables = (
        DataTable(caption, headings, tuple(rows), is_folded=False),
        *misses_by_size([result.blocks for result in results], [result.misses for result in results]),
    )
    chart = _chart([(result.blocks, result.counts.token_hit_rate) for result in results])
    return Section("sizes", "All sizes", _words(results), chart, tables)


def _chart(rates: Sequence[tuple[int, float]]) -> tuple[Chart, ...]:
    """A line through the hit rates of at least two sizes, else nothing."""
    points = dict(rates)
    if len(points) < 2:
        return ()
    line = HitLine("replayed", tuple(sorted(points.items())), is_steps=False, color="lru")
    best = max(points, key=lambda blocks: (points[blocks], -blocks))
    chart = hit_chart(
        "Share of the prompt tokens that were found, by size of the pool",
        f"Line through {len(points)} sizes from {whole(min(points))} to {whole(max(points))} blocks; the most, "
        f"{percent(points[best])}, at {whole(best)} blocks.",
        [line],
    )
    return (chart,)


def _words(results: Sequence[PoolResult]) -> tuple[str, ...]:
    """How to read what is said of several sizes."""
    refused = any(result.counts.refused for result in results)
    return (
        "Each size is a cold pool of its own. The points were replayed; the line between them is only for the eye."
        + (" Rates are over the requests that were played, without the refused ones." if refused else ""),
        f"Everything below is about the first size, {whole(results[0].blocks)} blocks.",
    )

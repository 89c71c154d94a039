"""How long blocks stayed: histograms and quantiles of lifetime, idle time and reuse gap."""

from __future__ import annotations

from blockpool.replay.histogram import ResidencyHistograms
from blockpool.replay.html.histogram_chart import (
    BARS_WORDS,
    histogram_chart,
    histogram_table,
    quantile_row,
)
from blockpool.replay.html.numbers import percent
from blockpool.replay.html.page import DataTable, Section
from blockpool.replay.residency import Residency

_KINDS = (
    ("Lifetime", "from when a block was handed out to its eviction"),
    ("Idle", "from the last use of a block to its eviction"),
    ("Reuse gap", "from one hit of a block to its next, of the last four hits of each"),
)


def residency_section(
    residency: Residency, histograms: ResidencyHistograms | None, *, engine_time: bool = False
) -> Section | None:
    """None when nobody counted, or nothing that was followed has been evicted.

    Args:
        residency: Of one pool.
        histograms: Of the same.
        engine_time: Its clock is the engine's, not the trace's.
    """
    if histograms is None or not residency.lifetime.samples:
        return None
    unit = residency.unit
    if unit != "seconds":
        of_clock = ", for the trace has no times"
    else:
        of_clock = " on the engine's clock" if engine_time else " of the trace's own time"
    words = (
        f"Of blocks that were evicted, in {unit}{of_clock}; {percent(residency.sample_rate)} of all blocks were "
        f"followed. {BARS_WORDS} When blocks lie idle for long before they go, most of the pool keeps what nobody asks "
        "for again.",
    )
    quantiles = (residency.lifetime, residency.idle, residency.reuse_gap)
    charts, tables = [], [_quantile_table(residency)]
    for (name, what), found, bars in zip(_KINDS, quantiles, histograms, strict=True):
        if not found.samples:
            continue
        charts.append(histogram_chart(f"{name}: {what}", f"{name.lower()}, {what}", found, bars, unit))
        tables.append(histogram_table(f"{name}, the bars", bars, unit))
    return Section("residency", "How long blocks stayed", words, tuple(charts), tuple(tables))


def _quantile_table(residency: Residency) -> DataTable:
    quantiles = (residency.lifetime, residency.idle, residency.reuse_gap)
    rows = tuple(
        quantile_row(name.lower(), found) for (name, _), found in zip(_KINDS, quantiles, strict=True)
    )
    caption = f"Residency, quantiles in {residency.unit}, each within {percent(residency.relative_error)}"
    return DataTable(caption, ("", "values", "median", "p90", "p99"), rows, is_folded=False)

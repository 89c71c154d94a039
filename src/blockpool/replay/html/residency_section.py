"""How long blocks stayed: histograms and quantiles of lifetime, idle time and reuse gap."""

from __future__ import annotations

import altair as alt

from blockpool.replay.histogram import Histogram
from blockpool.replay.html.chart_data import named, spec_of
from blockpool.replay.html.numbers import percent, quantile, short, whole
from blockpool.replay.html.page import Chart, DataTable, Section
from blockpool.replay.html.palette import color
from blockpool.replay.residency import Residency
from blockpool.replay.result import ReplayResult

_HEIGHT = 190
_KINDS = (
    ("Lifetime", "from when a block was handed out to its eviction"),
    ("Idle", "from the last use of a block to its eviction"),
    ("Reuse gap", "from one hit of a block to its next, of the last four hits of each"),
)


def residency_section(result: ReplayResult) -> Section | None:
    """None when nobody counted, or nothing that was followed has been evicted."""
    if result.pictures is None or not result.residency.lifetime.samples:
        return None
    residency = result.residency
    words = (
        f"Of blocks that were evicted, in {residency.unit}"
        + (" of the trace's own time" if residency.unit == "seconds" else ", for the trace has no times")
        + f"; {percent(residency.sample_rate)} of all blocks were followed. Each bar spans about twice as much as "
        "the one before it (1 to 2, 2 to 5, 5 to 10 and so on); a value up to 2\u00a0% above an edge may be counted "
        "below it. When blocks lie idle for long before they go, most of the pool keeps what nobody asks for again.",
    )
    quantiles = (residency.lifetime, residency.idle, residency.reuse_gap)
    charts, tables = [], [_quantile_table(residency)]
    for (name, what), found, bars in zip(_KINDS, quantiles, result.pictures.histograms, strict=True):
        if not found.samples:
            continue
        description = (
            f"Histogram of {name.lower()}, {what}: {whole(found.samples)} values, median {quantile(found.median)}, "
            f"p90 {quantile(found.p90)}, p99 {quantile(found.p99)} {residency.unit}."
        )
        charts.append(Chart(f"{name}: {what}", description, _chart(bars, residency.unit)))
        tables.append(_bar_table(name, bars, found.samples, residency.unit))
    return Section("residency", "How long blocks stayed", words, tuple(charts), tuple(tables))


def _label(low: float, high: float) -> str:
    return "0" if not high else f"{short(low)}\u2013{short(high)}"


def _chart(bars: Histogram, unit: str) -> dict[str, object]:
    total = sum(bar.numbers for bar in bars)
    rows = [
        {"range": _label(bar.low, bar.high), "count": bar.numbers, "share": bar.numbers / total}
        for bar in bars
    ]
    chart = (
        alt.Chart(named("bars"))
        .mark_bar(color=color("idle"))
        .encode(
            x=alt.X(
                "range:O",
                title=unit,
                sort=[_label(bar.low, bar.high) for bar in bars],
                axis=alt.Axis(labelAngle=-45, labelOverlap=True),
                scale=alt.Scale(paddingInner=0.06),
            ),
            y=alt.Y("share:Q", title="share of values", axis=alt.Axis(format="~%", tickCount=5)),
            tooltip=[
                alt.Tooltip("range:O", title=unit),
                alt.Tooltip("count:Q", title="values", format=","),
                alt.Tooltip("share:Q", title="share", format=".2%"),
            ],
        )
        .properties(width="container", height=_HEIGHT)
    )
    return spec_of(chart, bars=rows)


def _quantile_table(residency: Residency) -> DataTable:
    rows = tuple(
        (name.lower(), whole(found.samples), *(quantile(value) for value in found[1:]))
        for (name, _), found in zip(
            _KINDS, (residency.lifetime, residency.idle, residency.reuse_gap), strict=True
        )
    )
    caption = f"Quantiles in {residency.unit}, each within {percent(residency.relative_error)}"
    return DataTable(caption, ("", "values", "median", "p90", "p99"), rows, is_folded=False)


def _bar_table(name: str, bars: Histogram, total: int, unit: str) -> DataTable:
    rows = tuple(
        (
            "0" if not bar.high else f"above {short(bar.low)} up to {short(bar.high)}",
            whole(bar.numbers),
            percent(bar.numbers / total),
        )
        for bar in bars
    )
    return DataTable(f"{name}, the bars", (unit, "values", "share"), rows)

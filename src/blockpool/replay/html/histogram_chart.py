"""Histograms as bars: a chart, and the same numbers as a table."""

from __future__ import annotations

from typing import Any

import altair as alt

from blockpool.replay.histogram import Histogram
from blockpool.replay.html.chart_data import named, spec_of
from blockpool.replay.html.numbers import percent, quantile, short, whole
from blockpool.replay.html.page import Chart, DataTable
from blockpool.replay.html.palette import color
from blockpool.replay.residency import Quantiles

BARS_WORDS = (
    "Each bar spans about twice as much as the one before it (1 to 2, 2 to 5, 5 to 10 and so on); a value up to "
    "2\u00a0% above an edge may be counted below it."
)

_HEIGHT = 190


def histogram_chart(caption: str, what: str, found: Quantiles, bars: Histogram, unit: str) -> Chart:
    """Bars of shares.

    Args:
        caption: Of the chart.
        what: What is counted, for those who cannot see it.
        found: Of the same numbers; at least one.
        bars: The histogram.
        unit: Of the numbers.
    """
    description = (
        f"Histogram of {what}: {whole(found.samples)} values, median {quantile(found.median)}, "
        f"p90 {quantile(found.p90)}, p99 {quantile(found.p99)} {unit}."
    )
    return Chart(caption, description, _spec(bars, unit))


def histogram_table(caption: str, bars: Histogram, unit: str) -> DataTable:
    """How many numbers each bar has."""
    total = sum(bar.numbers for bar in bars)
    rows = tuple(
        (
            "0" if not bar.high else f"above {short(bar.low)} up to {short(bar.high)}",
            whole(bar.numbers),
            percent(bar.numbers / total),
        )
        for bar in bars
    )
    return DataTable(caption, (unit, "values", "share"), rows)


def quantile_row(name: str, found: Quantiles) -> tuple[str, ...]:
    """Name, values, median, p90 and p99."""
    return (name, whole(found.samples), *(quantile(value) for value in found[1:]))


def _label(low: float, high: float) -> str:
    return "0" if not high else f"{short(low)}\u2013{short(high)}"


def _spec(bars: Histogram, unit: str) -> dict[str, Any]:
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

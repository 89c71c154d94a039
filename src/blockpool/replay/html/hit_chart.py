"""Hit rate over the size of the pool: curves of policies, and marked sizes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from blockpool.replay.curves.hit_curve import HitCurve
from blockpool.replay.curves.policy_table import FIFO, LRU, OPTIMAL
from blockpool.replay.html.chart_data import named, spec_of
from blockpool.replay.html.page import Chart, spread_over
from blockpool.replay.html.palette import color

_LINE_POINTS = 240
_HEIGHT = 320
_DASHES = ([1, 0], [7, 4], [2, 3])
_COLORS = (LRU, OPTIMAL, FIFO)  # of lines that name none


@dataclass(frozen=True, slots=True)
class HitLine:
    """One line.

    Attributes:
        name: For the legend.
        points: Size and hit rate (0 … 1), sizes ascending and above 0; of very many, some are drawn.
        is_steps: The rate holds from each point to the next; else the points are what is known.
        color: A name of the palette; None: the line's place decides.
    """

    name: str
    points: tuple[tuple[float, float], ...]
    is_steps: bool
    color: str | None = None


@dataclass(frozen=True, slots=True)
class SizeMark:
    """A size worth a look; `name` is written beside it."""

    name: str
    size: float
    rate: float


def curve_points(curve: HitCurve) -> list[tuple[int, float]]:
    """A bounded number of points of a curve, evenly spread on a logarithmic axis, the ends among them."""
    first, last = curve.largest_request_blocks, max(curve.last_capacity, curve.largest_request_blocks + 1)
    low, high = math.log(first), math.log(last)
    spread = (math.exp(low + (high - low) * step / _LINE_POINTS) for step in range(1, _LINE_POINTS))
    capacities = sorted({first, *(max(first, min(last, int(capacity))) for capacity in spread), last})
    return [(capacity, curve.at(capacity).token_hit_rate) for capacity in capacities]


def hit_chart(
    caption: str,
    description: str,
    lines: Sequence[HitLine],
    marks: Iterable[SizeMark] = (),
    *,
    size_title: str = "usable blocks of the pool (logarithmic)",
) -> Chart:
    """Draws lines over a logarithmic axis of sizes, the rate from 0 on.

    Args:
        caption: Of the chart.
        description: What it shows, for those who cannot see it.
        lines: At least one.
        marks: Sizes worth a look.
        size_title: Of the axis of sizes, with its unit.
    """
    x = alt.X(
        "size:Q",
        title=size_title,
        scale=alt.Scale(type="log", nice=False),
        axis=alt.Axis(format="~s", tickCount=8),
    )
    y = alt.Y(
        "rate:Q",
        title="prompt tokens found",
        scale=alt.Scale(zero=True, nice=True),
        axis=alt.Axis(format="~%"),
    )
    rows: dict[str, list[dict[str, Any]]] = {}
    layers = []
    for is_steps, name in ((True, "steps"), (False, "points")):
        rows[name] = [
            {"line": line.name, "size": size, "rate": rate}
            for line in lines
            if line.is_steps == is_steps
            for size, rate in spread_over(line.points)
        ]
        if rows[name]:
            base = alt.Chart(named(name))
            drawn = (
                base.mark_line(interpolate="step-after", strokeWidth=2.5)
                if is_steps
                else base.mark_line(strokeWidth=2, point=alt.OverlayMarkDef(size=45))
            )
            layers.append(drawn.encode(x=x, y=y, **_looks(lines)))
    # Names at different heights above the axis, so that they do not cover each other.
    rows["marks"] = [
        {"mark": mark.name, "size": mark.size, "rate": mark.rate, "place": _HEIGHT - 12 - 17 * number}
        for number, mark in enumerate(sorted(marks, key=lambda mark: -mark.size))
    ]
    if rows["marks"]:
        layers += _mark_layers(x, y)
    chart = alt.layer(*layers).properties(width="container", height=_HEIGHT)
    return Chart(caption, description, spec_of(chart, **rows))


def _looks(lines: Sequence[HitLine]) -> dict[str, Any]:
    """Colour, dashes and tooltip of each line, by its name."""
    names = [line.name for line in lines]
    colors = [color(line.color or _COLORS[number % len(_COLORS)]) for number, line in enumerate(lines)]
    dashes = [_DASHES[number % len(_DASHES)] for number in range(len(lines))]
    legend = alt.Legend(title=None, symbolType="stroke", symbolSize=500) if len(lines) > 1 else None
    return {
        "color": alt.Color("line:N", scale=alt.Scale(domain=names, range=colors), legend=legend),
        "tooltip": [
            alt.Tooltip("line:N", title="policy"),
            alt.Tooltip("size:Q", title="size", format=",.6~r"),
            alt.Tooltip("rate:Q", title="found", format=".2%"),
        ],
        "strokeDash": alt.StrokeDash("line:N", scale=alt.Scale(domain=names, range=dashes), legend=legend),
    }


def _mark_layers(x: alt.X, y: alt.Y) -> list[alt.Chart]:
    """For each mark a line down to the axis, its name beside it, and a point on the curve."""
    base = alt.Chart(named("marks")).encode(
        x=x,
        tooltip=[
            alt.Tooltip("mark:N"),
            alt.Tooltip("size:Q", format=",.6~r"),
            alt.Tooltip("rate:Q", title="found", format=".2%"),
        ],
    )
    name = {"align": "right", "dx": -6, "color": color("text"), "fontWeight": "bold"}
    return [
        base.mark_rule(strokeDash=[2, 3], color=color("mark")).encode(y=y, y2=alt.datum(0)),
        base.mark_point(filled=True, size=90, color=color("mark"), opacity=1).encode(y=y),
        base.mark_text(**name).encode(y=alt.Y("place:Q", scale=None, axis=None), text="mark:N"),
    ]

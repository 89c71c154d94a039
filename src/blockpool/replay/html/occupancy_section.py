"""How full the pool was over time: a stacked area."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import altair as alt

from blockpool.replay.html.chart_data import named, spec_of
from blockpool.replay.html.numbers import short, whole
from blockpool.replay.html.page import Chart, DataTable, Section
from blockpool.replay.html.palette import color
from blockpool.replay.occupancy import OccupancyMeans, OccupancyPoint
from blockpool.replay.result import ReplayResult
from blockpool.replay.timed.timed_result import TimedResult

STATES = ("in use", "cached, idle", "blank")
STATE_COLORS = ("inUse", "idle", "blank")

_HEIGHT = 260


_STATE_WORDS = (
    "In use: held by a request. Cached, idle: free, with content that the next look-up can find. Blank: free, with "
    "nothing to find. "
)


class _Scale(NamedTuple):
    """What runs to the right.

    Attributes:
        title: Of the axis and of the table's first column.
        places: Of the points.
        names: Of the points, in the table.
        mean_name: Of the means, in the table.
        until: The first and the last of them, in words.
    """

    title: str
    places: list[float]
    names: list[str]
    mean_name: str
    until: str


def occupancy_section(result: ReplayResult) -> Section | None:
    """None when nothing was played."""
    points, means = result.occupancy_points, result.occupancy_means
    if means is None:
        return None
    names = [whole(point.request + 1) for point in points]
    scale = _Scale(
        "request",
        [point.request + 1 for point in points],
        names,
        "mean of all",
        f"from request {names[0]} to {names[-1]}",
    )
    words = f"All blocks of the pool while a request was held. {_STATE_WORDS}" + (
        "Every request that was played is drawn."
        if result.occupancy_stride == 1
        else f"Every {whole(result.occupancy_stride)}th request is drawn; the means are over all of them."
    )
    return _section(result.blocks, points, means, scale, words)


def timed_occupancy_section(result: TimedResult) -> Section | None:
    """None when no time passed."""
    points, means = result.occupancy_points, result.occupancy_means
    if means is None:
        return None
    seconds = [(point.time_ms or 0.0) / 1000 for point in points]
    names = [f"{second:,.1f}" for second in seconds]
    scale = _Scale(
        "seconds",
        seconds,
        names,
        "mean over time",
        f"from second {names[0]} to {names[-1]} on the engine's clock",
    )
    words = (
        f"All blocks of the pool over the engine's time. {_STATE_WORDS}What is in use is lost to the cache as long as "
        f"it is held. A point is drawn every {short(result.occupancy_interval_ms / 1000)} seconds; the means are "
        "weighted by time, exactly."
    )
    return _section(result.blocks, points, means, scale, words)


def _section(
    blocks: int, points: Sequence[OccupancyPoint], means: OccupancyMeans, scale: _Scale, words: str
) -> Section:
    mean_words = ", ".join(f"{state} {mean:,.1f}" for state, mean in zip(STATES, means, strict=True))
    description = (
        f"Stacked area of the pool's {whole(blocks)} blocks {scale.until}. Mean blocks: {mean_words}."
    )
    table = DataTable(
        "Occupancy, in blocks",
        (scale.title, *STATES),
        (
            (scale.mean_name, *(f"{mean:,.1f}" for mean in means)),
            *(
                (name, *(whole(number) for number in point[2:]))
                for name, point in zip(scale.names, points, strict=True)
            ),
        ),
    )
    what = "the requests" if scale.title == "request" else "time"
    chart = Chart(f"Blocks of the pool by state, over {what}", description, _chart(blocks, points, scale))
    return Section("occupancy", "Occupancy over time", (words,), (chart,), (table,))


def _chart(blocks: int, points: Sequence[OccupancyPoint], scale: _Scale) -> dict[str, Any]:
    rows = [
        {"place": place, **dict(zip(STATES, point[2:], strict=True))}
        for place, point in zip(scale.places, points, strict=True)
    ]
    chart = (
        alt.Chart(named("points"))
        .transform_fold(list(STATES), as_=["state", "blocks"])
        .transform_calculate(order=f"indexof({list(STATES)}, datum.state)")
        .mark_area(interpolate="step-after")
        .encode(
            x=alt.X("place:Q", title=scale.title, scale=alt.Scale(nice=False, zero=False)),
            y=alt.Y("blocks:Q", title="blocks", stack="zero", scale=alt.Scale(domainMax=blocks, nice=False)),
            color=alt.Color(
                "state:N",
                scale=alt.Scale(domain=list(STATES), range=[color(name) for name in STATE_COLORS]),
                legend=alt.Legend(title=None, symbolStrokeWidth=0),
            ),
            order=alt.Order("order:Q"),
            tooltip=[
                alt.Tooltip("place:Q", title=scale.title, format=",.6~r"),
                alt.Tooltip("state:N"),
                alt.Tooltip("blocks:Q", format=","),
            ],
        )
        .properties(width="container", height=_HEIGHT)
    )
    return spec_of(chart, points=rows)

"""How full the pool was over time: a stacked area."""

from __future__ import annotations

import altair as alt

from blockpool.replay.html.chart_data import named, spec_of
from blockpool.replay.html.numbers import whole
from blockpool.replay.html.page import Chart, DataTable, Section
from blockpool.replay.html.palette import color
from blockpool.replay.result import ReplayResult

STATES = ("in use", "cached, idle", "blank")
STATE_COLORS = ("inUse", "idle", "blank")

_HEIGHT = 260


def occupancy_section(result: ReplayResult) -> Section | None:
    """None when nothing was played."""
    means = result.occupancy_means
    if means is None:
        return None
    points = result.occupancy_points
    words = (
        "All blocks of the pool while a request was held. In use: held by a request. Cached, idle: free, with content "
        "that the next look-up can find. Blank: free, with nothing to find. "
        + (
            "Every request that was played is drawn."
            if result.occupancy_stride == 1
            else f"Every {whole(result.occupancy_stride)}th request is drawn; the means are over all of them."
        ),
    )
    mean_words = ", ".join(f"{state} {mean:,.1f}" for state, mean in zip(STATES, means, strict=True))
    description = (
        f"Stacked area of the pool's {whole(result.blocks)} blocks from request {whole(points[0].request + 1)} to "
        f"{whole(points[-1].request + 1)}. Mean blocks: {mean_words}."
    )
    table = DataTable(
        "Occupancy, in blocks",
        ("request", *STATES),
        (
            ("mean of all", *(f"{mean:,.1f}" for mean in means)),
            *((whole(point.request + 1), *(whole(blocks) for blocks in point[2:])) for point in points),
        ),
    )
    chart = Chart("Blocks of the pool by state, over the requests", description, _chart(result))
    return Section("occupancy", "Occupancy over time", words, (chart,), (table,))


def _chart(result: ReplayResult) -> dict[str, object]:
    rows = [
        {"request": point.request + 1, **dict(zip(STATES, point[2:], strict=True))}
        for point in result.occupancy_points
    ]
    chart = (
        alt.Chart(named("points"))
        .transform_fold(list(STATES), as_=["state", "blocks"])
        .transform_calculate(order=f"indexof({list(STATES)}, datum.state)")
        .mark_area(interpolate="step-after")
        .encode(
            x=alt.X("request:Q", title="request", scale=alt.Scale(nice=False, zero=False)),
            y=alt.Y(
                "blocks:Q", title="blocks", stack="zero", scale=alt.Scale(domainMax=result.blocks, nice=False)
            ),
            color=alt.Color(
                "state:N",
                scale=alt.Scale(domain=list(STATES), range=[color(name) for name in STATE_COLORS]),
                legend=alt.Legend(title=None, symbolStrokeWidth=0),
            ),
            order=alt.Order("order:Q"),
            tooltip=[
                alt.Tooltip("request:Q", format=","),
                alt.Tooltip("state:N"),
                alt.Tooltip("blocks:Q", format=","),
            ],
        )
        .properties(width="container", height=_HEIGHT)
    )
    return spec_of(chart, points=rows)

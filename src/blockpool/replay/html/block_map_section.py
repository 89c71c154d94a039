"""Where in the pool blocks are in use, idle or blank, and where it hands blocks out: two maps of time by position."""

from __future__ import annotations

import itertools
from typing import Any

import altair as alt

from blockpool.replay.block_map import BlockMap
from blockpool.replay.html.chart_data import named, spec_of
from blockpool.replay.html.numbers import percent, ratio, short, whole
from blockpool.replay.html.occupancy_section import STATE_COLORS, STATES
from blockpool.replay.html.page import CANVAS, Chart, DataTable, Section
from blockpool.replay.html.palette import color

_HEIGHT = 300
_TABLE_TIMES = 8
_TABLE_BANDS = 8
_WORDS = (
    "Time runs to the right, the positions of the pool upwards: each cell is some positions at one time. Where a "
    "cell's blocks are in different states, its colour is mixed in proportion.",
    "The second map shows recycling: how often blocks were handed out since the column before. A cold pool is filled "
    "from position 1 upwards; when it is full, the blocks that were not used for the longest time are handed out "
    "again, so that strong bands wander through the positions. What stays faint is kept: its content is found again "
    "and again.",
)


def block_map_section(block_map: BlockMap) -> Section | None:
    """None when nothing was played."""
    if not block_map.columns:
        return None
    cell = "one position" if block_map.bin_blocks == 1 else f"{whole(block_map.bin_blocks)} positions"
    every = _every(block_map)
    size = f"{len(block_map.columns)} times, every {every}; {block_map.num_bins} rows of {cell} each."
    handed_out = sum(sum(column.handed_out) for column in block_map.columns)
    charts = (
        Chart(
            "State of the blocks, time by position",
            f"Heat map of block states: {size} The table below gives the shares by bands of positions.",
            _state_map(block_map),
            CANVAS,
        ),
        Chart(
            "Recycling: how often each block was handed out, time by position",
            f"Heat map of hand-outs: {size} {whole(handed_out)} blocks were handed out in all, "
            f"{handed_out / block_map.blocks:.1f} times the pool.",
            _recycling_map(block_map),
            CANVAS,
        ),
    )
    return Section("block-map", "Block map", (*_WORDS, size), charts, (_table(block_map),))


def _cells(block_map: BlockMap, *counts: str) -> Any:
    """A row per column of the map, unfolded by the reader's browser: a twentieth of the bytes."""
    size = block_map.bin_blocks
    return (
        alt.Chart(named("columns"))
        .transform_flatten([*counts])
        .transform_window(
            [alt.WindowFieldDef.from_dict({"op": "row_number", "as": "bin"})], groupby=["start"]
        )
        .transform_calculate(first=f"(datum.bin - 1) * {size} + 1")
        .transform_calculate(after=f"min(datum.first + {size}, {block_map.blocks + 1})")
        .transform_calculate(
            size="datum.after - datum.first",
            place="datum.after - datum.first == 1 ? format(datum.first, ',') : "
            "format(datum.first, ',') + ' to ' + format(datum.after - 1, ',')",
        )
        # Each covers a little of those to the right and above, or one would see seams.
        .mark_rect(strokeWidth=0, x2Offset=0.7, y2Offset=-0.7)
    )


def _columns(block_map: BlockMap, **counts: str) -> list[dict[str, object]]:
    """From where to where each column reaches, and some of its counts under other names."""
    edges = _edges(block_map)
    return [
        {
            "start": start,
            "end": end,
            **{name: getattr(column, field) for name, field in counts.items()},
        }
        for column, (start, end) in zip(block_map.columns, itertools.pairwise(edges), strict=True)
    ]


def _edges(block_map: BlockMap) -> list[float]:
    """Where the columns begin and the last one ends: requests from 1, or seconds."""
    columns = block_map.columns
    if block_map.interval_ms is None:
        return [*(column.request + 1 for column in columns), columns[-1].request + block_map.stride + 1]
    times = [column.time_ms or 0.0 for column in columns]
    return [time / 1000 for time in (*times, times[-1] + block_map.interval_ms)]


def _unit(block_map: BlockMap) -> str:
    return "request" if block_map.interval_ms is None else "second"


def _every(block_map: BlockMap) -> str:
    if block_map.interval_ms is not None:
        return f"{short(block_map.interval_ms / 1000)} seconds"
    return "request" if block_map.stride == 1 else f"{whole(block_map.stride)}th request"


def _axes(block_map: BlockMap) -> dict[str, Any]:
    edges = _edges(block_map)
    title = "request" if block_map.interval_ms is None else "seconds"
    top = block_map.blocks + 1
    return {
        "x": alt.X("start:Q", title=title, scale=alt.Scale(domain=[edges[0], edges[-1]], nice=False)),
        "x2": "end:Q",
        "y": alt.Y("first:Q", title="block position", scale=alt.Scale(domain=[1, top], nice=False)),
        "y2": "after:Q",
    }


def _mixed_color() -> str:
    """An expression: the colours of the three states, mixed by their shares."""
    shares = ("used_share", "idle_share", "blank_share")
    channels = []
    for channel in "rgb":
        parts = (
            f"datum.{share} * rgb({name}).{channel}" for share, name in zip(shares, STATE_COLORS, strict=True)
        )
        channels.append(f"round({' + '.join(parts)})")
    return "'rgb(' + " + " + ',' + ".join(channels) + " + ')'"


def _state_map(block_map: BlockMap) -> dict[str, Any]:
    cells = (
        _cells(block_map, "used", "idle")
        .transform_calculate(
            used_share="datum.used / datum.size",
            idle_share="datum.idle / datum.size",
            blank_share="(datum.size - datum.used - datum.idle) / datum.size",
        )
        .transform_calculate(mixed=_mixed_color())
        .encode(
            **_axes(block_map),
            color=alt.Color("mixed:N", scale=None),
            tooltip=[
                alt.Tooltip("start:Q", title=f"from {_unit(block_map)}", format=",.6~r"),
                alt.Tooltip("place:N", title="positions"),
                alt.Tooltip("used_share:Q", title=STATES[0], format=".1%"),
                alt.Tooltip("idle_share:Q", title=STATES[1], format=".1%"),
                alt.Tooltip("blank_share:Q", title=STATES[2], format=".1%"),
            ],
        )
    )
    legend = (
        alt.Chart(named("states"))
        .mark_square(opacity=0)
        .encode(
            fill=alt.Fill(
                "state:N",
                scale=alt.Scale(domain=list(STATES), range=[color(name) for name in STATE_COLORS]),
                legend=alt.Legend(title=None, symbolType="square", symbolOpacity=1, symbolStrokeWidth=0),
            ),
        )
    )
    chart = alt.layer(cells, legend).properties(width="container", height=_HEIGHT)
    columns = _columns(block_map, used="in_use", idle="cached_idle")
    return spec_of(chart, columns=columns, states=[{"state": state} for state in STATES])


def _recycling_map(block_map: BlockMap) -> dict[str, Any]:
    legend = alt.Legend(title="hand-outs per block", gradientLength=180)
    chart = (
        _cells(block_map, "given")
        .transform_calculate(turnover="datum.given / datum.size")
        .encode(
            **_axes(block_map),
            color=alt.Color("turnover:Q", scale=alt.Scale(range="ramp", zero=True), legend=legend),
            tooltip=[
                alt.Tooltip("start:Q", title=f"until {_unit(block_map)}", format=",.6~r"),
                alt.Tooltip("place:N", title="positions"),
                alt.Tooltip("given:Q", title="blocks handed out", format=","),
                alt.Tooltip("turnover:Q", title="per block", format=".2f"),
            ],
        )
        .properties(width="container", height=_HEIGHT)
    )
    return spec_of(chart, columns=_columns(block_map, given="handed_out"))


def _table(block_map: BlockMap) -> DataTable:
    """The maps in coarse steps: a few times by a few bands."""
    last = len(block_map.columns) - 1
    times = sorted({round(last * step / (_TABLE_TIMES - 1)) for step in range(_TABLE_TIMES)})
    bins = block_map.num_bins
    bounds = sorted({round(bins * step / _TABLE_BANDS) for step in range(_TABLE_BANDS + 1)})
    rows = []
    before = 0
    for number in times:
        column = block_map.columns[number]
        column_time = None if block_map.interval_ms is None else column.time_ms
        for low, high in itertools.pairwise(bounds):
            size = sum(block_map.bin_size(bin_number) for bin_number in range(low, high))
            used, idle = sum(column.in_use[low:high]), sum(column.cached_idle[low:high])
            given = sum(sum(each.handed_out[low:high]) for each in block_map.columns[before : number + 1])
            first = low * block_map.bin_blocks + 1
            rows.append(
                (
                    whole(column.request + 1) if column_time is None else f"{column_time / 1000:,.1f}",
                    f"{whole(first)} to {whole(first + size - 1)}",
                    percent(ratio(used, size)),
                    percent(ratio(idle, size)),
                    percent(ratio(size - used - idle, size)),
                    whole(given),
                )
            )
        before = number + 1
    headings = (_unit(block_map), "positions", *STATES, "handed out since the time before")
    return DataTable("The block maps in coarse steps", headings, tuple(rows))

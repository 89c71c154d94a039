"""Why blocks of prompts missed: a bar per reason."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from blockpool.replay.html.chart_data import named, spec_of
from blockpool.replay.html.numbers import percent, ratio, whole
from blockpool.replay.html.page import Chart, DataTable, Section
from blockpool.replay.html.palette import color

MissRow = tuple[str, int, int]
"""A reason, and the blocks and tokens that missed for it."""

_ROW_HEIGHT = 34


def miss_section(reasons: Sequence[MissRow]) -> Section | None:
    """None when there are no rows, or nothing missed."""
    rows = sorted((row for row in reasons if row[1] or row[2]), key=lambda row: (-row[2], row[0]))
    if not rows:
        return None
    blocks, tokens = sum(row[1] for row in rows), sum(row[2] for row in rows)
    values = [
        {"reason": reason, "blocks": missed, "tokens": lost, "share": ratio(lost, tokens)}
        for reason, missed, lost in rows
    ]
    chart = (
        alt.Chart(named("reasons"))
        .mark_bar(color=color("inUse"))
        .encode(
            x=alt.X("tokens:Q", title="prompt tokens that missed", axis=alt.Axis(format="~s", tickCount=6)),
            y=alt.Y("reason:N", title=None, sort=None, axis=alt.Axis(labelLimit=240)),
            tooltip=[
                alt.Tooltip("reason:N"),
                alt.Tooltip("tokens:Q", format=","),
                alt.Tooltip("share:Q", format=".2%"),
                alt.Tooltip("blocks:Q", format=","),
            ],
        )
        .properties(width="container", height=_ROW_HEIGHT * len(rows))
    )
    table = DataTable(
        "Misses by reason",
        ("reason", "blocks", "tokens", "share of missed tokens"),
        tuple(
            (reason, whole(missed), whole(lost), percent(ratio(lost, tokens)))
            for reason, missed, lost in rows
        ),
        is_folded=False,
    )
    worst = rows[0]
    description = (
        "Bars of missed prompt tokens by reason. "
        f"Most, {percent(ratio(worst[2], tokens))}, for the reason: {worst[0]}."
    )
    words = (
        f"Each of the {whole(blocks)} prompt blocks that missed ({whole(tokens)} tokens) has one reason.",
    )
    picture = Chart("Missed prompt tokens by reason", description, spec_of(chart, reasons=values))
    return Section("misses", "Why prompt blocks missed", words, (picture,), (table,))

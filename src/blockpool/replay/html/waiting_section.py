"""How long requests waited for admission and for their first token: histograms and quantiles."""

from __future__ import annotations

from blockpool.replay.html.histogram_chart import (
    BARS_WORDS,
    histogram_chart,
    histogram_table,
    quantile_row,
)
from blockpool.replay.html.numbers import percent
from blockpool.replay.html.page import DataTable, Section
from blockpool.replay.quantiles import RELATIVE_ERROR
from blockpool.replay.timed.timed_result import TimedResult

_UNIT = "seconds"


def waiting_section(result: TimedResult) -> Section | None:
    """None when nothing was admitted."""
    if not result.queueing.samples:
        return None
    waits = (
        ("Queueing", "from arrival to first admission", result.queueing),
        ("First token", "from arrival to the first generated token", result.first_token),
    )
    rows = tuple(quantile_row(name.lower(), found) for name, _, found in waits)
    caption = f"Waiting, quantiles in {_UNIT}, each within {percent(RELATIVE_ERROR)}"
    tables = [DataTable(caption, ("", "requests", "median", "p90", "p99"), rows, is_folded=False)]
    charts = []
    if result.pictures is not None:
        histograms = (result.pictures.queueing, result.pictures.first_token)
        for (name, what, found), bars in zip(waits, histograms, strict=True):
            charts.append(histogram_chart(f"{name}: {what}", f"{name.lower()}, {what}", found, bars, _UNIT))
            tables.append(histogram_table(f"{name}, the bars", bars, _UNIT))
    words = (
        "In seconds of the engine's clock. Queueing is 0 for who is admitted at once; the first token comes with the "
        f"step that completes the prompt. {BARS_WORDS}",
    )
    return Section("waiting", "How long requests waited", words, tuple(charts), tuple(tables))

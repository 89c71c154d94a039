"""Why blocks of prompts missed: a bar per reason; how long ago what was evicted; tags; the costliest requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from blockpool.replay.html.chart_data import named, spec_of
from blockpool.replay.html.histogram_chart import quantile_row
from blockpool.replay.html.numbers import percent, ratio, whole
from blockpool.replay.html.page import Chart, DataTable, Section
from blockpool.replay.html.palette import color
from blockpool.replay.misses.miss_report import MissCase, MissReport, ReasonMisses, TagMisses
from blockpool.replay.misses.reasons import EVICTED, NO_ROOM, OTHER_KEY
from blockpool.replay.misses.tags import shown_others, shown_tag

_MEANINGS = {
    "never seen": "new in every way",
    "differs": "behind a known beginning that went on differently before",
    "evicted": "one that was there, and had to make room",
    "other key": "known under another LoRA, salt or image",
    "partial block": "the last one, and not full",
    "last-token rule": "known, but at least one token of a prompt is always computed",
    "no room": "of a request that the pool is too small for",
    "behind a miss": "there, but behind one that is not",
}

_ROW_HEIGHT = 34
_MAX_TAG = 60


def miss_section(misses: MissReport | None) -> Section | None:
    """None when nobody asked, or nothing missed."""
    if misses is None or not misses.missed_blocks:
        return None
    rows = sorted((row for row in misses.reasons if row.blocks), key=lambda row: (-row.tokens, row.reason))
    worst = rows[0]
    blocks, tokens = whole(misses.missed_blocks), whole(misses.missed_tokens)
    words = (
        f"Each of the {blocks} prompt blocks that missed ({tokens} tokens) has one reason.",
        _what_size_changes(misses),
        *(() if misses.note is None else (misses.note,)),
    )
    description = (
        "Bars of missed prompt tokens by reason. "
        f"Most, {percent(ratio(worst.tokens, misses.missed_tokens))}, for the reason: {worst.reason}."
    )
    picture = Chart("Missed prompt tokens by reason", description, _spec(rows, misses.missed_tokens))
    tables = [_reasons_table(rows, misses)]
    if misses.evicted.requests_ago.samples or misses.differs_at.samples:
        tables.append(_quantiles_table(misses))
    if misses.tag is not None:
        tables.append(_tags_table(misses, misses.tag))
    tables.append(_cases_table(misses))
    return Section("misses", "Why prompt blocks missed", words, (picture,), tuple(tables))


def _what_size_changes(misses: MissReport) -> str:
    """What a larger pool would find. Of requests that run side by side it is known only that more is kept."""
    reasons = {row.reason for row in misses.reasons if row.blocks}
    words = []
    if EVICTED in reasons:
        exact = misses.evicted.blocks_too_few.samples
        words.append("finds what was evicted" if exact else "finds some of what was evicted, perhaps all")
    if NO_ROOM in reasons:
        words.append("has room for what found none")
    if not words:
        return "No size of the pool can change that."
    return f"A larger pool {', and '.join(words)}. The rest no size can change."


def misses_by_size(sizes: Sequence[int], reports: Sequence[MissReport | None]) -> tuple[DataTable, ...]:
    """The missed tokens of every reason that occurs, a row per size; nothing unless all were explained."""
    known = [report for report in reports if report is not None]
    if len(known) < len(sizes) or not any(report.missed_blocks for report in known):
        return ()
    used = [
        place for place, _ in enumerate(known[0].reasons) if any(it.reasons[place].blocks for it in known)
    ]
    rows = tuple(
        (
            whole(size),
            whole(report.missed_tokens),
            *(whole(report.reasons[place].tokens) for place in used),
        )
        for size, report in zip(sizes, known, strict=True)
    )
    headings = ("blocks", "missed tokens", *(known[0].reasons[place].reason for place in used))
    return (DataTable("Missed tokens by size and reason", headings, rows, False),)


def _spec(rows: Sequence[ReasonMisses], all_tokens: int) -> dict[str, Any]:
    values = [{**row._asdict(), "share": ratio(row.tokens, all_tokens)} for row in rows]
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
    return spec_of(chart, reasons=values)


def _reasons_table(rows: Sequence[ReasonMisses], misses: MissReport) -> DataTable:
    cells = []
    for row in rows:
        cells.append((*_reason_cells(row.reason, row, misses), _MEANINGS[row.reason]))
        if row.reason == OTHER_KEY:
            cells += [
                (*_reason_cells(f"{row.reason}: {kind.reason}", kind, misses), "")
                for kind in misses.other_keys
            ]
    headings = ("reason", "blocks", "tokens", "share of missed tokens", "each block is")
    return DataTable("Misses by reason", headings, tuple(cells), is_folded=False, ends_in_words=True)


def _reason_cells(name: str, row: ReasonMisses, misses: MissReport) -> tuple[str, str, str, str]:
    return name, whole(row.blocks), whole(row.tokens), percent(ratio(row.tokens, misses.missed_tokens))


def _quantiles_table(misses: MissReport) -> DataTable:
    evicted = misses.evicted
    named_quantiles = (
        ("evicted: seconds ago", evicted.seconds_ago),
        ("evicted: requests ago", evicted.requests_ago),
        ("evicted: blocks too few", evicted.blocks_too_few),
        ("differs: at token", misses.differs_at),
    )
    rows = tuple(
        quantile_row(name, found) for name, found in named_quantiles if found is not None and found.samples
    )
    headings = ("", "values", "median", "p90", "p99")
    return DataTable("What was evicted, and where prompts differ", headings, rows, is_folded=False)


def _tags_table(misses: MissReport, tag: str) -> DataTable:
    rows = [(_shown(shown_tag(row.tag)), *_tag_cells(row)) for row in misses.tags]
    if misses.other_tags is not None:
        others = misses.num_tags - len(misses.tags)
        rows.append((shown_others(others), *_tag_cells(misses.other_tags)))
    headings = (_shown(tag), "requests", "missed tokens", "of its tokens", "mostly")
    return DataTable(f"Misses by {_shown(tag)}, most first", headings, tuple(rows), ends_in_words=True)


def _tag_cells(row: TagMisses) -> tuple[str, ...]:
    share = percent(ratio(row.missed_tokens, row.prompt_tokens))
    return whole(row.requests), whole(row.missed_tokens), share, _mostly(row.reasons)


def _cases_table(misses: MissReport) -> DataTable:
    """Without the columns that are empty."""
    columns: list[tuple[str, list[str]]] = [
        ("where", [_place(case) for case in misses.cases]),
        ("missed tokens", [whole(case.missed_tokens) for case in misses.cases]),
        ("of", [whole(case.prompt_tokens) for case in misses.cases]),
    ]
    if misses.tag is not None:
        columns.append((_shown(misses.tag), [_shown(shown_tag(case.tag)) for case in misses.cases]))
    times = [case.time_ms for case in misses.cases]
    numbers = (
        ("seconds", [None if time is None else f"{time / 1000:,.1f}" for time in times]),
        ("differs at token", [_whole(case.differs_at) for case in misses.cases]),
        ("blocks too few", [_whole(case.blocks_too_few) for case in misses.cases]),
    )
    for heading, cells in numbers:
        if any(cell is not None for cell in cells):
            columns.append((heading, ["\u2013" if cell is None else cell for cell in cells]))
    columns.append(("mostly", [_mostly(case.reasons) for case in misses.cases]))
    headings = tuple(heading for heading, _ in columns)
    rows = tuple(zip(*(cells for _, cells in columns), strict=True))
    return DataTable(
        "The requests that missed most tokens", headings, rows, is_folded=False, ends_in_words=True
    )


def _place(case: MissCase) -> str:
    return f"request {whole(case.request + 1)}" if case.line is None else f"line {whole(case.line)}"


def _mostly(reasons: Sequence[ReasonMisses]) -> str:
    """The two reasons with most tokens, as far as they have any to speak of, and which part of them they have."""
    by_tokens = sorted((row for row in reasons if row.blocks), key=lambda row: -row.tokens)
    tokens = sum(row.tokens for row in by_tokens)
    shares = [(row.reason, round(100 * ratio(row.tokens, tokens))) for row in by_tokens[:2]]
    return ", ".join(f"{reason} {share}\u00a0%" for reason, share in shares if share)


def _shown(tag: str) -> str:
    return tag if len(tag) <= _MAX_TAG else f"{tag[: _MAX_TAG - 1]}\u2026"


def _whole(number: int | None) -> str | None:
    return None if number is None else whole(number)

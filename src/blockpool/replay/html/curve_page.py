"""The report of `blockpool curve`."""

from __future__ import annotations

from blockpool.replay.curves.curve_study import CurveRow, CurveStudy
from blockpool.replay.curves.policy_table import LRU, OPTIMAL, POLICY_TABLE, other_policies
from blockpool.replay.html.hit_chart import (
    HitLine,
    SizeMark,
    curve_points,
    hit_chart,
)
from blockpool.replay.html.numbers import percent, points, ratio, whole
from blockpool.replay.html.page import Chart, DataTable, Fact, Page, Section
from blockpool.replay.html.replay_words import playing_settings


def curve_page(study: CurveStudy) -> Page:
    """A report of a curve."""
    curve = study.curve
    knee, most = curve.at(study.knee), curve.at(curve.capacity_for_share(1.0))
    about = "" if curve.sampled is None else "about "
    answer = f"{whole(knee.capacity)} blocks find {about}{percent(knee.token_hit_rate)} of the prompt tokens."
    meaning = [
        "That is the knee: beyond it, a further block brings less than blocks do on average.",
        f"No size finds more than {about}{percent(most.token_hit_rate)}, which takes {whole(most.capacity)} blocks.",
        *_optimum_words(study),
    ]
    facts = (
        Fact("at the knee", percent(knee.token_hit_rate), f"{whole(knee.capacity)} blocks"),
        Fact("at most", percent(most.token_hit_rate), f"{whole(most.capacity)} blocks"),
        Fact("smallest pool", whole(curve.largest_request_blocks), "blocks; smaller ones refuse requests"),
        Fact("prompt tokens", whole(curve.prompt_tokens), f"in {whole(curve.requests)} requests"),
    )
    section = Section(
        "curve", "Hit rate by size", _words(study), (_chart(study),), (_rows_table(study), _line_table(study))
    )
    settings = (
        *playing_settings(study.settings, curve.trace_format, curve.bad_lines),
        Fact("exactness", _exactness(study)),
        *(
            (Fact("verified", f"replayed at {whole(len(study.verified))} sizes: the same integers"),)
            if study.verified
            else ()
        ),
    )
    return Page(study.trace, answer, tuple(meaning), facts, (section,), settings)


def _exactness(study: CurveStudy) -> str:
    if study.curve.sampled is None:
        return "exact at every size"
    lookups = study.curve.sampled.lookups
    return f"estimated from one of {whole(study.one_in)} blocks ({whole(lookups)} look-ups)"


def _optimum_words(study: CurveStudy) -> list[str]:
    for row in study.rows:
        if row.point.capacity == study.knee:
            for other in row.others:
                if other.policy == OPTIMAL:
                    rate = ratio(other.hit_tokens, row.point.prompt_tokens)
                    gain = points(rate - row.point.token_hit_rate)
                    return [f"At the knee, the best of all policies would find {percent(rate)} ({gain})."]
    return []


def _words(study: CurveStudy) -> tuple[str, ...]:
    words = [
        "The share of the prompt tokens that a pool of each size finds in its cache. The axis of sizes is logarithmic. "
        f"Below {whole(study.curve.largest_request_blocks)} blocks requests are refused, so the curve begins there."
    ]
    if other_policies(study.policies):
        words.append(
            "Other policies are played at the sizes that are marked by points; lines between them are only for the "
            "eye. The optimum knows the future: no policy finds more blocks."
        )
    if study.curve.sampled is not None:
        words.append("Estimated from a sample; the table gives three standard deviations to both sides.")
    return tuple(words)


def _chart(study: CurveStudy) -> Chart:
    curve = study.curve
    lines = [HitLine(POLICY_TABLE[LRU].title, tuple(curve_points(curve)), is_steps=True, color=LRU)]
    rows = [row for row in study.rows if row.point.capacity >= curve.largest_request_blocks]
    for number, policy in enumerate(other_policies(study.policies)):
        rates = tuple((row.point.capacity, _rate(row, number)) for row in rows)
        lines.append(HitLine(POLICY_TABLE[policy].title, rates, is_steps=False, color=policy))
    knee = curve.at(study.knee)
    most = curve.at(curve.capacity_for_share(1.0))
    description = (
        f"Lines of {', '.join(line.name for line in lines)} from {whole(curve.largest_request_blocks)} to "
        f"{whole(curve.last_capacity)} blocks. LRU rises from {percent(lines[0].points[0][1])} over "
        f"{percent(knee.token_hit_rate)} at the knee to {percent(most.token_hit_rate)}."
    )
    marks = [SizeMark("knee", knee.capacity, knee.token_hit_rate)]
    return hit_chart(
        "Share of the prompt tokens that are found, by size of the pool", description, lines, marks
    )


def _rate(row: CurveRow, number: int) -> float:
    return ratio(row.others[number].hit_tokens, row.point.prompt_tokens)


def _rows_table(study: CurveStudy) -> DataTable:
    others = other_policies(study.policies)
    headings = ["blocks", "hit tokens", "token hit rate", "hit blocks", "block hit rate"]
    headings += [f"{POLICY_TABLE[policy].title}, tokens" for policy in others]
    if study.curve.sampled is not None:
        headings.append("token hit rate within")
    headings.append("why")
    rows = []
    for row in study.rows:
        point = row.point
        cells = [
            whole(point.capacity),
            whole(point.hit_tokens),
            percent(point.token_hit_rate),
            whole(point.hit_blocks),
            percent(point.block_hit_rate),
            *(percent(_rate(row, number)) for number in range(len(others))),
        ]
        if row.bound is not None:
            low, high = (ratio(tokens, point.prompt_tokens) for tokens in row.bound[2:])
            cells.append(f"{percent(low)} to {percent(high)}")
        notes = [*row.notes, *([f"{whole(point.refused)} refused"] if point.refused else [])]
        rows.append((*cells, ", ".join(notes)))
    noted = tuple(place for place, row in enumerate(study.rows) if row.notes)
    title = "Hits at chosen sizes"
    return DataTable(title, tuple(headings), tuple(rows), is_folded=False, ends_in_words=True, kept=noted)


def _line_table(study: CurveStudy) -> DataTable:
    rows = tuple((whole(int(size)), percent(rate)) for size, rate in curve_points(study.curve))
    return DataTable("The line of LRU, point by point", ("blocks", "token hit rate"), rows)

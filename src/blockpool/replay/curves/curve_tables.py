"""Curves for people: a table of chosen capacities and a plot. Needs the packages rich and plotille."""

from __future__ import annotations

import math
from collections.abc import Sequence

import plotille
from rich import box
from rich.console import Console
from rich.table import Table

from blockpool.replay.curves.curve_study import CurveRow, CurveStudy
from blockpool.replay.curves.policy_table import LRU, POLICY_TABLE, other_policies
from blockpool.replay.tables import print_title, setting_words, trimmed
from blockpool.replay.whole_tables import print_whole

_PLOT_WIDTH = 54
_PLOT_HEIGHT = 12
_PLOT_POINTS = 250


def print_study(console: Console, study: CurveStudy) -> None:
    """Prints the table, the plot, and what else is worth a line."""
    words = setting_words(study.settings, study.curve.trace_format)
    with trimmed(console):
        print_title(console, f"{study.trace}: {words}, {study.curve.requests:,} requests")
        print_whole(console, _rows_table(study))
        for line in _remarks(study):
            console.print(line, markup=False, highlight=False)
        if len(study.curve.capacities) > 1 and _can_show_braille(console):
            console.print()
            # Its colours are escape codes already, and lines must not be wrapped.
            console.out(_plot(study, colored=_can_show_colors(console)), highlight=False)


def _rows_table(study: CurveStudy) -> Table:
    sampled = study.curve.sampled is not None
    others = other_policies(study.policies)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    headings = ["blocks", "hit tokens", "rate", "hit blocks", "rate", *others]
    if sampled:
        headings.append("token rate within")
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    for row in study.rows:
        table.add_row(*_cells(row, sampled))
    return table


def _cells(row: CurveRow, sampled: bool) -> list[str]:
    point = row.point
    cells = [
        f"{point.capacity:,}",
        f"{point.hit_tokens:,}",
        f"{point.token_hit_rate:.2%}",
        f"{point.hit_blocks:,}",
        f"{point.block_hit_rate:.2%}",
    ]
    cells += [f"{other.hit_tokens / max(1, point.prompt_tokens):.2%}" for other in row.others]
    if sampled:
        assert row.bound is not None
        least, most = row.bound.least_hit_tokens, row.bound.most_hit_tokens
        cells.append(f"{least / max(1, point.prompt_tokens):.2%}-{most / max(1, point.prompt_tokens):.2%}")
    notes = [*row.notes, *([f"{point.refused:,} refused"] if point.refused else [])]
    return [*cells, ", ".join(notes)]


def _remarks(study: CurveStudy) -> list[str]:
    curve = study.curve
    remarks = [f"Below {curve.largest_request_blocks:,} blocks, requests are refused."]
    if curve.bad_lines:
        remarks.append(f"{curve.bad_lines:,} bad lines skipped.")
    if curve.sampled is None:
        remarks.append("Exact at every capacity.")
    else:
        remarks.append(
            f"Estimated from one of {study.one_in:,} blocks ({curve.sampled.lookups:,} look-ups); "
            "the truth should be within the range (docs/curve.md)."
        )
    if other_policies(study.policies):
        remarks.append("Other policies: share of the prompt tokens; optimal: no policy has more.")
    if study.verified:
        remarks.append(f"Replayed at {len(study.verified):,} capacities: the same integers.")
    return remarks


def _can_show_colors(console: Console) -> bool:
    # rich knows of TERM=dumb and of NO_COLOR.
    return console.is_terminal and console.color_system is not None and not console.no_color


def _can_show_braille(console: Console) -> bool:
    try:
        "\u28ff".encode(console.encoding)
    except (LookupError, UnicodeEncodeError):
        return False
    return True


def _plot(study: CurveStudy, *, colored: bool) -> str:
    """Token hit rate in per cent over the capacity, which is on a logarithmic scale."""
    curve = study.curve
    figure = plotille.Figure()
    figure.width, figure.height = _PLOT_WIDTH, _PLOT_HEIGHT
    figure.with_colors = colored
    figure.x_label, figure.y_label = "blocks", "% of tokens"
    figure.origin = False
    figure.x_ticks_fkt = lambda exponent, _: _short(10**exponent)
    figure.y_ticks_fkt = lambda percent, _: f"{percent:.1f}"
    low, high = math.log10(curve.capacities[0]), math.log10(curve.last_capacity)
    spread = [low + (high - low) * step / _PLOT_POINTS for step in range(_PLOT_POINTS + 1)]
    capacities = [max(curve.capacities[0], int(10**exponent)) for exponent in spread]
    rates = [100 * curve.at(capacity).token_hit_rate for capacity in capacities]
    lines: dict[str, tuple[Sequence[float], Sequence[float]]] = {LRU: (spread, rates)}
    for number, policy in enumerate(other_policies(study.policies)):
        rows = [row for row in study.rows if row.point.capacity >= curve.capacities[0]]
        lines[policy] = (
            [math.log10(row.point.capacity) for row in rows],
            [100 * row.others[number].hit_tokens / max(1, row.point.prompt_tokens) for row in rows],
        )
    figure.set_x_limits(min_=low, max_=high)
    top = max(1.0, *(max(rates) for _, rates in lines.values()))
    figure.set_y_limits(min_=0, max_=top)
    highest_label = top * (1 - 0.5 / _PLOT_HEIGHT)  # what is at the very top has no line to be written on
    for policy, (exponents, percents) in lines.items():
        look = POLICY_TABLE[policy]
        figure.plot(exponents, percents, label=policy, lc=look.plot_color if colored else None)
        if len(lines) > 1:
            place = (look.label_place * (len(exponents) - 1)) // 100
            figure.text([exponents[place]], [min(percents[place], highest_label)], [policy])
    text: str = figure.show()
    return text


def _short(count: float) -> str:
    for factor, unit in ((1e6, "M"), (1e3, "k")):
        if count >= factor:
            return f"{count / factor:.3g}{unit}"
    return f"{count:.0f}"

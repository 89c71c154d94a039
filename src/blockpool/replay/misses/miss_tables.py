"""Why blocks missed, as tables for people. Needs the package rich."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from blockpool.errors import printable
from blockpool.replay.misses.miss_report import MissCase, MissReport, ReasonMisses, TagMisses
from blockpool.replay.misses.reasons import OTHER_KEY
from blockpool.replay.misses.tags import shown_others, shown_tag
from blockpool.replay.whole_tables import print_whole, quantile_cells

_MAX_TAG_WIDTH = 32


def print_misses(console: Console, misses: MissReport) -> None:
    """Prints reasons, evictions, tags and the costliest requests, as far as there are any."""
    print_whole(console, _reasons_table(misses))
    if misses.note is not None:
        console.print(f"{misses.note}\n", markup=False, highlight=False)
    if not misses.missed_blocks:
        return
    if misses.evicted.requests_ago.samples or misses.differs_at.samples:
        print_whole(console, _quantiles_table(misses))
    if misses.tag is not None:
        print_whole(console, _tags_table(misses, misses.tag))
    print_whole(console, _cases_table(misses))


def print_reasons_by_size(console: Console, sizes: Sequence[int], reports: Sequence[MissReport]) -> None:
    """Prints the missed tokens of every reason, a row per size of the pool."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    used = [
        place
        for place in range(len(reports[0].reasons))
        if any(report.reasons[place].blocks for report in reports)
    ]
    names = [reports[0].reasons[place].reason for place in used]
    for heading in ("blocks", "missed tokens", *names):
        table.add_column(heading, justify="right", no_wrap=True)
    for size, report in zip(sizes, reports, strict=True):
        counts = (size, report.missed_tokens, *(report.reasons[place].tokens for place in used))
        table.add_row(*(f"{count:,}" for count in counts))
    print_whole(console, table)


def _tag_text(tag: str | None) -> Text:
    """A value from a trace as it may be printed: no control codes, no markup, not too long."""
    return _safe(shown_tag(tag))


def _safe(tag: str) -> Text:
    if len(tag) > _MAX_TAG_WIDTH:
        tag = tag[: _MAX_TAG_WIDTH - 3] + "..."
    return Text(printable(tag))


def _reasons_table(misses: MissReport) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("why blocks missed", no_wrap=True)
    for heading in ("blocks", "tokens", "of the tokens"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in misses.reasons:
        if row.blocks:
            table.add_row(row.reason, *_sums(row, misses.missed_tokens))
        if row.reason == OTHER_KEY:
            for kind in misses.other_keys:
                table.add_row(f"  {kind.reason}", *_sums(kind, misses.missed_tokens))
    table.add_row(
        "all", *_sums(ReasonMisses("", misses.missed_blocks, misses.missed_tokens), misses.missed_tokens)
    )
    return table


def _sums(row: ReasonMisses, all_tokens: int) -> tuple[str, str, str]:
    return f"{row.blocks:,}", f"{row.tokens:,}", f"{row.tokens / max(1, all_tokens):.2%}"


def _quantiles_table(misses: MissReport) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("", no_wrap=True)
    for heading in ("samples", "median", "p90", "p99"):
        table.add_column(heading, justify="right", no_wrap=True)
    evicted = misses.evicted
    rows = (
        ("evicted: seconds ago", evicted.seconds_ago),
        ("evicted: requests ago", evicted.requests_ago),
        ("evicted: blocks too few", evicted.blocks_too_few),
        ("differs: at token", misses.differs_at),
    )
    for name, quantiles in rows:
        if quantiles is not None and quantiles.samples:
            table.add_row(name, f"{quantiles.samples:,}", *quantile_cells(quantiles))
    return table


def _tags_table(misses: MissReport, tag: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column(_safe(tag), no_wrap=True)
    for heading in ("requests", "tokens missed", "of its tokens"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("mostly", overflow="fold")
    for row in misses.tags:
        table.add_row(_tag_text(row.tag), *_tag_cells(row))
    if misses.other_tags is not None:
        others = misses.num_tags - len(misses.tags)
        table.add_row(shown_others(others), *_tag_cells(misses.other_tags))
    return table


def _tag_cells(row: TagMisses) -> tuple[str, str, str, str]:
    share = row.missed_tokens / max(1, row.prompt_tokens)
    return f"{row.requests:,}", f"{row.missed_tokens:,}", f"{share:.2%}", _worst(row.reasons, 2)


def _worst(reasons: Iterable[ReasonMisses], count: int) -> str:
    """The reasons with most tokens, and which part of them they have."""
    by_tokens = sorted((row for row in reasons if row.blocks), key=lambda row: -row.tokens)
    all_tokens = max(1, sum(row.tokens for row in by_tokens))
    return ", ".join(f"{row.reason} {row.tokens / all_tokens:.0%}" for row in by_tokens[:count])


def _cases_table(misses: MissReport) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("costliest", no_wrap=True)
    if misses.tag is not None:
        table.add_column(_safe(misses.tag), no_wrap=True)
    for heading in ("missed", "of", "token k", "too few"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("mostly", overflow="fold")
    for case in misses.cases:
        tag = [_tag_text(case.tag)] if misses.tag is not None else []
        table.add_row(
            _case_name(case),
            *tag,
            f"{case.missed_tokens:,}",
            f"{case.prompt_tokens:,}",
            "-" if case.differs_at is None else f"{case.differs_at:,}",
            "-" if case.blocks_too_few is None else f"{case.blocks_too_few:,}",
            _worst(case.reasons, 1),
        )
    return table


def _case_name(case: MissCase) -> str:
    name = f"request {case.request + 1:,}" if case.line is None else f"line {case.line:,}"
    return name if case.time_ms is None else f"{name}, {case.time_ms / 1000:,.0f} s"

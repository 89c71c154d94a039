"""The live picture on a terminal; 80 columns and 24 lines are enough. Needs the package rich."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final

from rich import box
from rich.console import Console, Group, OverflowMethod, RenderableType
from rich.table import Table
from rich.text import Text

from blockpool.errors import printable
from blockpool.events.live_picture import HISTORY_SECONDS, LivePicture, SourcePicture
from blockpool.events.prefix_tree import SharedPrefix

MAX_PREFIXES: Final = 6
MAX_NOTES_SHOWN: Final = 4
MAX_MEDIA: Final = 2
SOURCE_WIDTH: Final = 14
PREFIX_WIDTH: Final = 32
NARROW_SOURCE_WIDTH: Final = 8
NARROW_PREFIX_WIDTH: Final = 16
_FIRST_TO_GO: Final = (
    *("restarts", "out/s", "gaps", "heard", "in/s", "lost", "others"),
    *("below", "workers", "blocks", "tokens", "chains"),
)
"""Columns that a narrow terminal does not show, in this order: better none than one that is only an ellipsis."""
_CURVE_WORDS: Final = 22  # beside the curve: what it is, and its peak
_BARS: Final = " ▁▂▃▄▅▆▇█"
_PLAIN_BARS: Final = " .:-=+*#@"
_HEADERS: Final = 10  # lines that are no rows: title, three headings with what is around them, the curve


@final
class WatchView:
    """Draws a picture. Shared prefixes cost time that grows with the blocks known: `look`, when that can be afforded.

    Args:
        console: Where it will be shown.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._prefixes: list[tuple[SharedPrefix, int]] = []
        encoding = (console.encoding or "").lower().replace("-", "")
        self._bars = _BARS if encoding.startswith("utf") else _PLAIN_BARS
        self._overflow: OverflowMethod = "ellipsis" if encoding.startswith("utf") else "crop"

    def draw(self, picture: LivePicture, now: float, seconds: float) -> RenderableType:
        """All of it, fitted to the terminal.

        Args:
            picture: What there is to see.
            now: Time, as the picture was told.
            seconds: Since it began.
        """
        free = max(self._console.height - _HEADERS, 3)
        notes = list(picture.notes)[-min(MAX_NOTES_SHOWN, max(free // 4, 1)) :]
        num_prefixes = min(MAX_PREFIXES, max((free - len(notes)) // 2, 1))
        prefixes = self._prefixes[:num_prefixes]
        sources = picture.pictures()
        room = max(free - len(notes) - max(len(prefixes), 1), 1)
        if len(sources) > room:
            room = max(room - 1, 1)  # a line says how many are not there
        parts: list[RenderableType] = [
            self._title(picture, seconds),
            self._sources_table(picture, sources[:room], now),
        ]
        if len(sources) > room:
            parts.append(Text(f" and {len(sources) - room} more", style="dim"))
        parts.append(self._curve(picture, now))
        parts.append(self._prefix_table(prefixes))
        parts.extend(self._note_line(note.source, note.text, now - note.seconds) for note in notes)
        return Group(*parts)

    def look(self, picture: LivePicture) -> None:
        """Looks for shared prefixes again. O(blocks)."""
        self._prefixes = [
            (prefix, len(picture.view.holders(prefix.block_hash)))
            for prefix in picture.tree.hottest(MAX_PREFIXES)
        ]

    def _sources_table(self, picture: LivePicture, sources: list[SourcePicture], now: float) -> Table:
        media = picture.media()
        shown = media[:MAX_MEDIA] or ["GPU"]
        others = media[MAX_MEDIA:]
        names = [printable(medium or "blocks")[:8] for medium in shown] + ["others"] * bool(others)
        headings = ["heard", *names, "in/s", "out/s", "gaps", "lost", "restarts"]
        rows = []
        for each in sources:
            counts = picture.stats.get(each.source.endpoint)
            known = [_known(picture, each, [medium]) for medium in shown]
            if others:
                known.append(_known(picture, each, others))
            rows.append(
                [
                    _age(each, now),
                    *(Text(_short(blocks), style="bold") for blocks in known),
                    Text(_short(each.stored.rate(now))),
                    Text(_short(each.removed.rate(now))),
                    _trouble(0 if counts is None else counts.num_gaps, "yellow"),
                    _trouble(each.num_lost, "bold red"),
                    _trouble(0 if counts is None else counts.num_restarts, "yellow"),
                ]
            )
        widths = [
            max([len(heading), *(row[place].cell_len for row in rows)])
            for place, heading in enumerate(headings)
        ]
        left = self._columns_left(headings, widths, NARROW_SOURCE_WIDTH)
        widths = [widths[place] for place in left]
        room = (
            self._console.width - sum(widths) - len(widths) - 2
        )  # a blank between columns, and at the edges
        if room >= SOURCE_WIDTH + 2 * len(widths):
            widths = [width + 1 for width in widths]
            room -= len(widths)
        table = self._table("worker", max(room, NARROW_SOURCE_WIDTH))
        for place, width in zip(left, widths, strict=True):
            table.add_column(Text(headings[place]), justify="right", no_wrap=True, width=width)
        for each, row in zip(sources, rows, strict=True):
            table.add_row(_label(each), *(row[place] for place in left))
        return table

    def _columns_left(self, headings: Sequence[str], widths: Sequence[int], first_width: int) -> list[int]:
        """Places of the columns for which there is room beside the first."""
        left = list(range(len(headings)))
        for name in _FIRST_TO_GO:
            needed = first_width + sum(widths[place] for place in left) + len(left) + 2
            if needed <= self._console.width:
                break
            left = [place for place in left if headings[place] != name]
        return left

    def _curve(self, picture: LivePicture, now: float) -> Text:
        columns = [each.stored.seconds(now) for each in picture.pictures()]
        has_room = self._console.width >= _CURVE_WORDS + 10
        width = self._console.width - (_CURVE_WORDS if has_room else len("stored/s "))
        width = max(min(HISTORY_SECONDS - 1, width), 1)
        totals = [0] * width
        for column in columns:
            for place, count in enumerate(reversed(column[-width:]), 1):
                totals[-place] += count
        peak = max(totals)
        top = len(self._bars) - 1
        bars = "".join(self._bars[-(-count * top // peak) if peak else 0] for count in totals)
        text = Text("stored/s ", style="dim", no_wrap=True, overflow="crop")
        text.append(bars, style="green")
        if has_room:
            text.append(f" peak {_short(peak)}", style="dim")
        return text

    def _prefix_table(self, prefixes: list[tuple[SharedPrefix, int]]) -> Table:
        headings = ("tokens", "blocks", "chains", "below", "workers")
        rows = [_prefix_cells(prefix, num_holders) for prefix, num_holders in prefixes]
        widths = [max(8, *(len(row[place]) for row in rows), 0) for place in range(len(headings))]
        left = self._columns_left(headings, widths, NARROW_PREFIX_WIDTH)
        room = self._console.width - sum(widths[place] for place in left) - len(left) - 2
        table = self._table(
            "shared prefix, by its last block", max(min(room, PREFIX_WIDTH), NARROW_PREFIX_WIDTH)
        )
        for place in left:
            table.add_column(headings[place], justify="right", no_wrap=True, width=widths[place])
        for (prefix, _), row in zip(prefixes, rows, strict=True):
            table.add_row(f"{prefix.block_hash:016x}", *(row[place] for place in left))
        if not prefixes:
            table.add_row(Text("none yet", style="dim"))
        return table

    def _table(self, first: str, width: int) -> Table:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=0)
        table.add_column(first, no_wrap=True, overflow=self._overflow, width=width)
        return table

    def _title(self, picture: LivePicture, seconds: float) -> Text:
        minutes, rest = divmod(int(seconds), 60)
        text = Text("blockpool watch", style="bold", no_wrap=True, overflow=self._overflow)
        if picture.fingerprints_differ:
            text.append("  FINGERPRINTS DIFFER", style="bold red")
        text.append(f"  {len(picture.sources)} of {len(picture.pictures())} heard")
        text.append(f"  {len(picture.tree):,} different blocks")
        text.append(f"  {minutes // 60:02}:{minutes % 60:02}:{rest:02}", style="dim")
        text.append("  Ctrl-C ends", style="dim")
        return text

    def _note_line(self, source: str, text: str, age: float) -> Text:
        line = Text(no_wrap=True, overflow=self._overflow)
        line.append(f"{int(age):>4} s ago ", style="dim")
        line.append(printable(source.removeprefix("tcp://")), style="cyan")
        line.append(f" {printable(text)}")
        return line


def _prefix_cells(prefix: SharedPrefix, num_holders: int) -> list[str]:
    more = "" if prefix.whole else "+"
    return [
        f"{prefix.tokens:,}{more}",
        f"{prefix.blocks:,}{more}",
        f"{prefix.chains:,}",
        f"{prefix.below:,}",
        f"{num_holders:,}",
    ]


def _label(each: SourcePicture) -> Text:
    name = each.source.endpoint.removeprefix("tcp://")
    if each.source.topic:
        name = f"{each.source.topic} {name}"
    text = Text(printable(name))
    if each.rank:
        text.append(f" dp{each.rank}", style="dim")
    return text


def _age(each: SourcePicture, now: float) -> Text:
    if each.heard is None:
        return Text("waiting", style="yellow")
    age = int(now - each.heard)
    return Text("now" if age < 2 else f"{age} s" if age < 100 else f"{age // 60} m")


def _trouble(count: int, style: str) -> Text:
    return Text(_short(count), style=style if count else "dim")


def _known(picture: LivePicture, each: SourcePicture, media: Sequence[str | None]) -> int:
    return sum(sum(picture.view.counts(each.source, medium).values()) for medium in media)


def _short(count: float) -> str:
    """At most 6 letters up to a thousand million."""
    if count < 99_999.5:
        return f"{count:,.0f}"
    if count < 999_500:
        return f"{count / 1000:.0f}k"
    return f"{count / 1_000_000:.1f}M"

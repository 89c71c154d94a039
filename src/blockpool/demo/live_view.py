"""The engine as it runs, in a terminal of 80 by 24. Needs the package rich.

Every state has a sign of its own; colour only helps.
"""

from __future__ import annotations

from typing import NamedTuple

from rich.console import Console, Group
from rich.text import Text

from blockpool.demo.frame import BLANK, EVICTED, HIT, IDLE, NEW, Cell, Frame, RequestRow
from blockpool.demo.story import Story

_WIDTH = 80
_MAX_BLOCK_LINES = 5
_MAX_REQUEST_LINES = 7
_REQUEST_BAR = 28
_POOL_BAR = 32
_COLOURS = ("cyan", "magenta", "yellow", "blue", "white")  # green and red are for hits and evictions
_MARK_STYLES = {HIT: "bold black on green", EVICTED: "bold white on red", NEW: "bold", "": ""}


class Glyphs(NamedTuple):
    """The signs of the view."""

    blank: str
    idle: str
    held: str
    to_come: str
    evicted: str
    rule: str


_UNICODE = Glyphs(blank="·", idle="░", held="█", to_come="─", evicted="\N{MULTIPLICATION SIGN}", rule="─")
_ASCII = Glyphs(blank=".", idle="=", held="#", to_come="-", evicted="x", rule="-")


class LiveView:
    """Draws frames.

    Args:
        console: Where to; one that cannot show more gets ASCII signs.
        title: What runs, in words.
        num_requests: Requests to come in all.
        has_window: Whether one of the KV cache groups has a window.
    """

    def __init__(self, console: Console, title: str, num_requests: int, has_window: bool) -> None:
        self._glyphs = _ASCII if console.options.ascii_only else _UNICODE
        self._cells_per_line = 64 if console.width >= 7 + 2 * 64 else 32
        self._title = title
        self._num_requests = num_requests
        self._has_window = has_window

    def draw(self, frame: Frame, story: Story) -> Group:
        """The whole view: 24 lines at most, of 80 columns unless the console is much wider."""
        return Group(
            self._heading(frame),
            *self._block_lines(frame),
            *self._legend(),
            self._pool_line(frame),
            self._rule(),
            *self._request_lines(frame),
            self._rule(),
            *self._totals(frame, story),
            *(Text(line, style="dim", no_wrap=True) for line in story.events),
        )

    def _heading(self, frame: Frame) -> Text:
        step = f"step {frame.step:,}"
        room = _WIDTH - 1 - len(step)
        return Text(f"{self._title[:room]:<{room}} {step}", style="bold", no_wrap=True)

    def _rule(self) -> Text:
        return Text(self._glyphs.rule * _WIDTH, style="dim")

    def _block_lines(self, frame: Frame) -> list[Text]:
        per_line, lines = self._cells_per_line, []
        fits = len(frame.cells) <= per_line * _MAX_BLOCK_LINES
        shown = frame.cells if fits else frame.cells[: per_line * (_MAX_BLOCK_LINES - 1)]
        for start in range(0, len(shown), per_line):
            line = Text(f"{start + 1:>5}  ", style="dim", no_wrap=True)
            for cell in shown[start : start + per_line]:
                line.append_text(self._cell(cell))
            lines.append(line)
        if not fits:
            lines.append(Text(f"       and {len(frame.cells) - len(shown):,} blocks more", style="dim"))
        return lines

    def _cell(self, cell: Cell) -> Text:
        glyphs = self._glyphs
        content = {BLANK: glyphs.blank, IDLE: glyphs.idle}.get(cell.content, cell.content)
        style = _MARK_STYLES[cell.mark]
        if not style or cell.mark == NEW:
            style = f"{style} {_colour(content)}".strip()
        return Text(content + self._mark(cell.mark), style=f"not dim {style}")

    def _mark(self, mark: str) -> str:
        return {HIT: "!", EVICTED: self._glyphs.evicted, NEW: "+", "": " "}[mark]

    def _legend(self) -> list[Text]:
        glyphs = self._glyphs
        holders = "a request a  A its window layers" if self._has_window else "a held by request a"
        lines = (
            f"{holders}  2 shared by two  {glyphs.idle} cached  {glyphs.blank} blank",
            f"+ new  ! hit  {glyphs.evicted} evicted, now new   "
            f"bars: {glyphs.idle} found  {glyphs.held} computed  {glyphs.to_come} to come",
        )
        return [Text(f"       {line}", style="dim", no_wrap=True) for line in lines]

    def _pool_line(self, frame: Frame) -> Text:
        glyphs, where = self._glyphs, frame.occupancy
        line = Text("  pool ", no_wrap=True)
        line.append(
            _share(
                _POOL_BAR,
                [(where.in_use, glyphs.held), (where.cached_idle, glyphs.idle)],
                len(frame.cells),
                glyphs.blank,
            )
        )
        line.append(f" {where.in_use} in use, {where.cached_idle} cached, {where.blank} blank")
        return line

    def _request_lines(self, frame: Frame) -> list[Text]:
        lines = [self._request_line(row) for row in frame.rows[:_MAX_REQUEST_LINES]]
        lines += [Text("")] * (_MAX_REQUEST_LINES - len(lines))
        hidden = len(frame.rows) - _MAX_REQUEST_LINES
        lines.append(Text(f"   and {hidden} more wait" if hidden > 0 else "", style="dim"))
        return lines

    def _request_line(self, row: RequestRow) -> Text:
        glyphs = self._glyphs
        line = Text(f"{row.request_id:>6} {row.state:<9} ", style=_colour(row.request_id[0]), no_wrap=True)
        parts = [(row.cached, glyphs.idle), (row.computed - row.cached, glyphs.held)]
        line.append(_share(_REQUEST_BAR, parts, row.prompt + row.max_tokens, glyphs.to_come))
        line.append(f" prompt {row.prompt:>3}, {row.cached:>3} found, out {row.output:>2}/{row.max_tokens}")
        return line

    def _totals(self, frame: Frame, story: Story) -> list[Text]:
        lines = (
            f"tokens: {frame.num_tokens} computed now, {story.computed:,} so far; "
            f"{story.found:,} found in the cache",
            f"so far: {story.evicted:,} blocks evicted, {story.preempted:,} preemptions, "
            f"{story.finished:,} of {self._num_requests:,} requests done",
        )
        return [Text(line, no_wrap=True) for line in lines]


def _colour(content: str) -> str:
    """Of a request by its letter; nothing special for all else."""
    if not ("a" <= content.lower() <= "z"):
        return "bold" if content.isdigit() else "dim"
    return _COLOURS[(ord(content.lower()) - ord("a")) % len(_COLOURS)]


def _share(width: int, parts: list[tuple[int, str]], whole: int, rest: str) -> str:
    """A bar: each part with its sign, as long as its share of the whole, and the rest."""
    bar, total = "", 0
    for amount, sign in parts:
        total += amount
        bar += sign * (round(width * total / whole) - len(bar))
    return bar + rest * (width - len(bar))

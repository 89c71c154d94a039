"""What a recording tells, as tables for people. Needs the package rich."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from blockpool.errors import printable
from blockpool.events.received import Source
from blockpool.events.recording_result import KnownPoint, RecordingResult
from blockpool.replay.tables import trimmed
from blockpool.replay.whole_tables import print_whole, quantile_cells

_POINT_ROWS = 5


def print_recording(console: Console, result: RecordingResult) -> None:
    """Prints the whole report."""
    with trimmed(console):
        title = f"{result.name}: recording of events, {result.seconds:,.1f} seconds{_ending(result)}"
        console.print(title, soft_wrap=True, markup=False, highlight=False)
        if not result.sources:
            console.print("\nnothing was heard", highlight=False)
            return
        print_whole(console, _traffic_table(result))
        print_whole(console, _blocks_table(result))
        print_whole(console, _known_table(result))
        if result.malformed:
            console.print(f"{result.malformed:,} batches could not be read by the recorder", highlight=False)
        if not result.comparable:
            console.print("fingerprints differ: equal hashes of these sources do not mean equal blocks")
        console.print("hits leave no events: how often a block was found is not in a recording")


def _ending(result: RecordingResult) -> str:
    if result.cut:
        return ", breaks off in the middle"
    return "" if result.complete else ", the recorder was killed or goes on"


def _traffic_table(result: RecordingResult) -> Table:
    headings = ("batches", "stored", "removed", "cleared", "gaps", "lost", "restarts", "snapshots")
    table = _table("source", headings)
    for record in result.sources:
        numbers = (
            record.batches, record.stored, record.removed, record.cleared,
            record.gaps, record.lost, record.restarts, record.snapshots,
        )  # fmt: skip
        table.add_row(_name(record.source), *(f"{number:,}" for number in numbers))
    return table


def _blocks_table(result: RecordingResult) -> Table:
    headings = ("known", "peak", "copies", "again", "unmatched", "lifetime", "p90", "p99")
    table = _table("blocks", headings)
    for record in result.sources:
        known = sum(record.known.values())
        numbers = known, record.peak_known, record.duplicates, record.stored_again, record.unmatched
        cells = [f"{number:,}" for number in numbers] + quantile_cells(record.lifetime)
        table.add_row(_name(record.source), *cells)
    return table


def _known_table(result: RecordingResult) -> Table:
    table = _table("known over time", ("blocks",))
    for point in _spread(result.known_points):
        table.add_row(f"{point.seconds:,.1f} s", f"{point.blocks:,}")
    for medium in dict.fromkeys(medium for record in result.sources for medium in record.known):
        blocks = sum(record.known.get(medium, 0) for record in result.sources)
        table.add_row(Text(printable(f"at the end, {medium or 'no medium'}")), f"{blocks:,}")
    return table


def _name(source: Source) -> Text:
    """As it is, without what does something to a terminal: a topic may hold anything."""
    return Text(printable(str(source)))


def _table(first: str, headings: tuple[str, ...]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(first, no_wrap=True)
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _spread(points: tuple[KnownPoint, ...]) -> list[KnownPoint]:
    """A few points, evenly spread from the first to the last."""
    last = len(points) - 1
    positions = {round(last * row / (_POINT_ROWS - 1)) for row in range(_POINT_ROWS)}
    return [points[position] for position in sorted(positions)]

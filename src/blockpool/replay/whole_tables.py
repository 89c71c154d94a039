"""Tables whose numbers are never cut, however narrow the console. Needs the package rich."""

from __future__ import annotations

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

_NO_LIMIT = 10_000


def print_whole(console: Console, table: Table) -> None:
    """Prints a table; a console that is narrower than the table needs is taken to be as wide.

    Columns that may wrap are made as narrow as their longest word, the others stay as they are.
    """
    for column in table.columns:
        if column.no_wrap:
            cells = [column.header, *column.cells]
            column.min_width = max(Text.from_markup(str(cell)).cell_len for cell in cells)
    needed = Measurement.get(console, console.options.update(max_width=_NO_LIMIT), table).minimum
    width = console.width
    console.width = max(width, needed)
    try:
        console.print(table)
    finally:
        console.width = width

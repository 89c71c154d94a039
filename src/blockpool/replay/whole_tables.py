"""Tables whose numbers are never cut, however narrow the console. Needs the package rich."""

from __future__ import annotations

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from blockpool.replay.residency import Quantiles

_NO_LIMIT = 10_000


def print_whole(console: Console, table: Table) -> None:
    """Prints a table; a console that is narrower than the table needs is taken to be as wide.

    Columns that may wrap are made as narrow as their longest word, the others stay as they are.
    """
    for column in table.columns:
        if column.no_wrap:
            cells = [column.header, *column.cells]
            column.min_width = max(_as_text(cell).cell_len for cell in cells)
    needed = Measurement.get(console, console.options.update(max_width=_NO_LIMIT), table).minimum
    width = console.width
    console.width = max(width, needed)
    try:
        console.print(table)
    finally:
        console.width = width


def quantile_cells(quantiles: Quantiles) -> list[str]:
    """Median, p90 and p99, short; "-" without samples."""
    return [
        "-" if value is None else f"{value:,.3g}" if value < 1000 else f"{value:,.0f}"
        for value in quantiles[1:]
    ]


def _as_text(cell: object) -> Text:
    """A cell as rich prints it: only strings are markup."""
    return cell if isinstance(cell, Text) else Text.from_markup(str(cell))

"""What commands print on standard output: tables, as wide as the place they go to, or one JSON object."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

import click
from rich.console import Console

from blockpool.replay.tables import PLAIN_WIDTH


def table_console() -> Console:
    """As wide as the terminal; `PLAIN_WIDTH` columns where there is none."""
    return Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH)


def print_json(report: Mapping[str, Any], *, indent: int | None = 2) -> None:
    """Prints a report as one object; what JSON does not have, such as NaN, is our bug and a ValueError."""
    click.echo(json.dumps(report, indent=indent, allow_nan=False))

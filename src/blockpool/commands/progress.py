"""The progress bar: on standard error, when that is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn


def progress_bar() -> Progress:
    """A bar that vanishes when it is done."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    )


def fraction_task(bar: Progress, description: str) -> Callable[[float | None], None] | None:
    """Adds a task to the bar, and makes a callback that moves it.

    Returns:
        Takes the fraction that is done, 0 … 1, or None while nobody knows it. None where there is no bar to be seen.
    """
    task = bar.add_task(description, total=None)
    if bar.disable:
        return None

    def show(fraction: float | None) -> None:
        bar.update(task, completed=fraction or 0.0, total=None if fraction is None else 1.0)

    return show

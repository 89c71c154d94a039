"""The progress bar: on standard error, when that is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn


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


def show_fraction(bar: Progress, task: TaskID) -> Callable[[float | None], None]:
    """A callback that moves a task of the bar; None while nobody knows how far it is."""

    def show(fraction: float | None) -> None:
        bar.update(task, completed=fraction or 0.0, total=None if fraction is None else 1.0)

    return show

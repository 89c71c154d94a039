"""The option --html: one way to write a report for all commands that have one."""

from __future__ import annotations

import contextlib
import shlex
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click

import blockpool
from blockpool.errors import ConfigError, printable
from blockpool.replay.html.report_file import ReportFile
from blockpool.trace.source import is_read_from

if TYPE_CHECKING:
    from blockpool.replay.html.page import Page

ARGUMENTS = "blockpool.arguments"
"""Where `click.Context.meta` has the arguments of the whole command line."""

html_option = click.option(
    "--html",
    metavar="FILE",
    help="Write a report with charts, too: one HTML file that needs nothing else.",
)

WritePage = Callable[[Callable[[], "Page"]], None]


@contextlib.contextmanager
def html_report(path: str | None, trace: str, other: Path | None = None) -> Iterator[WritePage]:
    """Makes sure that a report can be written, before the work begins.

    Args:
        path: Of --html; None: there is no report.
        trace: As it was named. Must not be the same file.
        other: A file that is read besides, and must not be it either.

    Yields:
        Takes a function that makes the page, and writes it; does nothing without a report.

    Raises:
        BlockPoolError: The path is no good, or packages are missing.
        OSError: The file cannot be written.
    """
    if path is None:
        yield lambda make_page: None
        return
    file = _report_file(path, trace, other)
    with _leaving_when_terminated(), file:

        def write(make_page: Callable[[], Page]) -> None:
            from blockpool.replay.html.render import Origin, render

            origin = Origin(_command_line(), blockpool.__version__, blockpool.COMPILED)
            file.write(render(make_page(), origin))

        yield write


@contextlib.contextmanager
def _leaving_when_terminated() -> Iterator[None]:
    """SIGTERM ends the process as an error would, so that nothing half-written is left; SIGKILL cannot be helped."""

    def leave(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    try:
        changes = signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
        if changes:
            signal.signal(signal.SIGTERM, leave)
    except ValueError:  # only the main thread may
        changes = False
    try:
        yield
    finally:
        if changes:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _report_file(path: str, trace: str, other: Path | None) -> ReportFile:
    try:
        file = ReportFile(path)
    except ConfigError as error:
        raise click.UsageError(f"--html {error.value}: {error.reason}") from None
    if is_read_from(trace, file.path):
        raise click.UsageError(f"--html {path}: is the trace itself")
    if other is not None and is_read_from(other, file.path):
        raise click.UsageError(printable(f"--html {path}: would replace {other}, which is read, too"))
    return file


def _command_line() -> str:
    return shlex.join(["blockpool", *click.get_current_context().meta[ARGUMENTS]])

"""`blockpool replay` of a recording of events."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

import blockpool
from blockpool.commands.output import print_json, table_console
from blockpool.commands.progress import fraction_task, progress_bar
from blockpool.commands.usage import refuse_all_but
from blockpool.trace import open_trace_for_writing
from blockpool.trace.source import is_read_from

RECORDING_OPTIONS = ("requests_to",)
_MEANINGFUL = ("trace", "as_json", *RECORDING_OPTIONS)


def _file_name(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    if value in ("", "-"):
        raise click.BadParameter("the name of a file is needed", context, parameter)
    return value


def recording_options(command: Callable[..., None]) -> Callable[..., None]:
    """Options that only recordings have."""
    return click.option(
        "--requests-to",
        metavar="FILE",
        callback=_file_name,
        help="For a recording of events: write the prompts that were computed, as a trace of token ids.",
    )(command)


def report_recording(trace: str, *, as_json: bool, requests_to: str | None) -> None:
    """Plays a recording back and prints what it tells.

    Raises:
        UsageError: For an option that means nothing here.
    """
    refuse_all_but(
        _MEANINGFUL,
        f"is for traces of requests; {trace} is a recording of events, which has no requests",
    )
    if requests_to is not None and is_read_from(trace, Path(requests_to)):
        raise click.UsageError("--requests-to names the recording itself")
    from blockpool.events.derived_requests import DerivedRequests
    from blockpool.events.recording_replay import replay_recording
    from blockpool.events.recording_result import recording_as_dict
    from blockpool.events.recording_tables import print_recording

    derived = None if requests_to is None else DerivedRequests()
    with progress_bar() as bar:
        progress = fraction_task(bar, "replaying")
        result = replay_recording(trace, each=None if derived is None else derived.add, progress=progress)
    if derived is not None and requests_to is not None:
        with open_trace_for_writing(Path(requests_to)) as file:
            derived.write(file)
    if as_json:
        report = recording_as_dict(result, version=blockpool.__version__)
        report["requests"] = None if derived is None else derived.counts()
        print_json(report)
        return
    print_recording(table_console(), result)
    if derived is not None:
        click.echo(derived.words(str(requests_to)))

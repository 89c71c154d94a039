"""`blockpool replay` of a recording of events."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import click
from rich.console import Console

import blockpool
from blockpool.commands.progress import progress_bar, show_fraction
from blockpool.commands.usage import given
from blockpool.replay.tables import PLAIN_WIDTH
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
    context = click.get_current_context()
    for parameter in context.command.params:
        if parameter.name not in _MEANINGFUL and given(parameter.name or ""):
            raise click.UsageError(
                f"{parameter.opts[0]} is for traces of requests; {trace} is a recording of events, "
                "which has no requests"
            )
    if requests_to is not None and is_read_from(trace, Path(requests_to)):
        raise click.UsageError("--requests-to names the recording itself")
    from blockpool.events.derived_requests import DerivedRequests
    from blockpool.events.recording_replay import replay_recording
    from blockpool.events.recording_result import recording_as_dict
    from blockpool.events.recording_tables import print_recording

    derived = None if requests_to is None else DerivedRequests()
    with progress_bar() as bar:
        show = None if bar.disable else show_fraction(bar, bar.add_task("replaying", total=None))
        result = replay_recording(trace, each=None if derived is None else derived.add, progress=show)
    if derived is not None and requests_to is not None:
        with open_trace_for_writing(Path(requests_to)) as file:
            derived.write(file)
    if as_json:
        report = recording_as_dict(result, version=blockpool.__version__)
        report["requests"] = None if derived is None else derived.counts()
        click.echo(json.dumps(report, indent=2, allow_nan=False))
        return
    print_recording(Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH), result)
    if derived is not None:
        click.echo(derived.words(str(requests_to)))

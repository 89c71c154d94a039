"""What `blockpool replay` does with events: recordings of them as its input, and `--publish`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from blockpool.commands.publishing import PUBLISH_OPTIONS, publish, publish_options
from blockpool.commands.recorded import RECORDING_OPTIONS, recording_options, report_recording
from blockpool.commands.usage import refuse_if_given
from blockpool.trace.recording_mark import is_recording


def with_events(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options, and takes over where they are given or the trace is a recording of events."""

    @publish_options
    @recording_options
    @functools.wraps(command)
    def chosen(trace: str, **params: Any) -> None:
        if is_recording(trace):
            report_recording(trace, as_json=params["as_json"], requests_to=params["requests_to"])
            return
        for name in RECORDING_OPTIONS:
            refuse_if_given(name, "is for recordings of events, as `blockpool record` makes them")
            del params[name]
        if params["publish"] is not None:
            publish(trace, params)
            return
        for name in PUBLISH_OPTIONS:
            refuse_if_given(name, "goes with --publish")
            del params[name]
        if not params["timed"]:
            refuse_if_given("speed", "goes with --timed or --publish")
        command(trace=trace, **params)

    return chosen

"""The order of time in a trace: watched while it is read, or made by sorting."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from blockpool.errors import ConfigError
from blockpool.trace.request import TraceRequest

Place = TypeVar("Place")


_REMEDY = {"line": "--sort (in Python: sort=True)", "request": "sort=True"}


class TimeOrder:
    """Watches that the timestamps of a trace never go back, and that all requests have one or none has."""

    __slots__ = ("_last_ms", "_last_place", "_unit")

    def __init__(self, unit: str) -> None:
        """Starts a trace.

        Args:
            unit: What a place of this trace is called: "line" or "request".
        """
        self._unit = unit
        self._last_ms: float | None = None
        self._last_place = 0

    def fault(self, timestamp_ms: float | None, place: int) -> str | None:
        """Takes the next request's timestamp.

        Args:
            timestamp_ms: None: it has none.
            place: Its line or number, from 1.

        Returns:
            What is wrong, in which case it was not taken; or None.
        """
        last_ms, last_place = self._last_ms, self._last_place
        if last_place and (timestamp_ms is None) != (last_ms is None):
            return "timestamp missing" if timestamp_ms is None else "timestamp, but none before"
        if timestamp_ms is not None and last_ms is not None and timestamp_ms < last_ms:
            return (
                f"timestamp {timestamp_ms} ms comes before {last_ms} ms of {self._unit} {last_place}; "
                f"{_REMEDY[self._unit]} plays by time"
            )
        self._last_ms, self._last_place = timestamp_ms, place
        return None


def sorted_by_time(requests: Iterable[tuple[TraceRequest, Place]]) -> list[tuple[TraceRequest, Place]]:
    """Requests and their places in order of time; those of one time in the order in which they came.

    Raises:
        ConfigError: There are requests, and one of them has no timestamp.
    """
    keyed: list[tuple[float, TraceRequest, Place]] = []
    for request, place in requests:
        if request.timestamp_ms is None:
            raise ConfigError("sort", True, "the trace has no timestamps to sort by")
        keyed.append((request.timestamp_ms, request, place))
    keyed.sort(key=lambda entry: entry[0])
    return [(request, place) for _, request, place in keyed]

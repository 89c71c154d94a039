"""Checks of what callers of the replay pass, beside those of `blockpool.core.arguments`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TypeVar

from blockpool.errors import ArgumentError, ConfigError, TraceError, printable
from blockpool.trace.reader import TraceReader
from blockpool.trace.request import TraceRequest
from blockpool.trace.request_check import check_request
from blockpool.trace.time_order import TimeOrder, sorted_by_time

T = TypeVar("T")

REQUESTS_NAME = "<requests>"
"""What errors call requests that come from Python."""


def as_number(field: str, value: object) -> float:
    """An integer or a float.

    Raises:
        ArgumentError: For anything else.
    """
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value
    raise ArgumentError(field, value, "a number is needed")


def as_instance(field: str, value: object, kind: type[T]) -> T:
    """An object of a class.

    Raises:
        ArgumentError: For anything else.
    """
    if isinstance(value, kind):
        return value
    raise ArgumentError(field, value, f"needs to be of {kind.__name__}")


def instance_or(field: str, value: object, kind: type[T], **defaults: object) -> T:
    """An object of a class; for None, and nothing else, a new one.

    Args:
        defaults: What the new one is made of.

    Raises:
        ArgumentError: For anything else.
    """
    return kind(**defaults) if value is None else as_instance(field, value, kind)


def check_trace(trace: object) -> None:
    """Raises ArgumentError unless it is a path, or can be iterated as requests can."""
    if isinstance(trace, (str, os.PathLike)):
        return
    if isinstance(trace, (bytes, bytearray)) or not isinstance(trace, Iterable):
        raise ArgumentError("trace", trace, "a path or requests are needed")


def known_requests(requests: Iterable[TraceRequest], *, sort: bool = False) -> Iterator[TraceRequest]:
    """The requests, checked and at least one, in an order in which time does not go back.

    Args:
        requests: A reader, or requests that come from Python.
        sort: Put them in order of time first, in memory.

    Raises:
        ArgumentError: One of them is no request.
        TraceError: There is none; a field of one cannot be right; or, unless `sort`, a timestamp goes back or is
            missing on some.
        ConfigError: With `sort`, when there are no timestamps.
    """
    if isinstance(requests, TraceReader):
        # A reader checks all of this itself, and knows file and line.
        yield from requests.by_time() if sort else requests
        return
    numbered = enumerate(_only_requests(requests), start=1)
    if sort:
        for request, _ in sorted_by_time((request, number) for number, request in numbered):
            yield request
        return
    time_order = TimeOrder("request")
    for number, request in numbered:
        fault = time_order.fault(request.timestamp_ms, number)
        if fault:
            raise TraceError(REQUESTS_NAME, number, fault)
        yield request


def _only_requests(requests: Iterable[TraceRequest]) -> Iterator[TraceRequest]:
    empty = True
    for number, request in enumerate(requests, start=1):
        if not isinstance(request, TraceRequest):
            raise ArgumentError("trace", request, "a TraceRequest is needed")
        try:
            check_request(request)
        except ConfigError as error:
            raise TraceError(REQUESTS_NAME, number, printable(str(error))) from None
        empty = False
        yield request
    if empty:
        raise TraceError(REQUESTS_NAME, 0, "no requests")

"""Checks of what callers of the replay pass, beside those of `blockpool.core.arguments`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TypeVar

from blockpool.errors import ArgumentError, TraceError
from blockpool.trace.reader import TraceReader
from blockpool.trace.request import TraceRequest

T = TypeVar("T")


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


def check_trace(trace: object) -> None:
    """Raises ArgumentError unless it is a path, or can be iterated as requests can."""
    if isinstance(trace, (str, os.PathLike)):
        return
    if isinstance(trace, (bytes, bytearray)) or not isinstance(trace, Iterable):
        raise ArgumentError("trace", trace, "a path or requests are needed")


def known_requests(requests: Iterable[TraceRequest]) -> Iterator[TraceRequest]:
    """The requests, at least one.

    Raises:
        ArgumentError: One of them is no request.
        TraceError: There is none.
    """
    empty = True
    for request in requests:
        if not isinstance(request, TraceRequest):
            raise ArgumentError("trace", request, "a TraceRequest is needed")
        empty = False
        yield request
    # A reader has said so itself, and knows the file.
    if empty and not isinstance(requests, TraceReader):
        raise TraceError("<requests>", 0, "no requests")

"""Times that callers give, checked: how long to wait, and how often."""

from __future__ import annotations

import math
from typing import Final

from blockpool.errors import ArgumentError, ConfigError

LONGEST_SECONDS: Final = 1e9
"""Thirty years. What is longer, infinity included, counts as this: clocks and ZeroMQ have their limits."""

MAX_MILLISECONDS: Final = 0x7FFFFFFF


def as_timeout(field: str, value: object) -> float:
    """How long to wait at most, in seconds; below 0 counts as 0.

    Raises:
        ArgumentError: If it is no number.
        ConfigError: If it is not a number in the sense of floats.
    """
    return min(max(_as_number(field, value), 0.0), LONGEST_SECONDS)


def as_interval(field: str, value: object) -> float:
    """Seconds above 0 and below infinity.

    Raises:
        ArgumentError: If it is no number.
        ConfigError: If it is out of range.
    """
    number = _as_number(field, value)
    if not 0 < number < math.inf:
        raise ConfigError(field, value, "must be above 0 and finite")
    return min(number, LONGEST_SECONDS)


def as_moment(field: str, value: object) -> float:
    """Seconds since 1970, any float.

    Raises:
        ArgumentError: If it is no number.
        ConfigError: If no float is so large.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ArgumentError(field, value, "a number of seconds is needed")
    try:
        return float(value)
    except OverflowError:
        raise ConfigError(field, value, "is too large") from None


def milliseconds(seconds: float) -> int:
    """As ZeroMQ takes them: whole, and not beyond 31 bits."""
    return int(min(max(seconds, 0.0) * 1000, MAX_MILLISECONDS))


def _as_number(field: str, value: object) -> float:
    number = as_moment(field, value)
    if math.isnan(number):
        raise ConfigError(field, value, "must be a number")
    return number

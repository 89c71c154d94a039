"""Times that callers give: what counts; every method that takes one refuses the rest before it does anything."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from blockpool import ArgumentError, ConfigError
from blockpool.events import EventSubscriber
from blockpool.events.durations import (
    LONGEST_SECONDS,
    as_interval,
    as_moment,
    as_timeout,
    milliseconds,
)

from .support import address_of, publisher, stored

NO_NUMBERS = [None, "1", b"1", True, [1.0]]


def test_timeouts() -> None:
    assert [as_timeout("t", value) for value in (0, 1, 2.5, -1, -math.inf)] == [0.0, 1.0, 2.5, 0.0, 0.0]
    assert as_timeout("t", math.inf) == as_timeout("t", 1e300) == LONGEST_SECONDS


def test_intervals() -> None:
    assert [as_interval("i", value) for value in (1e-300, 1, 1e300)] == [1e-300, 1.0, LONGEST_SECONDS]
    for bad in (0, -1, math.inf, math.nan):
        with pytest.raises(ConfigError):
            as_interval("i", bad)


def test_moments() -> None:
    assert [as_moment("m", value) for value in (-1, 0, 1.5, math.inf)] == [-1.0, 0.0, 1.5, math.inf]
    assert math.isnan(as_moment("m", math.nan))
    with pytest.raises(ConfigError):
        as_moment("m", 10**400)


@pytest.mark.parametrize("check", [as_timeout, as_interval, as_moment])
@pytest.mark.parametrize("bad", NO_NUMBERS)
def test_what_is_no_number(check: Callable[[str, Any], float], bad: Any) -> None:
    with pytest.raises(ArgumentError):
        check("field", bad)


def test_milliseconds_fit_into_31_bits() -> None:
    assert [milliseconds(value) for value in (-1.0, 0.0, 0.0015, 2.0)] == [0, 0, 1, 2000]
    assert milliseconds(LONGEST_SECONDS) == 2**31 - 1


@pytest.mark.parametrize("bad", [*NO_NUMBERS, math.nan, pytest.param(10**400, id="huge")])
def test_methods_that_wait_refuse_what_is_no_time(bad: Any) -> None:
    with publisher() as made, EventSubscriber(address_of(made)) as subscriber:
        for method in (made.flush, made.close, subscriber.poll):
            with pytest.raises((ArgumentError, ConfigError)) as caught:
                method(bad)
            assert caught.value.field == "timeout"
        assert made.publish([stored(1)]) == 0  # it is not closed


@pytest.mark.parametrize("endless", [math.inf, 1e300, 1e9])
def test_methods_that_wait_take_the_longest_times(endless: float) -> None:
    with publisher() as made, EventSubscriber(address_of(made)) as subscriber:
        made.publish([stored(1)])
        assert made.flush(endless)
        assert subscriber.poll(endless)
        assert made.close(endless) is True

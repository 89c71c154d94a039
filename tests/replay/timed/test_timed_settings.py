"""TimedSettings, and the arrivals that they make."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest

from blockpool import ArgumentError, ConfigError
from blockpool.replay import TimedSettings
from blockpool.replay.timed.arrivals import Arrivals
from blockpool.trace import TraceRequest


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"speed": 0}, "speed"),
        ({"speed": -1.0}, "speed"),
        ({"speed": math.nan}, "speed"),
        ({"arrival_rate": math.inf}, "arrival_rate"),
        ({"arrival_rate": 0.0}, "arrival_rate"),
        ({"arrival_rate": 1.0, "speed": 2.0}, "arrival_rate"),
        ({"seed": -1}, "seed"),
        ({"seed": 2**63}, "seed"),
        ({"max_running": 0}, "max_running"),
        ({"max_running": 10**7}, "max_running"),
        ({"max_running": 9, "max_batched_tokens": 8}, "max_batched_tokens"),
        ({"max_running": 10_000}, "max_running"),
        ({"max_batched_tokens": 100}, "max_batched_tokens"),
        ({"prefill_rate": 0.0}, "prefill_rate"),
        ({"decode_rate": 1e10}, "decode_rate"),
    ],
)
def test_out_of_range(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        TimedSettings(**fields)
    assert caught.value.field == field
    assert not isinstance(caught.value, ArgumentError)


@pytest.mark.parametrize(
    "fields",
    [
        {"speed": "2x"},
        {"arrival_rate": True},
        {"seed": 1.5},
        {"max_running": "9"},
        {"max_batched_tokens": None},
        {"prefill_rate": None},
    ],
)
def test_wrong_types(fields: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError) as caught:
        TimedSettings(**fields)
    assert caught.value.field in fields


def test_which_default_is_in_the_way() -> None:
    with pytest.raises(ConfigError, match="at most max_batched_tokens, by default 8,192"):
        TimedSettings(max_running=10_000)
    with pytest.raises(ConfigError, match="at least max_running, by default 256"):
        TimedSettings(max_batched_tokens=100)
    with pytest.raises(ConfigError, match="at least max_running, 9:"):
        TimedSettings(max_running=9, max_batched_tokens=8)


def test_steps_in_nanoseconds() -> None:
    settings = TimedSettings(prefill_rate=3, decode_rate=1e9)
    assert settings.prefill_ns(1) == 333_333_333
    assert settings.prefill_ns(3) == 1_000_000_000
    assert settings.prefill_ns(0) == 0
    assert settings.decode_step_ns == 1


def times(requests: Iterator[TraceRequest], **fields: Any) -> list[int]:
    arrivals = Arrivals(requests, TimedSettings(**fields))
    found = []
    while arrivals.next_ns is not None:
        expected = arrivals.next_ns
        request, time_ns, line = arrivals.pop()
        assert (time_ns, line) == (expected, None)
        assert request.block_ids == [len(found)]
        found.append(time_ns)
    return found


def requests(*timestamps: float | None) -> Iterator[TraceRequest]:
    return iter([TraceRequest(time, 16, 16, block_ids=[number]) for number, time in enumerate(timestamps)])


def test_times_of_the_trace() -> None:
    assert times(requests(0, 1.5, 1.5, 10**15)) == [0, 1_500_000, 1_500_000, 10**21]
    assert times(requests(0, 1.5, 3), speed=2) == [0, 750_000, 1_500_000]
    assert times(requests(0, 1.5), speed=0.5) == [0, 3_000_000]


def test_poisson_arrivals() -> None:
    count = 4_000
    drawn = [times(requests(*[None] * count), arrival_rate=rate, seed=seed) for rate, seed in
             ((10, 1), (10, 1), (10, 2), (20, 1))]  # fmt: skip
    assert drawn[0] == drawn[1] != drawn[2]
    assert drawn[0] == sorted(drawn[0])
    # 4,000 arrivals at 10 per second: 400 s, give or take 5 standard deviations of 6.3.
    for found in drawn[:3]:
        assert abs(found[-1] / 1e9 - 400) < 32
    assert drawn[3][-1] == pytest.approx(drawn[0][-1] / 2, abs=10)
    # The same draws in every version: part of what a seed promises.
    assert drawn[0][:3] == [63_077_315, 182_227_285, 249_824_222]


def test_times_and_rates_that_do_not_go_together() -> None:
    with pytest.raises(ConfigError, match="is needed, as the trace has no timestamps"):
        times(requests(None))
    with pytest.raises(ConfigError, match=r"speed=2: the trace has no timestamps"):
        times(requests(None), speed=2)
    with pytest.raises(ConfigError, match=r"arrival_rate=3: the trace has timestamps"):
        times(requests(1), arrival_rate=3)

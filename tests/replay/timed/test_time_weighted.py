"""TimeWeighted: exact means, and few points that are evenly spaced in time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockpool import Occupancy
from blockpool.replay.occupancy import MAX_POINTS
from blockpool.replay.timed.time_weighted import TimeWeighted

MS = 1_000_000


@given(
    st.integers(0, 10**18),
    st.lists(st.tuples(st.integers(0, 10**9), *[st.integers(0, 100)] * 4), max_size=50),
)
def test_means_and_points(start: int, states: list[tuple[int, int, int, int, int]]) -> None:
    over_time = TimeWeighted(start)
    now = start
    spans = []
    for number, (duration, running, *occupancy) in enumerate(states):
        over_time.hold(now, duration, Occupancy(*occupancy), running, number)
        spans.append((now, now + duration, number, *occupancy))
        now += duration
    assert over_time.seconds == (now - start) / 1e9
    assert over_time.max_running == max([state[1] for state in states], default=0)
    if now == start:
        assert over_time.means() is None
        assert over_time.mean_running == 0.0
        assert over_time.points == []
        return
    sums = [sum(state[0] * state[place] for state in states) / (now - start) for place in range(1, 5)]
    assert [over_time.mean_running, *(over_time.means() or ())] == sums
    points = over_time.points
    assert 1 <= len(points) <= MAX_POINTS
    assert over_time.interval_ns == MS or len(points) >= MAX_POINTS // 2
    for place, point in enumerate(points):
        at = start + place * over_time.interval_ns
        assert point.time_ms == at / MS
        assert point[2:] == next(span[3:] for span in spans if span[0] <= at < span[1])
        assert point.request == next(span[2] for span in spans if span[0] <= at < span[1])
    assert start + len(points) * over_time.interval_ns >= now


def test_a_state_that_lasts_for_ages() -> None:
    over_time = TimeWeighted(0)
    over_time.hold(0, 10**21, Occupancy(1, 2, 3), 4, 5)
    assert MAX_POINTS // 2 <= len(over_time.points) <= MAX_POINTS
    assert over_time.means() == (1, 2, 3)
    assert over_time.mean_running == pytest.approx(4)

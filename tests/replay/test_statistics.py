"""Quantiles, occupancy and residency: exact where they are exact, within the stated bound where not."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockpool import ConfigError, Occupancy
from blockpool.replay import PoolRun, ReplaySettings
from blockpool.replay.occupancy import MAX_POINTS, OccupancySeries
from blockpool.replay.quantiles import RELATIVE_ERROR, QuantileSketch
from blockpool.replay.residency import TraceClock
from blockpool.trace import TraceRequest


@given(
    st.lists(st.one_of(st.just(0.0), st.floats(1e-9, 1e18)), min_size=1, max_size=200),
    st.floats(0.001, 1),
)
def test_quantiles_are_within_one_per_cent(values: list[float], fraction: float) -> None:
    sketch = QuantileSketch()
    for value in values:
        sketch.add(value)
    true = sorted(values)[max(1, math.ceil(fraction * len(values))) - 1]
    assert sketch.quantile(fraction) == pytest.approx(true, rel=RELATIVE_ERROR * (1 + 1e-9))
    assert sketch.count == len(values)


def test_quantiles_of_nothing_and_of_extremes() -> None:
    sketch = QuantileSketch()
    assert sketch.quantile(0.5) is None
    sketch.add(1e300)
    sketch.add(1e-300)
    assert sketch.quantile(0.5) == 0.0
    assert sketch.quantile(1.0) == pytest.approx(1e18, rel=RELATIVE_ERROR)


def test_quantiles_need_bounded_memory() -> None:
    sketch = QuantileSketch()
    value = 1e-9
    while value < 1e20:
        sketch.add(value)
        value *= 1.001
    assert len(sketch._buckets) <= 3_200


@given(st.lists(st.tuples(*[st.integers(0, 100)] * 3), max_size=3_000))
def test_occupancy_means_are_exact_and_points_few(samples: list[tuple[int, int, int]]) -> None:
    series = OccupancySeries()
    for number, sample in enumerate(samples):
        series.add(number, None, Occupancy(*sample))
    means = series.means()
    if not samples:
        assert means is None
        return
    assert means == pytest.approx([sum(column) / len(samples) for column in zip(*samples, strict=True)])


@pytest.mark.parametrize("count", [1, MAX_POINTS, MAX_POINTS + 1, 1_000, 50_000])
def test_occupancy_points_are_every_stride_th(count: int) -> None:
    series = OccupancySeries()
    for number in range(count):
        series.add(number, number * 2.0, Occupancy(number, 0, 0))
    assert len(series.points) <= MAX_POINTS
    assert [point.request for point in series.points] == list(range(0, count, series.stride))
    assert all(
        point.in_use == point.request and point.time_ms == point.request * 2 for point in series.points
    )
    assert count <= MAX_POINTS or len(series.points) > MAX_POINTS // 2


def test_the_clock_follows_the_trace_and_refuses_to_go_back() -> None:
    clock = TraceClock()
    for timestamp, now in ((1.5, 1_500_000), (1.5, 1_500_000), (2, 2_000_000)):
        clock.advance(timestamp)
        assert (clock(), clock.unit) == (now, "seconds")
    with pytest.raises(ConfigError, match=r"timestamp 1 ms comes before 2 ms of request 3"):
        clock.advance(1)
    with pytest.raises(ConfigError, match="timestamp missing"):
        clock.advance(None)
    clock.advance(2)
    assert clock() == 2_000_000


def test_a_request_of_the_past_leaves_the_pool_as_it_was() -> None:
    run = PoolRun(2, ReplaySettings())
    run.play(TraceRequest(9, 16, 16, block_ids=[1]))
    with pytest.raises(ConfigError, match="comes before 9 ms"):
        run.play(TraceRequest(8, 16, 16, block_ids=[2]))
    assert run.play(TraceRequest(9, 32, 16, block_ids=[1, 2])) == 1
    assert run.counts.requests == 2


def played(times: list[float | None]) -> PoolRun:
    """A pool of two blocks: id 0 comes three times, then 1 and 2 push it out."""
    run = PoolRun(2, ReplaySettings(sample_rate=1.0))
    for time, block_id in zip(times, [0, 0, 0, 1, 2], strict=True):
        run.play(TraceRequest(time, 16, 16, block_ids=[block_id]))
    return run


def test_residency_in_seconds_of_the_trace() -> None:
    residency = played([1_000, 2_000, 5_000, 6_000, 9_000]).result(1.0).residency
    assert (residency.unit, residency.sample_rate, residency.relative_error) == (
        "seconds",
        1.0,
        RELATIVE_ERROR,
    )
    assert residency.lifetime.samples == 1
    assert residency.lifetime.median == pytest.approx(8.0, rel=RELATIVE_ERROR)
    assert residency.idle.p90 == pytest.approx(4.0, rel=RELATIVE_ERROR)
    assert residency.reuse_gap.samples == 1
    assert residency.reuse_gap.p99 == pytest.approx(3.0, rel=RELATIVE_ERROR)


def test_residency_in_requests_without_times() -> None:
    residency = played([None] * 5).result(1.0).residency
    assert residency.unit == "requests"
    assert residency.lifetime.median == pytest.approx(4.0, rel=RELATIVE_ERROR)
    assert residency.idle.median == pytest.approx(2.0, rel=RELATIVE_ERROR)


def test_blocks_never_indexed_are_counted_apart() -> None:
    run = PoolRun(1, ReplaySettings(rules="engine", sample_rate=1.0))
    for _ in range(5):
        run.play(TraceRequest(None, 3, 4, token_ids=[1, 2, 3]))
    residency = run.result(1.0).residency
    assert (residency.lifetime.samples, residency.recycled) == (0, 4)
    assert residency.lifetime.median is None


def test_occupancy_is_taken_while_a_request_is_held() -> None:
    run = PoolRun(10, ReplaySettings(rules="engine"))
    run.play(TraceRequest(None, 9, 4, token_ids=[1] * 9))
    run.play(TraceRequest(None, 5, 4, token_ids=[2] * 5))
    points = run.result(1.0).occupancy_points
    assert [point[2:] for point in points] == [(3, 0, 7), (2, 2, 6)]
    assert run.result(1.0).occupancy_means == (2.5, 1.0, 6.5)


def test_large_pools_are_sampled() -> None:
    settings = ReplaySettings()
    assert settings.sample_rate_for(2_000) == 1.0
    assert settings.sample_rate_for(1_000_000) == 0.002
    assert ReplaySettings(sample_rate=0.5).sample_rate_for(1_000_000) == 0.5

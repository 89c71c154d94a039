"""Sums of curves, and fleets whose replicas are left without a request."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from blockpool.replay.curves.curve_pass import feed
from blockpool.replay.curves.hit_curve import HitCurve
from blockpool.replay.plans.fleet import Fleet, sum_of_curves
from blockpool.replay.settings import ReplaySettings
from blockpool.trace import TraceRequest


def curve(first: int, steps: dict[int, int]) -> HitCurve:
    """From `first` on, with so many hit tokens, and half as many blocks, from each step on."""
    steps = {first: 0} | {first + offset: tokens for offset, tokens in steps.items()}
    capacities = sorted(steps)
    return HitCurve(
        requests=1,
        prompt_tokens=1000,
        prompt_blocks=500,
        largest_request_blocks=first,
        distinct_keys=7,
        uncertain_places=0,
        capacities=capacities,
        hit_blocks=[steps[capacity] // 2 for capacity in capacities],
        hit_tokens=[steps[capacity] for capacity in capacities],
        sampled=None,
        trace_format=None,
        bad_lines=0,
        seconds=0.0,
    )


CURVES = st.builds(
    curve, st.integers(1, 30), st.dictionaries(st.integers(0, 30), st.integers(0, 900), max_size=6)
)


@given(st.lists(CURVES, min_size=1, max_size=4), st.integers(0, 80))
def test_a_sum_is_the_sum_everywhere(curves: list[HitCurve], more: int) -> None:
    total = sum_of_curves(curves)
    assert total.largest_request_blocks == max(one.largest_request_blocks for one in curves)
    assert list(total.capacities) == sorted(set(total.capacities))
    capacity = total.largest_request_blocks + more
    points = [one.at(capacity) for one in curves]
    here = total.at(capacity)
    assert here.hit_tokens == sum(point.hit_tokens for point in points)
    assert here.hit_blocks == sum(point.hit_blocks for point in points)
    assert here.prompt_tokens == 1000 * len(curves)


def test_replicas_that_nobody_needs() -> None:
    settings = ReplaySettings()
    fleet = Fleet("affine", 5, 0, settings)
    requests = [TraceRequest(None, 32, 16, block_ids=[1, 2])] * 3
    feed(requests, settings, 0, [fleet])
    assert (fleet.requests, fleet.tokens) == ([3, 0, 0, 0, 0], [96, 0, 0, 0, 0])
    found = fleet.curve()
    assert (found.largest_request_blocks, found.at(2).hit_tokens, found.knee()) == (2, 64, 2)

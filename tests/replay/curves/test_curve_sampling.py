"""Sampling: a fair choice of blocks, estimates without bias, and a bound that holds."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from blockpool.replay import ReplaySettings, curve
from blockpool.replay.curves.key_sampler import KeySampler
from blockpool.replay.curves.sampled_hits import SampledHits, SampledLookup
from blockpool.trace import TraceRequest, generate

SEEDS = range(6)
GOLDEN_IDS = [7, 14, 22, 75, 132, 257]
GOLDEN_DIGESTS = [36, 89, 169, 230, 232]


@pytest.fixture(scope="module")
def requests() -> Sequence[TraceRequest]:
    return list(generate("mix", 300, seed=3, block_size=16))


@pytest.mark.parametrize("one_in", [2, 10, 100])
def test_one_of_so_many_is_chosen_always_the_same_ones(one_in: int) -> None:
    ids: list[object] = list(range(50_000))
    digests: list[object] = [number.to_bytes(8, "big") * 2 for number in range(0, 2**63, 2**48)]
    for keys in (
        ids,
        [-1 - number for number in range(50_000)],
        [2**63 + number for number in range(50_000)],
        digests,
    ):
        for seed in (0, 1, 2**32 - 1):
            chosen = KeySampler(one_in, seed).choose(list(keys))
            assert len(chosen) == pytest.approx(len(keys) / one_in, rel=0.15)
            assert chosen == KeySampler(one_in, seed).choose(list(keys))


def test_seeds_choose_differently() -> None:
    keys: list[object] = list(range(10_000))
    first, second = (set(KeySampler(10, seed).choose(keys)) for seed in (0, 1))
    assert len(first & second) < 200


def test_golden_choice() -> None:
    """Both builds, and all platforms, choose the same."""
    assert KeySampler(50, 7).choose(list(range(300))) == GOLDEN_IDS
    assert KeySampler(50, 7).choose([bytes([number] * 16) for number in range(256)]) == GOLDEN_DIGESTS


def test_blocks_without_a_name_are_chosen_in_turn() -> None:
    sampler = KeySampler(10, 0)
    assert [sampler.choose_nameless(4) for _ in range(10)] == [0, 0, 1, 0, 1, 0, 0, 1, 0, 1]


@pytest.mark.parametrize("rules", ["trace", "engine"])
def test_the_bound_holds_and_the_mean_is_right(requests: Sequence[TraceRequest], rules: str) -> None:
    settings = ReplaySettings(rules=rules)
    exact = curve(requests, settings)
    capacities = [exact.capacity_for_share(share) for share in (0.3, 0.6, 0.9, 0.99)]
    outside = 0
    means = dict.fromkeys(capacities, 0.0)
    for seed in SEEDS:
        sampled = curve(requests, settings, one_in=10, seed=seed)
        assert sampled.sampled is not None
        assert (sampled.prompt_tokens, sampled.largest_request_blocks) == (
            exact.prompt_tokens,
            exact.largest_request_blocks,
        )
        for capacity in capacities:
            truth, bound = exact.at(capacity), sampled.sampled.bound(capacity)
            estimate = sampled.at(capacity)
            means[capacity] += estimate.hit_blocks / len(SEEDS)
            assert bound.least_hit_blocks <= estimate.hit_blocks <= bound.most_hit_blocks
            assert bound.least_hit_tokens <= estimate.hit_tokens <= bound.most_hit_tokens
            outside += not bound.least_hit_blocks <= truth.hit_blocks <= bound.most_hit_blocks
            outside += not bound.least_hit_tokens <= truth.hit_tokens <= bound.most_hit_tokens
    assert outside <= 1, "three standard deviations"
    for capacity, mean in means.items():
        assert mean == pytest.approx(exact.at(capacity).hit_blocks, abs=0.05 * exact.prompt_blocks)


def test_without_anything_to_vary_the_bound_is_tight() -> None:
    lookups = [SampledLookup(3, 0, 16), SampledLookup(5, 0, 16)]
    hits = SampledHits(10, lookups, 20, 320)
    assert hits.steps(1) == ([1, 3, 5], [0, 10, 20], [0, 160, 320])
    assert hits.bound(1_000) == (20, 20, 320, 320)


def test_a_sample_of_everything_is_exact(requests: Sequence[TraceRequest]) -> None:
    assert curve(requests, one_in=1).sampled is None

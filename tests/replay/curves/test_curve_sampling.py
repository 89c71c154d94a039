"""Sampling: a fair choice of blocks, estimates without bias, and a bound that holds."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from blockpool.replay import ReplaySettings, curve
from blockpool.replay.curves.key_sampler import KeySampler
from blockpool.replay.curves.sampled_hits import SampledHits, SampledLookup, Totals
from blockpool.trace import TraceRequest, generate

SEEDS = range(6)
GOLDEN_IDS = [22, 39, 60, 103, 218]
GOLDEN_DIGESTS = [13, 66, 146, 147, 199, 212, 216, 218]


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
    hits = SampledHits(10, lookups, Totals(20, 320, 20, 16))
    assert hits.steps(1) == ([1, 3, 5], [0, 10, 20], [0, 160, 320])
    assert hits.bound(1_000_000) == (0, 20, 0, 320), "two look-ups say nothing"
    many = [SampledLookup(3, key, 16) for key in range(1000)]
    assert SampledHits(10, many, Totals(10_000, 160_000, 10_000, 16)).bound(10**6) == (
        9_939,  # 60.6 of blocks that may not be in the sample
        10_000,
        159_030,
        160_000,
    )


@pytest.mark.parametrize("one_in", [10, 1000])
def test_an_empty_sample_knows_nothing(one_in: int) -> None:
    hits = SampledHits(one_in, [], Totals(500, 8_000, 500, 16))
    for capacity in (1, 10, 10_000):
        least, most = hits.bound(capacity)[:2]
        assert least <= max(0, 500 - 6 * one_in)
        assert most == 500
    assert hits.bound(8 * one_in)[0] == hits.bound(8 * one_in)[2] == 0


@pytest.mark.parametrize("one_in", [5, 20])
def test_the_bound_holds_for_skewed_traces(one_in: int) -> None:
    """A few blocks have most of the look-ups, and a sample has them or not."""
    source = random.Random(5)
    ids = source.choices(range(600), [1 / rank for rank in range(1, 601)], k=3_000)
    requests = [TraceRequest(None, 16, 16, block_ids=[number]) for number in ids]
    exact = curve(requests)
    outside = compared = 0
    for seed in range(15):
        sampled = curve(requests, one_in=one_in, seed=seed).sampled
        assert sampled is not None
        for capacity in (1, 2, 4, 8, 16, 40, 100, 250, 590):
            bound, truth = sampled.bound(capacity), exact.at(capacity)
            outside += not bound.least_hit_blocks <= truth.hit_blocks <= bound.most_hit_blocks
            compared += 1
    assert outside <= compared // 100


def test_numbers_of_ids_without_gaps_vary_as_of_any_others() -> None:
    """After a mere exclusive or of the seed, every seed would choose equally many of 2^n ids that are counted up."""
    keys: list[object] = list(range(1024))
    counts = [len(KeySampler(10, seed).choose(keys)) for seed in range(400)]
    mean = sum(counts) / len(counts)
    variance = sum((count - mean) ** 2 for count in counts) / len(counts)
    assert mean == pytest.approx(102.4, rel=0.02)
    assert variance == pytest.approx(1024 * 0.1 * 0.9, rel=0.2)
    assert len({tuple(KeySampler(10, seed).choose(keys)) for seed in range(400)}) == 400


def test_a_sample_of_everything_is_exact(requests: Sequence[TraceRequest]) -> None:
    assert curve(requests, one_in=1).sampled is None

"""FIFO and Belady's optimum: against plain models, an exhaustive search, and the PyPI package kvcache-simulator."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blockpool.errors import ConfigError
from blockpool.replay import ReplaySettings, curve
from blockpool.replay.curves.curve_pass import feed
from blockpool.replay.curves.policy_points import PolicyRecorder, parse_policies
from blockpool.replay.keys import KeyMaker
from blockpool.replay.rules import RequestPlan, plan_request
from blockpool.trace import TraceReader, TraceRequest, generate, open_trace_for_writing, write_trace

from .curve_traces import any_traces, replayed

settings_of = {rules: ReplaySettings(rules=rules, sample_rate=1e-9) for rules in ("trace", "engine")}


def recorded(requests: Sequence[TraceRequest], rules: str, first_measured: int = 0) -> PolicyRecorder:
    recorder = PolicyRecorder()
    feed(requests, settings_of[rules], first_measured, [recorder])
    return recorder


def plans_of(
    requests: Sequence[TraceRequest], rules: str, capacity: int
) -> list[tuple[TraceRequest, RequestPlan]]:
    key_maker = KeyMaker("blake2b_raw")
    plans = [(request, plan_request(request, rules, key_maker)) for request in requests]
    return [(request, plan) for request, plan in plans if plan.num_blocks <= capacity]


def leading_run(plan: RequestPlan, cached: object) -> int:
    hits = 0
    while hits < min(plan.max_hit_blocks, len(plan.keys)) and plan.keys[hits] in cached:  # type: ignore[operator]
        hits += 1
    return hits


def plain_fifo(plans: list[tuple[TraceRequest, RequestPlan]], capacity: int) -> tuple[int, int]:
    queue: list[object] = []
    hit_blocks = hit_tokens = 0
    for request, plan in plans:
        hits = leading_run(plan, queue)
        hit_blocks += hits
        hit_tokens += request.tokens_in_first(hits)
        for key in [*plan.keys, *[object()] * (plan.num_blocks - len(plan.keys))]:
            if key not in queue:
                queue = [*queue[-(capacity - 1) :], key] if capacity > 1 else [key]
    return hit_blocks, hit_tokens


def best_possible(
    plans: list[tuple[TraceRequest, RequestPlan]], capacity: int, first_measured: int
) -> tuple[int, int]:
    """Most hit blocks, and most hit tokens, that any choice of what to keep after each request can have."""
    reached: dict[frozenset[object], tuple[int, int]] = {frozenset(): (0, 0)}
    for number, (request, plan) in enumerate(plans):
        if plan.num_blocks > capacity:
            continue
        following: dict[frozenset[object], tuple[int, int]] = {}
        for cached, (blocks, tokens) in reached.items():
            if number >= first_measured:
                hits = leading_run(plan, cached)
                blocks, tokens = blocks + hits, tokens + request.tokens_in_first(hits)
            pool = sorted(cached | set(plan.keys), key=repr)
            for kept in map(frozenset, combinations(pool, min(capacity, len(pool)))):
                most = following.get(kept, (0, 0))
                following[kept] = max(most[0], blocks), max(most[1], tokens)
        reached = following
    return max(blocks for blocks, _ in reached.values()), max(tokens for _, tokens in reached.values())


@given(any_traces, st.sampled_from(["trace", "engine"]), st.integers(1, 25))
def test_fifo_equals_a_plain_queue(requests: list[TraceRequest], rules: str, capacity: int) -> None:
    found = recorded(requests, rules).point("fifo", capacity)
    assert (found.hit_blocks, found.hit_tokens) == plain_fifo(plans_of(requests, rules, capacity), capacity)


@st.composite
def tiny_traces(draw: Any) -> list[TraceRequest]:
    """Few short chains, often the same ones; blocks of equal size, or of sizes drawn for every block."""
    names: dict[tuple[int, ...], int] = {}
    requests = []
    unequal = draw(st.booleans())
    for _ in range(draw(st.integers(1, 9))):
        steps = draw(st.lists(st.sampled_from([0, 0, 1]), min_size=1, max_size=3))
        ids = [names.setdefault(tuple(steps[: end + 1]), len(names)) for end in range(len(steps))]
        if unequal:
            sizes = draw(st.lists(st.integers(1, 12), min_size=len(ids), max_size=len(ids)))
            requests.append(TraceRequest(None, sum(sizes), None, block_ids=ids, block_tokens=sizes))
        else:
            # With a last block of 7 of 8 tokens, engine rules do not index it.
            prompt_tokens = 8 * len(ids) - draw(st.sampled_from([0, 0, 1]))
            requests.append(TraceRequest(None, prompt_tokens, 8, block_ids=ids))
    return requests


@settings(max_examples=300)
@given(
    tiny_traces(),
    st.sampled_from(["trace", "engine"]),
    st.integers(1, 4),
    st.sampled_from(["all", "last-half"]),
)
def test_optimal_equals_an_exhaustive_search(
    requests: list[TraceRequest], rules: str, capacity: int, window: str
) -> None:
    first_measured = len(requests) // 2 if window == "last-half" else 0
    key_maker = KeyMaker("blake2b_raw")
    plans = [(request, plan_request(request, rules, key_maker)) for request in requests]
    most_blocks, most_tokens = best_possible(plans, capacity, first_measured)
    found = recorded(requests, rules, first_measured).point("optimal", capacity)
    assert found.hit_blocks == most_blocks
    assert found.hit_tokens >= most_tokens
    if rules == "engine" and requests[0].block_tokens is None:
        assert found.hit_tokens == most_tokens == 8 * most_blocks


@given(
    any_traces,
    st.sampled_from(["trace", "engine"]),
    st.integers(1, 30),
    st.booleans(),
    st.sampled_from(["all", "last-half"]),
)
def test_nothing_beats_the_optimum(
    requests: list[TraceRequest], rules: str, capacity: int, reuse_uncached_first: bool, window: str
) -> None:
    pool = ReplaySettings(
        rules=rules, window=window, reuse_uncached_first=reuse_uncached_first, sample_rate=1e-9
    )
    recorder = recorded(requests, rules, len(requests) // 2 if window == "last-half" else 0)
    best, fifo = recorder.point("optimal", capacity), recorder.point("fifo", capacity)
    lru = replayed(requests, capacity, pool)
    assert best.hit_blocks >= max(fifo.hit_blocks, lru.hit_blocks)
    assert best.hit_tokens >= max(fifo.hit_tokens, lru.hit_tokens)


def chains(*ids: list[int]) -> list[TraceRequest]:
    return [TraceRequest(None, 4 * len(chain), 4, block_ids=chain) for chain in ids]


def test_a_policy_that_is_not_played_size_by_size_is_refused() -> None:
    with pytest.raises(ConfigError, match="policy='lru'"):
        PolicyRecorder().point("lru", 1)


def test_a_last_block_that_is_computed_again_is_worth_more_than_its_child() -> None:
    """Both are needed by the same request; the child was there first, but hits only together with its parent."""
    requests = chains([7, 8, 9], [1, 2, 3, 4], [1], [7, 8, 9], [1, 2, 3, 4])
    assert recorded(requests, "engine").point("optimal", 4).hit_blocks == 4
    requests = chains([0, 6, 7], [5, 11], [0], [5, 11, 12], [0, 6, 7, 15])
    for capacity in range(4, 9):
        assert (
            recorded(requests, "engine").point("optimal", capacity).hit_blocks
            >= replayed(requests, capacity, settings_of["engine"]).hit_blocks
        )


def test_hits_of_the_warm_up_are_worth_nothing() -> None:
    requests = chains([1], [2], [3], [2], [1], [3], [4], [5], [6], [7])
    found = [recorded(requests, "trace", first).point("optimal", 1).hit_blocks for first in (0, 4, 5)]
    assert found == [1, 1, 1]
    # Keeping 2 for the warm-up would lose 1.
    assert recorded(chains([1], [2], [2], [1]), "trace", 3).point("optimal", 1)[2:] == (1, 4)


def test_tokens_of_many_sizes_are_bounded() -> None:
    """More sizes than are told apart: the bound is above the best choice, and reached where nothing has to go."""
    sizes = [*range(10, 40), 100]
    requests = [
        TraceRequest(None, size, None, block_ids=[number], block_tokens=[size])
        for _ in range(3)
        for number, size in enumerate(sizes)
    ]
    recorder = recorded(requests, "trace")
    assert recorder.point("optimal", 31).hit_tokens == 2 * sum(sizes)
    best_of_one = 2 * 100
    assert best_of_one <= recorder.point("optimal", 1).hit_tokens < 3 * best_of_one


def test_last_half_is_measured_alone() -> None:
    requests = [TraceRequest(None, 4, 4, block_ids=[number % 2]) for number in range(8)]
    for policy in ("fifo", "optimal"):
        assert recorded(requests, "trace").point(policy, 5)[2:] == (6, 24)
        assert recorded(requests, "trace", 4).point(policy, 5)[2:] == (4, 16)


def test_names_of_policies() -> None:
    assert parse_policies("lru, optimal") == ["lru", "optimal"]
    for text in ("", "lru,", "belady", "lru,lru"):
        with pytest.raises(ConfigError, match="policies"):
            parse_policies(text)


@pytest.mark.parametrize(
    ("kind", "block_size"), [("chat", 16), ("agent", 128), ("documents", 512), ("mix", 64)]
)
def test_equal_to_kvcache_simulator(tmp_path: Path, kind: str, block_size: int) -> None:
    pytest.importorskip("kvcache_sim", reason="kvcache-simulator is not installed")
    from kvcache_sim.plan import build_execution_plan
    from kvcache_sim.policies import simulate_policy
    from kvcache_sim.trace import parse_trace_file

    path = tmp_path / "trace.jsonl"
    with open_trace_for_writing(path) as file:
        write_trace(generate(kind, 120, seed=7), file, "mooncake", block_size=block_size)
    requests = list(TraceReader(path))
    plan = build_execution_plan(parse_trace_file(path, block_size=block_size), warmup_fraction=0.5)
    recorder = recorded(requests, "trace", 60)
    smallest = max(request.num_prompt_blocks for request in requests)
    warm = len({i for request in requests[:60] for i in request.block_ids or []})
    lru = curve(requests, ReplaySettings(window="last-half"))
    compared = 0
    for step in range(5):
        capacity = smallest + (warm - smallest) * step // 4
        for policy in ("lru", "fifo", "optimal"):
            expected = simulate_policy(plan, policy, capacity)
            if expected.measurementMode == "underfilled_at_window":
                continue
            compared += 1
            if policy == "optimal":  # theirs keeps blocks for hits of the warm-up, too
                assert recorder.point(policy, capacity).hit_tokens >= expected.hitTokens
                continue
            point = lru.at(capacity) if policy == "lru" else recorder.point(policy, capacity)
            assert (policy, capacity, point.hit_tokens) == (policy, capacity, expected.hitTokens)
    assert compared >= 9


def test_optimal_equals_kvcache_simulator_after_a_warm_up_without_hits(tmp_path: Path) -> None:
    pytest.importorskip("kvcache_sim", reason="kvcache-simulator is not installed")
    from kvcache_sim.plan import build_execution_plan
    from kvcache_sim.policies import simulate_policy
    from kvcache_sim.trace import parse_trace_file

    measured = list(generate("mix", 60, seed=7, block_size=64))
    smallest = max(request.num_prompt_blocks for request in measured)
    strangers = [
        TraceRequest(0, 64 * smallest, 64, token_ids=[10**6 + number] * (64 * smallest), output_tokens=1)
        for number in range(60)
    ]
    path = tmp_path / "trace.jsonl"
    with open_trace_for_writing(path) as file:
        write_trace([*strangers, *measured], file, "mooncake", block_size=64)
    plan = build_execution_plan(parse_trace_file(path, block_size=64), warmup_fraction=0.5)
    recorder = recorded(list(TraceReader(path, block_size=64)), "trace", 60)
    for capacity in (smallest, 2 * smallest, 5 * smallest):
        expected = simulate_policy(plan, "optimal", capacity)
        assert expected.measurementMode == "fixed_window"
        assert recorder._trace.optimal(capacity)[1] == expected.hitTokens > 0

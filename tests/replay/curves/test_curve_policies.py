"""FIFO and Belady's optimum: against plain models, an exhaustive search, and the PyPI package kvcache-simulator."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
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


def best_possible(plans: list[tuple[TraceRequest, RequestPlan]], capacity: int) -> int:
    """Most hit blocks that any choice of what to keep after each request can have."""
    reached: dict[frozenset[object], int] = {frozenset(): 0}
    for _, plan in plans:
        following: dict[frozenset[object], int] = {}
        for cached, hits in reached.items():
            hits += leading_run(plan, cached)
            pool = sorted(cached | set(plan.keys), key=repr)
            for choice in range(1 << len(pool)):
                if choice.bit_count() == min(capacity, len(pool)):
                    kept = frozenset(key for bit, key in enumerate(pool) if choice >> bit & 1)
                    following[kept] = max(following.get(kept, 0), hits)
        reached = following
    return max(reached.values())


@given(any_traces, st.sampled_from(["trace", "engine"]), st.integers(1, 25))
def test_fifo_equals_a_plain_queue(requests: list[TraceRequest], rules: str, capacity: int) -> None:
    found = recorded(requests, rules).point("fifo", capacity)
    assert (found.hit_blocks, found.hit_tokens) == plain_fifo(plans_of(requests, rules, capacity), capacity)


@given(
    st.lists(st.sampled_from([[1], [1, 2], [1, 2, 3], [1, 4], [5], [5, 6], [7]]), min_size=1, max_size=6),
    st.sampled_from(["trace", "engine"]),
    st.sampled_from([7, 8]),
    st.integers(1, 4),
)
def test_optimal_equals_an_exhaustive_search(
    chains: list[list[int]], rules: str, last_tokens: int, capacity: int
) -> None:
    # Blocks of 8 tokens; with a last one of 7, engine rules do not index it.
    requests = [TraceRequest(None, 8 * len(ids) - 8 + last_tokens, 8, block_ids=ids) for ids in chains]
    plans = plans_of(requests, rules, capacity)
    found = recorded(requests, rules).point("optimal", capacity)
    assert found.hit_blocks == best_possible(plans, capacity)


@given(any_traces, st.sampled_from(["trace", "engine"]), st.integers(1, 30))
def test_nothing_beats_the_optimum(requests: list[TraceRequest], rules: str, capacity: int) -> None:
    recorder = recorded(requests, rules)
    best = recorder.point("optimal", capacity).hit_blocks
    assert best >= recorder.point("fifo", capacity).hit_blocks
    assert best >= replayed(requests, capacity, settings_of[rules]).hit_blocks


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
            found = (
                lru.at(capacity).hit_tokens
                if policy == "lru"
                else recorder.point(policy, capacity).hit_tokens
            )
            assert (policy, capacity, found) == (policy, capacity, expected.hitTokens)
            compared += 1
    assert compared >= 9

"""Trace rules and engine rules: by example, and against a model that is obviously right."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockpool.replay import PoolRun, ReplaySettings
from blockpool.replay.keys import KeyMaker
from blockpool.replay.rules import plan_request
from blockpool.trace import TraceRequest

from .engine_model import EngineModel


def by_tokens(prompt: list[int], output: list[int] | None = None, **fields: Any) -> TraceRequest:
    return TraceRequest(None, len(prompt), 4, token_ids=prompt, output_token_ids=output, **fields)


def by_ids(prompt_tokens: int, ids: list[int], **fields: Any) -> TraceRequest:
    return TraceRequest(None, prompt_tokens, fields.pop("block_size", 4), block_ids=ids, **fields)


def sizes(request: TraceRequest, rules: str) -> tuple[int, int, int]:
    plan = plan_request(request, rules, KeyMaker("sha256"))
    return len(plan.keys), plan.num_blocks, plan.max_hit_blocks


@pytest.mark.parametrize(
    ("request_", "trace", "engine"),
    [
        (by_tokens([1] * 7), (2, 2, 2), (1, 2, 1)),
        (by_tokens([1] * 8), (2, 2, 2), (2, 2, 1)),
        (by_tokens([1] * 9), (3, 3, 3), (2, 3, 2)),
        (by_tokens([1]), (1, 1, 1), (0, 1, 0)),
        (by_tokens([1] * 7, []), (2, 2, 2), (1, 2, 1)),
        (by_tokens([1] * 7, [2]), (2, 2, 2), (1, 2, 1)),
        (by_tokens([1] * 7, [2, 3]), (2, 2, 2), (2, 2, 1)),
        (by_tokens([1] * 7, [2, 3, 4]), (2, 2, 2), (2, 3, 1)),
        (by_tokens([1] * 7, output_tokens=3), (2, 2, 2), (1, 2, 1)),
        (by_ids(7, [1, 2]), (2, 2, 2), (1, 2, 1)),
        (by_ids(8, [1, 2], output_tokens=100), (2, 2, 2), (2, 2, 1)),
        (by_ids(7, [1, 2], block_tokens=[4, 3]), (2, 2, 2), (1, 2, 1)),
        (by_ids(8, [1, 2], block_tokens=[4, 4]), (2, 2, 2), (2, 2, 1)),
        (by_ids(8, [1, 2], block_tokens=[4, 4], block_size=None), (2, 2, 2), (2, 2, 1)),
        (by_ids(7, [1, 2], block_tokens=[4, 3], block_size=None), (2, 2, 2), (1, 2, 1)),
    ],
)
def test_what_is_indexed_held_and_hit(request_: TraceRequest, trace: Any, engine: Any) -> None:
    assert sizes(request_, "trace") == trace
    assert sizes(request_, "engine") == engine


def hits(rules: str, *requests: TraceRequest, blocks: int = 20) -> list[int | None]:
    run = PoolRun(blocks, ReplaySettings(rules=rules, check_every=1))
    return [run.play(request) for request in requests]


def test_the_whole_prompt_hits_under_trace_rules_only() -> None:
    assert hits("trace", by_tokens([1] * 8), by_tokens([1] * 8)) == [0, 2]
    assert hits("engine", by_tokens([1] * 8), by_tokens([1] * 8)) == [0, 1]
    assert hits("trace", by_tokens([1] * 7), by_tokens([1] * 7)) == [0, 2]
    assert hits("engine", by_tokens([1] * 7), by_tokens([1] * 7)) == [0, 1]


def test_a_partial_block_is_another_than_the_full_one() -> None:
    assert hits("trace", by_tokens([1] * 7), by_tokens([1] * 8)) == [0, 1]


def test_generated_tokens_are_found_under_engine_rules() -> None:
    first = by_tokens([1, 1, 1], [2, 3, 4, 5, 6, 7])
    second = by_tokens([1, 1, 1, 2, 3, 4, 5, 6, 7, 8])
    assert hits("engine", first, second) == [0, 2]
    assert hits("trace", first, second) == [0, 0]


def test_the_last_generated_token_has_no_kv() -> None:
    follow_up = by_tokens([1, 1, 1, 2, 9])
    assert hits("engine", by_tokens([1, 1, 1], [2]), follow_up) == [0, 0]
    assert hits("engine", by_tokens([1, 1, 1], [2, 9]), follow_up) == [0, 1]


@pytest.mark.parametrize("rules", ["trace", "engine"])
def test_adapters_and_salts_share_nothing(rules: str) -> None:
    prompt = [1] * 9
    scopes = [{}, {"lora": "a"}, {"salt": "a"}, {"lora": "b"}, {"lora": "a", "salt": "a"}]
    requests = [by_tokens(prompt, **scope) for scope in scopes]
    full = 3 if rules == "trace" else 2
    assert hits(rules, *requests, *requests) == [0] * 5 + [full] * 5


def test_ids_are_told_apart_whatever_their_sign() -> None:
    ids = [-1, 2**64 - 1, 2**63, -(2**63), 255, -255, 0]
    requests = [by_ids(4, [block_id]) for block_id in ids]
    assert hits("trace", *requests, *requests) == [0] * 7 + [1] * 7


@pytest.mark.parametrize("rules", ["trace", "engine"])
def test_a_request_larger_than_the_pool_is_refused_and_changes_nothing(rules: str) -> None:
    run = PoolRun(3, ReplaySettings(rules=rules))
    assert run.play(by_tokens([1] * 9)) == 0
    before = run.pool.occupancy()
    assert run.play(by_tokens([1] * 13)) is None
    assert run.play(by_tokens([1] * 30)) is None
    assert run.pool.occupancy() == before
    assert run.play(by_tokens([1] * 9)) == (3 if rules == "trace" else 2)
    counts = run.counts
    assert (counts.requests, counts.refused, counts.largest_refused_blocks) == (4, 2, 8)
    assert (counts.prompt_tokens, counts.prompt_blocks) == (18, 6), "of the requests that were played"


def test_output_counts_when_a_request_is_refused() -> None:
    assert hits("engine", by_tokens([1] * 4, [2] * 9), blocks=3) == [0]
    assert hits("engine", by_tokens([1] * 4, [2] * 10), blocks=3) == [None]
    assert hits("trace", by_tokens([1] * 4, [2] * 10), blocks=3) == [0]


REQUESTS = st.tuples(
    st.sampled_from([None, "a"]),
    st.lists(st.integers(0, 1), min_size=1, max_size=14),
    st.lists(st.integers(0, 1), max_size=6),
)


@given(st.lists(REQUESTS, max_size=40), st.integers(1, 12), st.sampled_from([1, 2, 3]), st.booleans())
def test_engine_rules_equal_the_model(
    played: list[tuple[str | None, list[int], list[int]]],
    blocks: int,
    block_size: int,
    reuse_uncached_first: bool,
) -> None:
    settings = ReplaySettings(rules="engine", reuse_uncached_first=reuse_uncached_first, check_every=1)
    run = PoolRun(blocks, settings)
    model = EngineModel(blocks, block_size, reuse_uncached_first=reuse_uncached_first)
    for lora, prompt, output in played:
        request = TraceRequest(
            None, len(prompt), block_size, token_ids=prompt, output_token_ids=output, lora=lora
        )
        assert run.play(request) == model.play(lora, prompt, output)
        assert run.counts.evictions == model.evictions
        assert run.pool.occupancy().cached_idle == sum(slot.prefix is not None for slot in model.queue)

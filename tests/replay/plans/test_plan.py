"""plan_capacity(): its numbers against replays of the real pool, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from blockpool import ConfigError, TraceError
from blockpool.replay import PoolRun, ReplaySettings, replay
from blockpool.replay.keys import KeyMaker
from blockpool.replay.plans.model_catalog import load_model_shape
from blockpool.replay.plans.plan import plan_capacity
from blockpool.replay.plans.plan_result import (
    DOUBLE,
    HALF,
    KNEE,
    MOST,
    PLANNED,
    POINT_NAMES,
    Plan,
    plan_as_dict,
)
from blockpool.replay.plans.plan_settings import PlanSettings
from blockpool.replay.plans.routing import ROUTINGS, make_router
from blockpool.replay.plans.trace_facts import trace_facts
from blockpool.replay.rules import plan_request
from blockpool.trace import TraceRequest, generate, open_trace_for_writing, write_trace

LLAMA = load_model_shape("llama-3-8b")  # 2 MiB per block of 16 tokens
BLOCK = 2**21


def plan(blocks: int, trace: Any, replay_settings: ReplaySettings | None = None, **options: Any) -> Plan:
    return plan_capacity(trace, LLAMA, PlanSettings(gpu_memory=blocks * BLOCK, **options), replay_settings)


def request(*ids: int) -> TraceRequest:
    return TraceRequest(None, 16 * len(ids), 16, block_ids=list(ids))


@pytest.fixture(scope="module")
def mix() -> list[TraceRequest]:
    return list(generate("mix", 60, seed=5))


# --- against replays


@pytest.mark.parametrize("rules", ["trace", "engine"])
@pytest.mark.parametrize("window", ["all", "last-half"])
def test_every_size_is_what_a_replay_finds(mix: list[TraceRequest], rules: str, window: str) -> None:
    settings = ReplaySettings(rules=rules, window=window)
    made = plan(1000, mix, settings)
    (fleet,) = made.fleets
    assert [point.name for point in fleet.points] == list(POINT_NAMES)
    assert fleet.point(PLANNED).blocks == made.blocks == 1000
    assert (fleet.point(HALF).blocks, fleet.point(DOUBLE).blocks) == (500, 2000)
    for point in fleet.points:
        if point.blocks < made.facts.largest_request_blocks:
            assert point.hit_tokens is None
            continue
        counts = replay(mix, point.blocks, settings).counts
        assert (counts.refused, counts.hit_tokens) == (0, point.hit_tokens)
        assert counts.prompt_tokens == made.facts.prompt_tokens
        assert point.hit_rate == counts.token_hit_rate


def test_the_most_loses_nothing_and_one_block_less_does(mix: list[TraceRequest]) -> None:
    made = plan(1000, mix)
    most = made.fleets[0].point(MOST)
    assert most.hit_tokens == replay(mix, 10**5).counts.hit_tokens
    assert replay(mix, most.blocks - 1).counts.hit_tokens < (most.hit_tokens or 0)
    assert made.facts.largest_request_blocks <= made.fleets[0].point(KNEE).blocks <= most.blocks


@pytest.mark.parametrize("rules", ["trace", "engine"])
def test_replicas_are_pools_of_their_own(mix: list[TraceRequest], rules: str) -> None:
    settings = ReplaySettings(rules=rules, window="last-half")
    made = plan(800, mix, settings, replicas=3, seed=9)
    assert [fleet.routing for fleet in made.fleets] == list(ROUTINGS)
    for fleet in made.fleets:
        router, key_maker = make_router(fleet.routing or "", 3, seed=9), KeyMaker(settings.hash_algorithm)
        runs = [PoolRun(800, settings) for _ in range(3)]
        tokens = [0, 0, 0]
        for number, one in enumerate(mix):
            if number == len(mix) // 2:
                for run in runs:
                    run.restart_window()
            replica = router.route(plan_request(one, rules, key_maker), one.prompt_tokens)
            runs[replica].play(one)
            tokens[replica] += one.prompt_tokens
        assert fleet.point(PLANNED).hit_tokens == sum(run.counts.hit_tokens for run in runs)
        assert fleet.replica_tokens == tuple(tokens)
        assert sum(fleet.replica_requests) == len(mix)
    assert made.shared_hit_tokens == replay(mix, 2400, settings).counts.hit_tokens


def test_affine_routing_keeps_conversations_together() -> None:
    made = plan(4000, list(generate("chat", 150, seed=2)), replicas=4)
    hits = {fleet.routing: fleet.point(PLANNED).hit_tokens or 0 for fleet in made.fleets}
    assert hits["affine"] > 1.5 * hits["random"]
    assert hits["affine"] > 0.8 * (made.shared_hit_tokens or 0)


def test_one_way_of_routing(mix: list[TraceRequest]) -> None:
    made = plan(2000, mix, replicas=2, routing="affine")
    assert [fleet.routing for fleet in made.fleets] == ["affine"]
    assert plan(2000, mix, routing="affine").fleets[0].routing is None, "one replica needs none"


def test_a_file_equals_its_requests_and_repeats(mix: list[TraceRequest], tmp_path: Path) -> None:
    path = tmp_path / "t.gz"
    with open_trace_for_writing(path) as file:
        write_trace(mix, file, "token-ids", block_size=16)
    assert plan(1000, mix, replicas=2) == plan(1000, path, replicas=2)


def test_conversation_trace(traces: Path) -> None:
    # 10,000 blocks of 512 tokens; the numbers are those that come with the trace.
    (fleet,) = plan(320_000, traces / "mooncake_conversation.jsonl").fleets
    assert (fleet.point(PLANNED).blocks, fleet.point(PLANNED).hit_tokens) == (10_000, 31_238_981)
    assert fleet.point(MOST).hit_tokens == 54_098_411


# --- memory and time


def test_reserve_and_running_requests_are_taken_off(mix: list[TraceRequest]) -> None:
    gemma = load_model_shape("gemma-3-27b")
    settings = PlanSettings(gpu_memory=40 * 2**30, reserve=15 * 2**30, max_running=4)
    made = plan_capacity(mix, gemma, settings)
    constant = 4 * 60 * 65 * 16 * 2 * 16 * 128 * 2
    assert made.pool_bytes == 25 * 2**30 - constant
    assert made.blocks == made.pool_bytes // (16 * 81_920)
    here = made.fleets[0].point(PLANNED)
    assert here.pool_bytes == made.blocks * 16 * 81_920
    assert here.gpu_bytes == here.pool_bytes + 15 * 2**30 + constant <= 40 * 2**30


def test_time_saved(mix: list[TraceRequest]) -> None:
    timed, untimed = plan(2000, mix, prefill_rate=1000.0), plan(2000, mix)
    assert (
        timed.fleets[0].point(PLANNED).saved_seconds
        == (untimed.fleets[0].point(PLANNED).hit_tokens or 0) / 1000
    )
    assert untimed.fleets[0].point(PLANNED).saved_seconds is None


# --- the trace


def test_facts() -> None:
    requests = [request(1), request(2, 3, 4), request(5, 6, 7), request(8)]
    facts = trace_facts(requests, ReplaySettings(window="last-half"))
    assert (facts.requests, facts.first_measured) == (4, 2)
    assert (facts.prompt_tokens, facts.warm_up_tokens) == (64, 64)
    assert (facts.largest_request, facts.largest_request_blocks) == (2, 3)
    assert (facts.block_size, facts.equal_blocks) == (16, True)


def test_outputs_need_blocks_under_engine_rules() -> None:
    one = TraceRequest(None, 16, 16, token_ids=list(range(16)), output_token_ids=list(range(34)))
    assert trace_facts([one], ReplaySettings()).largest_request_blocks == 1
    assert trace_facts([one], ReplaySettings(rules="engine")).largest_request_blocks == 4


def test_blocks_of_unequal_size_are_charged_as_the_largest() -> None:
    requests = [TraceRequest(None, 30, None, block_ids=[1, 2], block_tokens=[20, 10])]
    made = plan(4, requests)
    assert (made.facts.block_size, made.facts.equal_blocks) == (20, False)
    assert made.memory.bytes_per_block == 20 * 131_072
    assert made.blocks == 4 * 16 // 20


def test_bad_lines_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_text("\n".join(["{}", json.dumps({"token_ids": [1]}), "[]"]), encoding="utf-8")
    assert plan(5, path, ReplaySettings(skip_bad=True)).bad_lines == 2
    with pytest.raises(TraceError, match="neither token_ids nor hash_ids"):
        plan(5, path)


def test_ids_that_name_no_prefix(tmp_path: Path) -> None:
    path = tmp_path / "t"
    lines = [{"input_length": 1024, "hash_ids": ids} for ids in ([1, 2], [3, 2])]
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    with pytest.raises(TraceError, match="t:2: block 2 of the prompt, 2, follows another block"):
        plan(500, path)


# --- what is refused


def test_too_small_for_one_request_tells_both_numbers() -> None:
    requests = [request(1), request(2, 3, 4)]
    assert plan(3, requests).blocks == 3
    with pytest.raises(ConfigError) as caught:
        plan(2, requests)
    assert str(caught.value) == (
        "gpu_memory=4194304: holds 2 blocks (4,194,304 bytes), but request 2 of the trace alone needs 3 "
        "(6,291,456 bytes)"
    )


def test_nothing_left_for_the_pool() -> None:
    with pytest.raises(ConfigError, match="2,097,152 bytes of reserve and 0 bytes of windows"):
        plan(1, [request(1)], reserve=BLOCK)
    with pytest.raises(ConfigError, match="holds 0 blocks"):
        plan(1, [request(1)], reserve=1)


def test_no_requests() -> None:
    with pytest.raises(TraceError, match="no requests"):
        plan(5, [])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"gpu_memory": 0}, "gpu_memory=0: must be 1"),
        ({"gpu_memory": 10**19}, "gpu_memory"),
        ({"reserve": -1}, "reserve=-1: must be 0"),
        ({"tensor_parallel": 0}, "tensor_parallel=0: must be 1"),
        ({"max_running": 0}, "max_running=0: must be 1"),
        ({"prefill_rate": 0.0}, "prefill_rate=0.0: must be 0.001"),
        ({"prefill_rate": 1e-320}, "prefill_rate=1e-320: must be"),
        ({"prefill_rate": 1e13}, "prefill_rate=10000000000000.0: must be"),
        ({"prefill_rate": float("nan")}, "prefill_rate=nan: must be"),
        ({"prefill_rate": float("inf")}, "prefill_rate=inf: must be"),
        ({"replicas": 0}, "replicas=0: must be 1"),
        ({"routing": "fair"}, "routing='fair': must be one of"),
        ({"kv_dtype": "bf17"}, "kv_dtype='bf17': must be one of"),
        ({"seed": -1}, "seed=-1: must not be"),
    ],
)
def test_nonsense(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        PlanSettings(**{"gpu_memory": 1, **options})


def test_plain_data(mix: list[TraceRequest]) -> None:
    made = plan(2000, mix, replicas=2)
    data = plan_as_dict("mix", made, version="1", compiled=False)
    assert json.loads(json.dumps(data)) == data
    assert data["schema"] == "blockpool.plan/1"
    assert data["fleets"][1]["points"]["planned"]["hit_tokens"] == made.fleets[1].point(PLANNED).hit_tokens

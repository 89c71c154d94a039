"""The scheduler on the real manager, with made-up tokens in the place of a model's."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("numpy", reason="the extra demo is not installed")

import numpy as np

import blockpool.demo.scheduler
from blockpool.core.hasher import BlockHasher
from blockpool.demo.kv_groups import make_kv_cache_config
from blockpool.demo.request import EngineRequest
from blockpool.demo.scheduler import Schedule, Scheduler
from blockpool.kv_cache import KVCacheManager

from .engine_support import small_config

BLOCK_SIZE = 4
HASHER = BlockHasher("blake2b_raw", BLOCK_SIZE, seed="test")


def make_scheduler(num_blocks: int, budget: int = 100, max_num_running: int = 10) -> Scheduler:
    config = make_kv_cache_config(small_config(hybrid=False), num_blocks + 1, BLOCK_SIZE)
    manager = KVCacheManager(config, max_model_len=48, hash_block_size=BLOCK_SIZE, self_check=True)
    return Scheduler(manager, budget, max_num_running)


def make_request(name: str, length: int, max_tokens: int = 2, first: int = 0) -> EngineRequest:
    return EngineRequest(name, list(range(first, first + length)), max_tokens, HASHER)


def step(scheduler: Scheduler) -> tuple[list[tuple[str, int, int]], list[str], list[str]]:
    """One step: chunks, names of the preempted, names of the finished."""
    schedule = scheduler.schedule()
    num_sampled = sum(chunk.stop == chunk.request.num_tokens for chunk in schedule.chunks)
    finished = scheduler.update(schedule, [(7, np.zeros(1, np.float32))] * num_sampled)
    chunks = [(chunk.request.request_id, chunk.start, chunk.stop) for chunk in schedule.chunks]
    return chunks, names(schedule.preempted), names(finished)


def names(requests: list[EngineRequest]) -> list[str]:
    return [request.request_id for request in requests]


def test_it_is_short_enough_to_be_read_as_an_example() -> None:
    path = Path(blockpool.demo.scheduler.__file__)
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 150


def test_nothing_to_do() -> None:
    scheduler = make_scheduler(10)
    assert scheduler.schedule() == Schedule()
    assert scheduler.update(Schedule(), []) == []


def test_a_request_from_prompt_to_end() -> None:
    scheduler = make_scheduler(10)
    request = make_request("a", 5, max_tokens=3)
    scheduler.add(request)
    assert step(scheduler) == ([("a", 0, 5)], [], [])
    assert step(scheduler) == ([("a", 5, 6)], [], [])
    assert step(scheduler) == ([("a", 6, 7)], [], ["a"])
    assert request.output_token_ids == [7, 7, 7]
    assert len(request.block_hashes) == 2
    assert (scheduler.running, list(scheduler.waiting)) == ([], [])
    assert scheduler.manager.usage == 0


def test_new_blocks_are_told_and_hits_are_not() -> None:
    scheduler = make_scheduler(10)
    scheduler.add(make_request("a", 9))
    first = scheduler.schedule()
    assert len(first.new_block_ids) == 3
    scheduler.update(first, [(7, np.zeros(1, np.float32))])
    scheduler.add(make_request("b", 9))
    second = scheduler.schedule()
    assert [tuple(chunk[1:]) for chunk in second.chunks] == [(9, 10), (8, 9)]
    assert len(second.new_block_ids) == 1
    assert set(second.new_block_ids).isdisjoint(first.new_block_ids)


def test_prompts_are_cut_to_the_budget_and_decoding_comes_first() -> None:
    scheduler = make_scheduler(20, budget=6)
    scheduler.add(make_request("a", 10))
    scheduler.add(make_request("b", 7, first=20))
    assert step(scheduler)[0] == [("a", 0, 6)]
    assert step(scheduler)[0] == [("a", 6, 10), ("b", 0, 2)]
    assert step(scheduler) == ([("a", 10, 11), ("b", 2, 7)], [], ["a"])
    assert step(scheduler) == ([("b", 7, 8)], [], ["b"])


def test_a_budget_of_one_serves_the_oldest_first() -> None:
    scheduler = make_scheduler(20, budget=1)
    scheduler.add(make_request("a", 2))
    scheduler.add(make_request("b", 1, first=20))
    assert [step(scheduler)[0] for _ in range(5)] == [
        [("a", 0, 1)], [("a", 1, 2)], [("a", 2, 3)], [("b", 0, 1)], [("b", 1, 2)]
    ]  # fmt: skip


def test_so_many_run_at_a_time() -> None:
    scheduler = make_scheduler(20, max_num_running=2)
    for name in "abc":
        scheduler.add(make_request(name, 3))
    assert [chunk[0] for chunk in step(scheduler)[0]] == ["a", "b"]
    assert step(scheduler)[2] == ["a", "b"]
    assert step(scheduler)[0] == [("c", 0, 3)]


def test_who_does_not_fit_waits_and_nobody_overtakes() -> None:
    scheduler = make_scheduler(4)
    scheduler.add(make_request("a", 10))
    scheduler.add(make_request("b", 9, first=20))
    scheduler.add(make_request("c", 2, first=40))
    assert step(scheduler)[0] == [("a", 0, 10)]
    assert names(list(scheduler.waiting)) == ["b", "c"]
    assert step(scheduler)[2] == ["a"]
    assert [chunk[0] for chunk in step(scheduler)[0]] == ["b", "c"]


def test_the_youngest_is_preempted_and_finds_what_it_left() -> None:
    scheduler = make_scheduler(5)
    old, young = make_request("old", 8, max_tokens=4), make_request("young", 11, max_tokens=3, first=20)
    scheduler.add(old)
    scheduler.add(young)
    assert step(scheduler)[0] == [("old", 0, 8), ("young", 0, 11)]
    # All five blocks are held, and the older one needs its third.
    assert step(scheduler) == ([("old", 8, 9)], ["young"], [])
    assert (young.num_preemptions, young.num_computed_tokens, names(list(scheduler.waiting))) == (
        1,
        0,
        ["young"],
    )
    # Its first two blocks are still there: only what follows is computed again, with the token it had generated.
    assert step(scheduler)[0] == [("old", 9, 10)]
    assert step(scheduler)[2] == ["old"]
    assert step(scheduler)[0] == [("young", 8, 12)]
    assert young.num_cached_tokens == 8


def test_the_youngest_may_be_the_one_that_asks() -> None:
    scheduler = make_scheduler(4)
    scheduler.add(make_request("a", 8, max_tokens=6))
    scheduler.add(make_request("b", 4, max_tokens=3, first=20))
    assert step(scheduler)[0] == [("a", 0, 8), ("b", 0, 4)]
    chunks, preempted, _ = step(scheduler)
    assert (chunks, preempted) == ([("a", 8, 9)], ["b"])
    assert names(scheduler.running) == ["a"]


def test_several_are_preempted_when_one_is_not_enough() -> None:
    scheduler = make_scheduler(5, budget=12)
    scheduler.add(make_request("a", 20, max_tokens=2))
    assert step(scheduler)[0] == [("a", 0, 12)]
    # Two more in the middle of their prompts, and a larger budget: now the oldest wants two blocks at once.
    for request in (make_request("b", 6, first=20), make_request("c", 6, first=30)):
        assert scheduler.manager.allocate_slots(request, 4) is not None
        request.num_computed_tokens = 4
        scheduler.running.append(request)
    assert step(scheduler) == ([("a", 12, 20)], ["c", "b"], [])
    assert names(list(scheduler.waiting)) == ["b", "c"], "in the order in which they came"

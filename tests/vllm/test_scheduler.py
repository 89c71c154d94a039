"""vLLM 0.16's own Scheduler runs on our KVCacheManager, unchanged, and decides the same as on its own, step by step.

Compared after every step: all of `schedule()`'s output, block ids included, what is told to the clients, the waiting
queue, the free queue and usage.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

from benchmarks import peer as peer_module
from benchmarks.manager_sides import our_side, their_side

from .habits import HABITS

pytestmark = pytest.mark.peer

NUM_REQUESTS = 300


@pytest.fixture(scope="module")
def vllm() -> peer_module.Peer:
    """The whole of vLLM; nothing here runs with its files alone."""
    reason = peer_module.missing(peer_module.load_whole)
    if reason is not None:
        pytest.skip(reason)
    return peer_module.load_whole()


@pytest.fixture(scope="module")
def engine(vllm: peer_module.Peer) -> Any:
    """The module that needs it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from . import engine as module
    return module


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", HABITS)
def test_the_scheduler_decides_the_same(
    name: str, vllm: peer_module.Peer, engine: Any, tmp_path: Path
) -> None:
    habits = HABITS[name]
    config = engine.make_config(habits, tmp_path)
    hasher = vllm.get_request_block_hasher(engine.BLOCK_SIZE, vllm.hash_functions["sha256_cbor"])
    schedulers = [
        engine.make_scheduler(config, habits, their_side(vllm), side) for side in (None, our_side())
    ]
    engines = [engine.Engine(scheduler, hasher, habits.drafts) for scheduler in schedulers]
    engine.play(engines, seed=len(name), num_requests=NUM_REQUESTS)
    expected = {"finished"} | ({"preempted"} if name != "roomy" else set())
    expected |= ({"hits"} if habits.enable_caching else set()) | ({"drafts"} if habits.drafts else set())
    for one in engines:
        assert {what for what in expected if one.seen[what] == 0} == set()
        pool = one.scheduler.kv_cache_manager.block_pool
        assert pool.get_num_free_blocks() == habits.num_blocks - 1
    schedulers[1].kv_cache_manager.block_pool.check_invariants()

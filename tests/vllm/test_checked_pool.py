"""`BLOCKPOOL_VLLM=check`: what is equal is counted, the first difference is told, and vLLM's own result is used.

On vLLM 0.16's real pool, and ours in step with it.
"""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import peer as peer_module
from blockpool import BlockPool
from blockpool.integrations.vllm.checked_pool import (
    WHOLE_EVERY,
    make_checked_hasher,
    make_checked_look_up,
    make_checked_pool,
)

pytestmark = pytest.mark.peer

GROUPS = [0]


@pytest.fixture(scope="module")
def vllm() -> peer_module.Peer:
    reason = peer_module.missing(peer_module.load)
    if reason is not None:
        pytest.skip(reason)
    return peer_module.load()


@pytest.fixture
def pool(vllm: peer_module.Peer) -> Any:
    return make_checked_pool(vllm.BlockPool, BlockPool)(
        num_gpu_blocks=10, enable_caching=True, hash_block_size=2, enable_kv_cache_events=True
    )


def request(num_blocks: int) -> Any:
    return SimpleNamespace(
        request_id="r",
        block_hashes=[bytes([number]) * 32 for number in range(num_blocks)],
        all_token_ids=list(range(2 * num_blocks)),
        lora_request=None,
    )


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The mismatches that were logged."""
    return [record.getMessage() for record in caplog.records if record.name == "vllm.blockpool"]


def use(pool: Any) -> list[Any]:
    """Some of everything; the blocks that are held at the end."""
    one = request(4)
    blocks = pool.get_new_blocks(4)
    pool.cache_full_blocks(one, blocks, 0, 4, 2, 0)
    pool.free_blocks(reversed(blocks))
    for digest in one.block_hashes:
        found = pool.get_cached_block(digest, GROUPS)
        assert found[0].block_hash[:-4] == digest
    pool.touch(blocks[:2])
    pool.evict_blocks({blocks[3].block_id})
    assert len(pool.take_events()) == 2
    assert not pool.reset_prefix_cache()
    return blocks[:2]


def test_what_is_equal_is_counted(vllm: peer_module.Peer, pool: Any) -> None:
    held = use(pool)
    assert isinstance(pool, vllm.BlockPool)
    assert all(isinstance(block, type(pool.null_block)) for block in held)
    pool.free_blocks(held)
    assert pool.reset_prefix_cache()
    assert pool.comparison.mismatch is None
    assert pool.comparison.num_compared > 30
    pool.shadow.check_invariants()
    assert pool.shadow.get_num_free_blocks() == pool.get_num_free_blocks() == 9


def test_blocks_that_a_manager_takes_when_it_is_made_are_taken_of_both(pool: Any) -> None:
    sinks = pool.free_block_queue.popleft_n(2)
    pool.free_blocks(use(pool))
    assert [block.block_id for block in sinks] == [1, 2]
    assert pool.comparison.mismatch is None
    assert pool.shadow.free_block_queue.num_free_blocks == 7


def test_the_first_difference_is_told_and_ends_it(pool: Any, caplog: pytest.LogCaptureFixture) -> None:
    held = use(pool)
    pool.shadow.get_new_blocks(1)  # ours goes astray
    with caplog.at_level(logging.ERROR, logger="vllm.blockpool"):
        taken = pool.get_new_blocks(1)
        pool.free_blocks(taken)
        pool.free_blocks(held)
    [line] = told(caplog)
    assert "MISMATCH in the block pool" in line
    assert pool.comparison.mismatch.startswith("get_new_blocks: vLLM has [5], blockpool has [6]")
    assert pool.reset_prefix_cache()


def test_an_exception_of_ours_is_a_difference(pool: Any, caplog: pytest.LogCaptureFixture) -> None:
    held = use(pool)
    pool.free_blocks(held)
    pool.free_blocks([held[0]])  # 0.16 lowers the count below 0 and goes on; ours refuses
    assert "blockpool raises BlockStateError" in pool.comparison.mismatch
    assert held[0].ref_cnt == -1
    assert len(told(caplog)) == 1


def test_a_block_that_no_pool_made_does_vllm_no_harm(vllm: peer_module.Peer, pool: Any) -> None:
    foreign = vllm.KVCacheBlock(99)
    foreign.ref_cnt = 1
    pool.touch([foreign])
    assert foreign.ref_cnt == 2
    assert pool.comparison.mismatch.startswith("touch: blockpool raises")
    assert len(pool.get_new_blocks(2)) == 2


def test_a_pool_that_ours_cannot_be_made_like_does_vllm_no_harm(
    vllm: peer_module.Peer, caplog: pytest.LogCaptureFixture
) -> None:
    pool = make_checked_pool(vllm.BlockPool, BlockPool)(10, True, None)
    assert [block.block_id for block in pool.get_new_blocks(2)] == [1, 2]
    [line] = told(caplog)
    assert "__init__: blockpool raises ArgumentError" in line


@pytest.mark.parametrize("name", ["evict_blocks", "free_blocks", "get_usage", "take_events", "touch"])
def test_all_blocks_are_compared_after_any_call(pool: Any, name: str) -> None:
    use(pool)
    arguments: dict[str, list[Any]] = {"evict_blocks": [{1}], "free_blocks": [[]], "touch": [[]]}
    pool.num_calls = WHOLE_EVERY - 1
    getattr(pool, name)(*arguments.get(name, []))
    assert pool.num_calls == WHOLE_EVERY
    assert pool.comparison.mismatch is None
    pool.shadow.blocks[9].ref_cnt += 1  # a block that the call is not about
    pool.num_calls = WHOLE_EVERY - 1
    getattr(pool, name)(*arguments.get(name, []))
    assert pool.comparison.mismatch.startswith(f"{name}, blocks")


def test_look_ups_are_compared(pool: Any) -> None:
    held = use(pool)

    def own(cls: Any, hashes: Any, max_length: int, groups: Any, pool: Any) -> Any:
        return (held[: max_length // 2],)

    def ours(cls: Any, hashes: Any, max_length: int, groups: Any, pool: Any) -> Any:
        return pool.find_longest_prefix(hashes, groups, max_length // 2)

    find = make_checked_look_up(own, ours)
    hashes = request(4).block_hashes
    assert find(None, hashes, 4, GROUPS, pool) == (held,)
    assert pool.comparison.mismatch is None
    assert find(None, hashes[1:], 4, GROUPS, pool) == (held,)
    assert pool.comparison.mismatch.startswith("find_longest_cache_hit: vLLM has")
    assert find(None, hashes, 4, GROUPS, SimpleNamespace()) == (held,)


def test_hashes_are_compared(caplog: pytest.LogCaptureFixture) -> None:
    hasher = make_checked_hasher(lambda request: [b"a"], lambda request: [request])
    assert hasher(b"a") == [b"a"]
    assert not told(caplog)
    assert hasher(b"b") == [b"a"]
    assert "MISMATCH in the block hashes after 1 equal results" in caplog.text
    assert hasher(b"c") == [b"a"]
    assert len(told(caplog)) == 1

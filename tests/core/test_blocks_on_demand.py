"""Blocks are made when they are needed: what shows is as if all had always been there."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockpool import BlockPool, FreeKVCacheBlockQueue, InvariantError, KVCacheBlock

from .index_support import MAPS, pool_with
from .support import RecordingCollector, cache_chain, ids, queue_ids, snapshot


def num_made(pool: BlockPool) -> int:
    return len(pool._store.made)


def whole(pool: BlockPool) -> BlockPool:
    """The same pool after every block has been looked at."""
    assert len(list(pool.blocks)) == num_made(pool) == pool.num_gpu_blocks
    return pool


# --- what is made, and when


def test_a_new_pool_has_made_its_null_block_only() -> None:
    pool = BlockPool(2**31 - 1, True, 16)
    assert num_made(pool) == 1
    assert pool.get_num_free_blocks() == 2**31 - 2
    assert pool.occupancy().blank == 2**31 - 2
    assert pool.get_usage() == 0.0
    assert len(pool.blocks) == 2**31 - 1
    pool.check_invariants()
    assert num_made(pool) == 1


def test_what_is_handed_out_is_made() -> None:
    pool = BlockPool(1_000_000, True, 16)
    taken = pool.get_new_blocks(3)
    assert ids(taken) == [1, 2, 3]
    assert num_made(pool) == 4
    pool.free_blocks(reversed(taken))
    assert ids(pool.get_new_blocks(2)) == [4, 5]
    assert num_made(pool) == 6
    pool.check_invariants()


def test_an_index_makes_what_stands_before_it() -> None:
    pool = BlockPool(1_000, True, 16)
    assert pool.blocks[10].block_id == 10
    assert num_made(pool) == 11
    assert ids(pool.get_new_blocks(12)) == list(range(1, 13))
    pool.check_invariants()


def test_resetting_and_the_rest_of_a_life_make_nothing() -> None:
    pool = BlockPool(1_000, True, 4)
    blocks, _ = cache_chain(pool, "abc")
    pool.free_blocks(reversed(blocks))
    assert pool.reset_prefix_cache()
    pool.check_invariants()
    assert num_made(pool) == 4


def test_the_last_blocks_close_the_gap() -> None:
    pool = BlockPool(5, True, 16)
    pool.get_new_blocks(4)
    assert num_made(pool) == 5
    pool.check_invariants()
    head, tail = pool.free_block_queue.fake_free_list_head, pool.free_block_queue.fake_free_list_tail
    assert head.next_free_block is tail
    assert tail.prev_free_block is head


# --- what shows of those that are not made


@pytest.mark.parametrize("taken", [0, 1, 3])
def test_the_queue_shows_every_block(taken: int) -> None:
    pool = BlockPool(8, True, 16)
    blocks = pool.get_new_blocks(taken)
    pool.free_blocks(reversed(blocks))
    assert queue_ids(pool) == [*range(taken + 1, 8), *reversed(range(1, taken + 1))]


def test_links_lead_over_the_gap() -> None:
    pool = BlockPool(8, True, 16)
    queue = pool.free_block_queue
    assert queue.fake_free_list_head.next_free_block is pool.blocks[1]
    assert num_made(pool) == 2
    (block,) = pool.get_new_blocks(1)
    pool.free_blocks([block])
    assert pool._store.num_unmade() > 0
    before = block.prev_free_block
    assert before is pool.blocks[7]
    assert before.next_free_block is block
    assert "prev_free_block=7" in repr(block)


def test_the_sentinels_link_to_the_first_and_the_last() -> None:
    tail = (pool := BlockPool(8, True, 16)).free_block_queue.fake_free_list_tail
    last = tail.prev_free_block
    assert last is not None
    assert last.block_id == 7
    assert last.next_free_block is tail
    pool.check_invariants()


def test_a_block_that_outlives_its_pool_has_no_neighbour_that_was_not_made() -> None:
    pool = BlockPool(8, True, 16)
    (block,) = pool.get_new_blocks(1)
    pool.free_blocks([block])
    del pool
    gc.collect()
    assert block.prev_free_block is None


def test_a_queue_that_outlives_its_pool_has_all_blocks() -> None:
    queue = BlockPool(8, True, 16).free_block_queue
    gc.collect()
    assert ids(queue.get_all_free_blocks()) == list(range(1, 8))
    assert isinstance(queue, FreeKVCacheBlockQueue)


def test_a_block_never_handed_out_can_be_touched() -> None:
    pool = BlockPool(8, True, 16)
    pool.touch([pool.blocks[3]])
    pool.check_invariants()
    assert ids(pool.get_new_blocks(6)) == [1, 2, 4, 5, 6, 7]


def test_a_block_never_handed_out_can_be_evicted_by_its_id() -> None:
    collector = RecordingCollector()
    pool = BlockPool(8, True, 16, metrics_collector=collector)
    pool.evict_blocks([5])
    assert collector.names() == [("evicted", 5)]
    assert queue_ids(pool) == list(range(1, 8))


def test_what_is_freed_to_the_old_end_stands_before_the_gap() -> None:
    pool = BlockPool(8, True, 16, reuse_uncached_first=True)
    blocks = pool.get_new_blocks(3)
    pool.free_blocks(blocks)
    assert ids(pool.get_new_blocks(5)) == [1, 2, 3, 4, 5]
    assert num_made(pool) == 6
    pool.check_invariants()


def test_invariants_see_a_gap_that_is_lost() -> None:
    pool = BlockPool(8, True, 16)
    queue, gap = pool.free_block_queue, pool._store.gap
    queue.fake_free_list_head.next_free_block = queue.fake_free_list_tail
    queue.fake_free_list_tail.prev_free_block = queue.fake_free_list_head
    assert gap.block_id == -2
    with pytest.raises(InvariantError, match="7 blocks are not made"):
        pool.check_invariants()


# --- pool.blocks


def test_blocks_behave_as_a_list() -> None:
    pool = BlockPool(6, True, 16)
    blocks = pool.blocks
    assert len(blocks) == 6
    assert ids(blocks[1:3]) == [1, 2]
    assert num_made(pool) == 3
    assert blocks[-1].block_id == 5
    assert ids(blocks[::-2]) == [5, 3, 1]
    assert ids(blocks[4:]) == [4, 5]
    assert blocks[9:] == []
    assert ids(reversed(blocks)) == [5, 4, 3, 2, 1, 0]
    assert blocks[2] in blocks
    assert blocks.index(blocks[2]) == 2
    assert KVCacheBlock(2) not in blocks
    assert "block" not in blocks
    assert blocks == list(blocks)
    assert list(blocks) == blocks
    assert blocks != list(blocks)[1:]
    assert blocks != 5
    assert blocks == pool.blocks
    assert blocks != BlockPool(6, True, 16).blocks
    assert repr(blocks) == repr(list(blocks))
    for bad in (6, -7):
        with pytest.raises(IndexError, match="out of range"):
            blocks[bad]
    with pytest.raises(TypeError):
        blocks["1"]  # type: ignore[call-overload]
    with pytest.raises(TypeError):
        hash(blocks)


def test_a_list_of_the_same_length_with_another_block_is_not_equal() -> None:
    pool = BlockPool(3, True, 16)
    assert pool.blocks != [*pool.blocks[:2], KVCacheBlock(2)]


def test_iterating_makes_as_it_goes() -> None:
    pool = BlockPool(100, True, 16)
    for block in pool.blocks:
        if block.block_id == 4:
            break
    assert num_made(pool) == 5


# --- a pool in which all were looked at from the start, and one in which nobody looks

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["get", "get", "free", "free", "cache", "look", "touch", "remove", "find", "reset"]),
        st.integers(0, 9),
    ),
    max_size=30,
)


class Driver:
    """Plays steps on one pool and notes all that is answered."""

    def __init__(self, pool: BlockPool) -> None:
        self.pool = pool
        self.held: list[KVCacheBlock] = []
        self.told: list[Any] = []

    def play(self, step: str, number: int) -> None:
        pool = self.pool
        if step == "get":
            blocks = pool.get_new_blocks(min(number, pool.get_num_free_blocks()))
            self.held += blocks
            self.told.append(ids(blocks))
        elif step == "free" and self.held:
            freed, self.held = self.held[:number], self.held[number:]
            pool.free_blocks(reversed(freed))
        elif step == "cache" and pool.get_num_free_blocks() >= 2:
            blocks, _ = cache_chain(pool, str(number) + "b")
            self.held += blocks
            self.told.append(ids(blocks))
        elif step == "look":
            self.told.append(pool.blocks[number].ref_cnt)
        elif step == "touch":
            if number > 0:
                pool.touch([pool.blocks[number]])
                self.held.append(pool.blocks[number])
        elif step == "remove":
            block = pool.blocks[number]
            if block.ref_cnt == 0 and number > 0:
                pool.free_block_queue.remove(block)
                pool.free_block_queue.append(block)
        elif step == "find":
            self.told.append([ids(found) for found in pool.find_longest_prefix([], [0])])
        elif step == "reset":
            self.told.append(not self.held and pool.reset_prefix_cache())
        self.told.append((pool.get_num_free_blocks(), tuple(pool.occupancy()), pool.num_evictions))
        pool.check_invariants()


@given(
    steps=STEPS,
    num_blocks=st.integers(10, 40),
    uncached_first=st.booleans(),
    index=st.sampled_from(sorted(MAPS)),
)
def test_nobody_can_tell_when_a_block_was_made(
    steps: list[tuple[str, int]], num_blocks: int, uncached_first: bool, index: str
) -> None:
    make: Callable[[], BlockPool] = lambda: pool_with(  # noqa: E731
        index, num_blocks, True, 4, reuse_uncached_first=uncached_first
    )
    lazy, eager = Driver(make()), Driver(whole(make()))
    for step, number in steps:
        lazy.play(step, number)
        eager.play(step, number)
        assert lazy.told == eager.told
    assert snapshot(lazy.pool) == snapshot(eager.pool)

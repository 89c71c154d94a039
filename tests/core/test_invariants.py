"""check_invariants: each rule fails alone when the pool is damaged by hand, with the facts in the dump."""

from collections.abc import Callable

import pytest

from blockpool import BlockPool, BlockPoolError, InvariantError, KVCacheBlock
from blockpool.core.packed_index import PackedIndex

from .index_support import MAPS, pool_with
from .support import cache_chain, chain, key, snapshot


def scene(index: str = "dict") -> BlockPool:
    """Held 1 and 2 (indexed); idle 3 (indexed); free 4 and 5."""
    pool = pool_with(index, 6, True, 4)
    cache_chain(pool, "ab")
    idle, _ = cache_chain(pool, "z")
    pool.free_blocks(idle)
    return pool


def test_a_healthy_pool_passes() -> None:
    scene().check_invariants()
    BlockPool(1, True, 1).check_invariants()
    BlockPool(2, False, 1).check_invariants()


def wrong_length(pool: BlockPool) -> None:
    pool.free_block_queue.num_free_blocks += 1


def broken_backward_link(pool: BlockPool) -> None:
    pool.blocks[5].prev_free_block = pool.free_block_queue.fake_free_list_head


def broken_forward_link(pool: BlockPool) -> None:
    pool.blocks[4].next_free_block = pool.blocks[3]


def a_circle(pool: BlockPool) -> None:
    pool.blocks[3].next_free_block = pool.blocks[4]
    pool.blocks[4].prev_free_block = pool.blocks[3]


def queued_but_held(pool: BlockPool) -> None:
    pool.blocks[4].ref_cnt = 1


def idle_but_not_queued(pool: BlockPool) -> None:
    pool.blocks[1].ref_cnt = 0


def null_block_queued(pool: BlockPool) -> None:
    """By hand, for the queue itself refuses it."""
    null, head = pool.null_block, pool.free_block_queue.fake_free_list_head
    first = head.next_free_block
    assert first is not None
    null.prev_free_block, null.next_free_block = head, first
    head.next_free_block = first.prev_free_block = null
    pool.free_block_queue.num_free_blocks += 1


def stranger_queued(pool: BlockPool) -> None:
    pool.free_block_queue.append(KVCacheBlock(4))


def hash_without_entry(pool: BlockPool) -> None:
    pool.blocks[4].block_hash = key(chain("q")[0])


def entry_without_hash(pool: BlockPool) -> None:
    pool.blocks[1].reset_hash()


def entry_of_another_block(pool: BlockPool) -> None:
    pool.cached_block_hash_to_block.insert(key(chain("q")[0]), pool.blocks[4])


def entry_under_another_key(pool: BlockPool) -> None:
    pool.blocks[1].reset_hash()
    pool.blocks[1].block_hash = key(chain("q")[0])


def hash_in_another_group(pool: BlockPool) -> None:
    pool.blocks[1].reset_hash()
    pool.blocks[1].block_hash = key(chain("a")[0], 1)


def null_block_indexed(pool: BlockPool) -> None:
    pool.null_block.block_hash = key(chain("q")[0])
    pool.cached_block_hash_to_block.insert(key(chain("q")[0]), pool.null_block)


def impostor_queued(pool: BlockPool) -> None:
    """A stranger of the same id stands in the place of block 4."""
    block, stranger = pool.blocks[4], KVCacheBlock(4)
    before, after = block.prev_free_block, block.next_free_block
    assert before is not None
    assert after is not None
    stranger.prev_free_block, stranger.next_free_block = before, after
    before.next_free_block = after.prev_free_block = stranger


def a_second_list(pool: BlockPool) -> None:
    """The backward links leave out a block that the forward links have."""
    tail = pool.free_block_queue.fake_free_list_tail
    last = tail.prev_free_block
    assert last is not None
    tail.prev_free_block = last.prev_free_block


def one_out_and_one_in(pool: BlockPool) -> None:
    """Lengths agree, but a held block is in the queue and an idle one is not."""
    queue = pool.free_block_queue
    queue.remove(pool.blocks[4])
    queue.append(pool.blocks[1])


def two_null_blocks(pool: BlockPool) -> None:
    pool.blocks[4].is_null = True
    pool.free_block_queue.popleft_n(1)


def no_null_block(pool: BlockPool) -> None:
    pool.null_block.is_null = False
    pool.null_block.ref_cnt = 1


def null_block_held(pool: BlockPool) -> None:
    pool.null_block.ref_cnt = 2


def blocks_out_of_place(pool: BlockPool) -> None:
    made = pool._store.made
    made[1], made[2] = made[2], made[1]


def counter_gone_wrong(pool: BlockPool) -> None:
    pool._num_cached_idle += 1


def negative_count(pool: BlockPool) -> None:
    pool.blocks[1].ref_cnt = -1


DAMAGE: list[tuple[Callable[[BlockPool], None], set[str]]] = [
    (wrong_length, {"I1"}),
    (broken_backward_link, {"I1"}),
    (broken_forward_link, {"I1"}),
    (a_circle, {"I1"}),
    (queued_but_held, {"I1", "I2"}),
    (idle_but_not_queued, {"I1", "I2"}),
    (null_block_queued, {"I1", "I2"}),
    (stranger_queued, {"I1", "I2"}),
    (impostor_queued, {"I1", "I2"}),
    (a_second_list, {"I1"}),
    (one_out_and_one_in, {"I1", "I2"}),
    (two_null_blocks, {"I1", "I2", "I4"}),
    (no_null_block, {"I4"}),
    (null_block_held, {"I2"}),
    (blocks_out_of_place, {"I1", "I2", "I4"}),
    (counter_gone_wrong, {"I5"}),
    (hash_without_entry, {"I3"}),
    (entry_without_hash, {"I3"}),
    (entry_of_another_block, {"I3"}),
    (entry_under_another_key, {"I3"}),
    (hash_in_another_group, {"I3"}),
    (null_block_indexed, {"I4"}),
    (negative_count, {"I6"}),
]


@pytest.mark.parametrize(("damage", "rules"), DAMAGE, ids=[damage.__name__ for damage, _ in DAMAGE])
@pytest.mark.parametrize("index", MAPS)
def test_damage_is_found(damage: Callable[[BlockPool], None], rules: set[str], index: str) -> None:
    pool = scene(index)
    damage(pool)
    with pytest.raises(InvariantError) as caught:
        pool.check_invariants()
    error = caught.value
    assert error.invariant in rules
    assert error.dump
    assert error.invariant in str(error)
    assert isinstance(error, AssertionError)
    assert isinstance(error, BlockPoolError)


def test_damage_of_the_table_is_found() -> None:
    pool = scene("packed")
    index = pool.cached_block_hash_to_block.group(0)
    assert isinstance(index, PackedIndex)
    index._num_slots_used += 1
    index._num_later -= 1
    with pytest.raises(InvariantError, match="slots are used") as caught:
        pool.check_invariants()
    assert caught.value.invariant == "I3"


def test_a_miscount_of_dicts_is_found() -> None:
    pool = scene("dict")
    index = pool.cached_block_hash_to_block.dict_group(0)
    index._num_dicts += 1
    with pytest.raises(InvariantError, match="hashes with a dict are counted") as caught:
        pool.check_invariants()
    assert caught.value.invariant == "I3"


def test_the_dump_shows_the_blocks() -> None:
    pool = scene()
    pool.blocks[4].ref_cnt = 77
    with pytest.raises(InvariantError) as caught:
        pool.check_invariants()
    assert "77" in caught.value.dump


def test_checking_changes_nothing() -> None:
    pool = scene()
    before = snapshot(pool)
    for _ in range(3):
        pool.check_invariants()
    assert snapshot(pool) == before

"""BlockPool: construction, handing out, touching, freeing, and what the gauges say meanwhile."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockpool import BlockPool, BlockStateError, KVCacheMetricsCollector, OutOfBlocksError

from .support import RecordingCollector, assert_refused, cache_chain, ids, queue_ids, snapshot


def test_attributes() -> None:
    collector = RecordingCollector()
    pool = BlockPool(5, True, 16, True, collector)
    assert pool.num_gpu_blocks == 5
    assert pool.enable_caching is True
    assert pool.hash_block_size == 16
    assert pool.enable_kv_cache_events is True
    assert pool.metrics_collector is collector
    assert pool.kv_event_queue == []
    assert ids(pool.blocks) == [0, 1, 2, 3, 4]
    assert len(pool.cached_block_hash_to_block) == 0
    assert pool.free_block_queue.num_free_blocks == 4
    assert pool.num_evictions == 0


def test_defaults() -> None:
    pool = BlockPool(num_gpu_blocks=5, enable_caching=False, hash_block_size=8)
    assert pool.enable_caching is False
    assert pool.enable_kv_cache_events is False
    assert pool.metrics_collector is None


def test_the_null_block_is_the_first() -> None:
    pool = BlockPool(5, True, 16)
    assert pool.null_block is pool.blocks[0]
    assert pool.null_block.block_id == 0
    assert pool.null_block.is_null is True
    assert [block.is_null for block in pool.blocks[1:]] == [False] * 4
    assert queue_ids(pool) == [1, 2, 3, 4]
    assert pool.null_block.block_hash is None


def test_a_pool_of_one_block_has_only_the_null_block() -> None:
    pool = BlockPool(1, True, 16)
    assert pool.get_num_free_blocks() == 0
    assert pool.get_usage() == 0
    assert tuple(pool.occupancy()) == (0, 0, 0)
    assert pool.get_new_blocks(0) == []
    with pytest.raises(OutOfBlocksError):
        pool.get_new_blocks(1)
    assert pool.reset_prefix_cache() is True
    pool.check_invariants()


@pytest.mark.parametrize("caching", [True, False])
def test_new_blocks_come_from_the_old_end(caching: bool) -> None:
    pool = BlockPool(6, caching, 16)
    blocks = pool.get_new_blocks(3)
    assert ids(blocks) == [1, 2, 3]
    assert [block.ref_cnt for block in blocks] == [1, 1, 1]
    assert [block.block_hash for block in blocks] == [None] * 3
    assert queue_ids(pool) == [4, 5]
    assert pool.get_num_free_blocks() == 2
    assert ids(pool.get_new_blocks(2)) == [4, 5]
    pool.check_invariants()


def test_blocks_are_the_pools_own_objects() -> None:
    pool = BlockPool(4, True, 16)
    for block in pool.get_new_blocks(3):
        assert block is pool.blocks[block.block_id]


@pytest.mark.parametrize("caching", [True, False])
def test_too_many_blocks(caching: bool) -> None:
    pool = BlockPool(5, caching, 16, True, RecordingCollector())
    pool.get_new_blocks(1)
    error = assert_refused(pool, OutOfBlocksError, lambda: pool.get_new_blocks(4))
    assert isinstance(error, OutOfBlocksError)
    assert (error.wanted, error.free) == (4, 3)
    assert isinstance(error, ValueError)


def test_too_many_blocks_evict_nothing() -> None:
    pool = BlockPool(5, True, 16, True, RecordingCollector())
    blocks, _ = cache_chain(pool, "abc")
    pool.free_blocks(reversed(blocks))
    assert_refused(pool, OutOfBlocksError, lambda: pool.get_new_blocks(5))
    assert len(pool.cached_block_hash_to_block) == 3


def test_getting_none_changes_nothing() -> None:
    pool = BlockPool(5, True, 16, True, RecordingCollector())
    before = snapshot(pool)
    assert pool.get_new_blocks(0) == []
    assert snapshot(pool) == before


def test_freed_blocks_join_the_young_end_in_the_given_order() -> None:
    pool = BlockPool(6, True, 16)
    blocks = pool.get_new_blocks(3)
    pool.free_blocks(reversed(blocks))
    assert queue_ids(pool) == [4, 5, 3, 2, 1]
    assert [block.ref_cnt for block in blocks] == [0, 0, 0]


@pytest.mark.parametrize("container", [list, tuple, iter, reversed, lambda blocks: (b for b in blocks)])
def test_free_takes_any_iterable_once(container: object) -> None:
    pool = BlockPool(4, True, 16)
    blocks = pool.get_new_blocks(3)
    pool.free_blocks(container(blocks))  # type: ignore[operator]
    assert pool.get_num_free_blocks() == 3
    pool.check_invariants()


def test_what_is_left_of_a_backward_iterator_is_taken_and_no_more() -> None:
    """Lists backwards are taken in one piece: nothing of that is to be seen."""
    pool = BlockPool(8, True, 16)
    blocks = pool.get_new_blocks(6)
    backwards = reversed(blocks)
    assert next(backwards) is blocks[5]
    for _ in range(2):  # the second time it is at its end
        pool.free_blocks(backwards)
        assert queue_ids(pool) == [7, 5, 4, 3, 2, 1]
    assert list(backwards) == []
    pool.free_blocks(backwards)
    assert queue_ids(pool) == [7, 5, 4, 3, 2, 1]


def test_a_list_that_shrank_behind_its_backward_iterator() -> None:
    pool = BlockPool(8, True, 16)
    blocks = pool.get_new_blocks(3)
    shrunk = list(blocks)
    backwards = reversed(shrunk)
    del shrunk[1:]
    pool.free_blocks(backwards)  # it ends there, as in every loop
    assert [block.ref_cnt for block in blocks] == [1, 1, 1]


def test_a_list_with_an_order_of_its_own_is_taken_one_by_one() -> None:
    class Doubled(list):  # type: ignore[type-arg]
        def __getitem__(self, position: object) -> object:
            raise AssertionError("iterators of lists do not ask for items")

    pool = BlockPool(8, True, 16)
    blocks = pool.get_new_blocks(3)
    pool.free_blocks(reversed(Doubled(blocks)))
    assert queue_ids(pool) == [4, 5, 6, 7, 3, 2, 1]
    pool.free_blocks(Doubled(pool.get_new_blocks(2)))
    assert queue_ids(pool) == [6, 7, 3, 2, 1, 4, 5]


def test_true_blocks_are_one() -> None:
    pool = BlockPool(1, True, 16)
    with pytest.raises(OutOfBlocksError, match=r"^1 blocks wanted, 0 free$") as caught:
        pool.get_new_blocks(True)
    assert type(caught.value.wanted) is int


@pytest.mark.parametrize("backwards", [True, False])
def test_the_list_of_the_caller_stays_as_it_is(backwards: bool) -> None:
    pool = BlockPool(8, True, 16)
    blocks = pool.get_new_blocks(3)
    mine: list[Any] = [*blocks, pool.null_block]
    pool.free_blocks(reversed(mine) if backwards else mine)
    assert mine == [*blocks, pool.null_block]
    with pytest.raises(BlockStateError):
        pool.free_blocks(reversed(mine) if backwards else mine)
    assert mine == [*blocks, pool.null_block]


def test_freeing_nothing_changes_nothing() -> None:
    pool = BlockPool(4, True, 16, True)
    before = snapshot(pool)
    pool.free_blocks([])
    pool.free_blocks(iter(()))
    pool.touch([])
    assert snapshot(pool) == before


def test_a_shared_block_stays_out_until_its_last_holder_frees_it() -> None:
    pool = BlockPool(4, True, 16)
    (block,) = pool.get_new_blocks(1)
    pool.touch([block])
    assert block.ref_cnt == 2
    pool.free_blocks([block])
    assert block.ref_cnt == 1
    assert queue_ids(pool) == [2, 3]
    pool.free_blocks([block])
    assert queue_ids(pool) == [2, 3, 1]


def test_a_block_held_twice_may_be_listed_twice() -> None:
    pool = BlockPool(4, True, 16)
    first, second = pool.get_new_blocks(2)
    pool.touch([first])
    pool.free_blocks([first, second, first])
    assert first.ref_cnt == second.ref_cnt == 0
    assert sorted(queue_ids(pool)) == [1, 2, 3]
    pool.check_invariants()


def test_touch_takes_an_idle_block_from_the_middle_of_the_queue() -> None:
    pool = BlockPool(6, True, 16)
    blocks, _ = cache_chain(pool, "abc")
    pool.free_blocks(reversed(blocks))
    assert queue_ids(pool) == [4, 5, 3, 2, 1]
    pool.touch([blocks[1], blocks[2]])
    assert queue_ids(pool) == [4, 5, 1]
    assert [block.ref_cnt for block in blocks] == [0, 1, 1]
    assert blocks[1].block_hash is not None
    pool.check_invariants()


def test_touch_counts_each_mention() -> None:
    pool = BlockPool(4, True, 16)
    blocks, _ = cache_chain(pool, "a")
    pool.free_blocks(blocks)
    pool.touch([blocks[0], blocks[0]])
    assert blocks[0].ref_cnt == 2
    assert queue_ids(pool) == [2, 3]
    pool.touch((blocks[0],))
    assert blocks[0].ref_cnt == 3


def test_a_touched_block_is_never_handed_out() -> None:
    pool = BlockPool(5, True, 16)
    blocks, _ = cache_chain(pool, "ab")
    pool.free_blocks(reversed(blocks))
    pool.touch([blocks[0]])
    others = pool.get_new_blocks(3)
    assert blocks[0] not in others
    assert blocks[0].block_hash is not None
    with pytest.raises(OutOfBlocksError):
        pool.get_new_blocks(1)


@pytest.mark.parametrize("times", [1, 8])
def test_the_null_block_is_skipped_wholly(times: int) -> None:
    pool = BlockPool(5, True, 16, True, RecordingCollector())
    before = snapshot(pool)
    pool.touch([pool.null_block] * times)
    assert snapshot(pool) == before
    pool.free_blocks([pool.null_block] * times)
    assert snapshot(pool) == before
    pool.check_invariants()


def test_the_null_block_among_others() -> None:
    pool = BlockPool(5, True, 16)
    null, count = pool.null_block, pool.null_block.ref_cnt
    first, second = pool.get_new_blocks(2)
    pool.touch([null, first, null])
    pool.free_blocks([second, null, first, first, null])
    assert null.ref_cnt == count
    assert queue_ids(pool) == [3, 4, 2, 1]


@pytest.mark.parametrize(
    ("num_blocks", "taken", "usage"), [(11, 0, 0.0), (11, 5, 0.5), (11, 10, 1.0), (5, 1, 0.25), (2, 1, 1.0)]
)
def test_usage(num_blocks: int, taken: int, usage: float) -> None:
    pool = BlockPool(num_blocks, True, 16)
    pool.get_new_blocks(taken)
    assert pool.get_usage() == pytest.approx(usage, abs=1e-12)


def test_usage_is_the_formula_of_the_specification() -> None:
    pool = BlockPool(8, True, 16)
    pool.get_new_blocks(3)
    assert pool.get_usage() == 1.0 - (4 / 7)


def test_occupancy_has_names() -> None:
    pool = BlockPool(11, True, 16)
    occupancy = pool.occupancy()
    assert (occupancy.in_use, occupancy.cached_idle, occupancy.blank) == (0, 0, 10)
    assert tuple(occupancy) == (0, 0, 10)


def test_occupancy_through_a_life() -> None:
    pool = BlockPool(5, True, 16)
    steps = []
    blocks, _ = cache_chain(pool, "ab")
    steps.append(tuple(pool.occupancy()))
    (tail,) = pool.get_new_blocks(1)
    steps.append(tuple(pool.occupancy()))
    pool.free_blocks([tail, *reversed(blocks)])
    steps.append(tuple(pool.occupancy()))
    pool.touch(blocks[:1])
    steps.append(tuple(pool.occupancy()))
    pool.evict_blocks({blocks[1].block_id})
    steps.append(tuple(pool.occupancy()))
    pool.evict_blocks({blocks[0].block_id})
    steps.append(tuple(pool.occupancy()))
    pool.free_blocks(blocks[:1])
    steps.append(tuple(pool.occupancy()))
    assert steps == [(2, 0, 2), (3, 0, 1), (0, 2, 2), (1, 1, 2), (1, 0, 3), (1, 0, 3), (0, 0, 4)]


def test_occupancy_after_reset_and_eviction() -> None:
    pool = BlockPool(5, True, 16)
    blocks, _ = cache_chain(pool, "abcd")
    pool.free_blocks(reversed(blocks))
    assert tuple(pool.occupancy()) == (0, 4, 0)
    taken = pool.get_new_blocks(1)
    assert tuple(pool.occupancy()) == (1, 3, 0)
    pool.free_blocks(taken)
    assert tuple(pool.occupancy()) == (0, 3, 1)
    assert pool.reset_prefix_cache() is True
    assert tuple(pool.occupancy()) == (0, 0, 4)


def test_hooks_of_an_allocation_in_order_and_in_time() -> None:
    """Evicted is told while the block still has its hash, allocated once it is held."""
    collector = RecordingCollector()
    pool = BlockPool(3, True, 16, metrics_collector=collector)
    blocks, _ = cache_chain(pool, "a")
    pool.free_blocks(blocks)
    collector.calls.clear()
    pool.get_new_blocks(2)
    assert collector.calls == [
        ("evicted", 2, 0, False),
        ("allocated", 2, 1, False),
        ("evicted", 1, 0, True),
        ("allocated", 1, 1, False),
    ]


def test_hooks_without_caching() -> None:
    collector = RecordingCollector()
    pool = BlockPool(3, False, 16, metrics_collector=collector)
    blocks = pool.get_new_blocks(2)
    pool.free_blocks(blocks)
    pool.get_new_blocks(1)
    assert collector.names() == [("allocated", 1), ("allocated", 2), ("allocated", 1)]


def test_touch_tells_each_access() -> None:
    collector = RecordingCollector()
    pool = BlockPool(4, True, 16, metrics_collector=collector)
    first, second = pool.get_new_blocks(2)
    pool.free_blocks([first])
    collector.calls.clear()
    pool.touch([second, pool.null_block, first, second])
    assert collector.names() == [("accessed", 2), ("accessed", 1), ("accessed", 2)]
    pool.free_blocks([first, second])
    assert len(collector.calls) == 3


@given(
    num_blocks=st.integers(1, 30),
    rounds=st.lists(st.tuples(st.booleans(), st.integers(0, 30)), max_size=20),
)
def test_usage_and_occupancy_stay_in_their_bounds(num_blocks: int, rounds: list[tuple[bool, int]]) -> None:
    pool = BlockPool(num_blocks, True, 4)
    held: list[object] = []
    for take, count in rounds:
        if take and count <= pool.get_num_free_blocks():
            held += pool.get_new_blocks(count)
        elif not take:
            pool.free_blocks(held[:count])  # type: ignore[arg-type]
            del held[:count]
        assert 0 <= pool.get_usage() <= 1
        assert sum(pool.occupancy()) == num_blocks - 1
        assert pool.occupancy().in_use == len(held)
        assert pool.get_num_free_blocks() == num_blocks - 1 - len(held)


def test_a_hook_that_raises_costs_no_block(caplog: pytest.LogCaptureFixture) -> None:
    """A clock that gives floats, a random source that gives text: the collector's fault, told in the log."""
    for sources in ({"clock": lambda: 0.5}, {"random": lambda: "x"}):
        collector = KVCacheMetricsCollector(1.0, **sources)  # type: ignore[arg-type]
        pool = BlockPool(5, True, 4, metrics_collector=collector)
        blocks = pool.get_new_blocks(3)
        pool.touch(blocks)
        pool.free_blocks(blocks)
        pool.check_invariants()
        assert pool.occupancy() == (3, 0, 1)
    assert "a hook of the metrics collector failed" in caplog.text

"""BlockPool's own options: reuse_uncached_first, self_check, caching off, and how they play together."""

import pytest

from blockpool import BlockPool, InvariantError, KVCacheMetricsCollector

from .support import (
    FakeClock,
    FakeRequest,
    IndexConsumer,
    cache_chain,
    chain,
    ids,
    indexed_copies,
    queue_ids,
    snapshot,
)


def test_blocks_without_a_hash_go_to_the_old_end() -> None:
    pool = BlockPool(8, True, 4, reuse_uncached_first=True)
    cached, _ = cache_chain(pool, "ab")
    tail = pool.get_new_blocks(2)
    pool.free_blocks([tail[1], tail[0], cached[1], cached[0]])
    assert queue_ids(pool) == [4, 3, 5, 6, 7, 2, 1]
    pool.check_invariants()


def test_mixed_order_is_kept_within_each_kind() -> None:
    pool = BlockPool(8, True, 4, reuse_uncached_first=True)
    cached, _ = cache_chain(pool, "ab")
    tail = pool.get_new_blocks(2)
    pool.free_blocks([cached[0], tail[0], cached[1], tail[1]])
    assert queue_ids(pool) == [3, 4, 5, 6, 7, 1, 2]


def test_by_default_the_given_order_decides() -> None:
    pool = BlockPool(8, True, 4)
    cached, _ = cache_chain(pool, "ab")
    tail = pool.get_new_blocks(2)
    pool.free_blocks([tail[1], tail[0], cached[1], cached[0]])
    assert queue_ids(pool) == [5, 6, 7, 4, 3, 2, 1]


def test_a_block_that_stays_held_goes_nowhere() -> None:
    pool = BlockPool(5, True, 4, reuse_uncached_first=True)
    blocks = pool.get_new_blocks(2)
    pool.touch(blocks[:1])
    pool.free_blocks(blocks)
    assert queue_ids(pool) == [2, 3, 4]
    pool.free_blocks(blocks[:1])
    assert queue_ids(pool) == [1, 2, 3, 4]


def test_an_evicted_block_counts_as_one_without_a_hash() -> None:
    pool = BlockPool(5, True, 4, reuse_uncached_first=True)
    blocks, _ = cache_chain(pool, "ab")
    pool.evict_blocks({1})
    pool.free_blocks(reversed(blocks))
    assert queue_ids(pool) == [1, 3, 4, 2]


def test_without_caching_the_option_recycles_last_in_first_out() -> None:
    pool = BlockPool(5, False, 4, reuse_uncached_first=True)
    blocks = pool.get_new_blocks(2)
    pool.free_blocks(blocks)
    assert queue_ids(pool) == [1, 2, 3, 4]


def test_a_failed_free_under_the_option_changes_nothing() -> None:
    pool = BlockPool(5, True, 4, reuse_uncached_first=True)
    blocks = pool.get_new_blocks(2)
    with pytest.raises(RuntimeError):
        pool.free_blocks([*blocks, blocks[0]])
    assert queue_ids(pool) == [3, 4]
    assert [block.ref_cnt for block in blocks] == [1, 1]
    pool.check_invariants()


SELF_CHECKED = {
    "get_new_blocks": lambda pool, blocks: pool.get_new_blocks(1),
    "touch": lambda pool, blocks: pool.touch(blocks),
    "free_blocks": lambda pool, blocks: pool.free_blocks(blocks),
    "evict_blocks": lambda pool, blocks: pool.evict_blocks({1}),
    "cache_full_blocks": lambda pool, blocks: pool.cache_full_blocks(
        FakeRequest(chain("xyz")), [*blocks, *pool.blocks[3:4]], 2, 3, 4, 0
    ),
    "reset_prefix_cache": lambda pool, blocks: pool.reset_prefix_cache(),
}


@pytest.mark.parametrize("method", SELF_CHECKED)
def test_a_self_checking_pool_notices_damage_at_the_next_change(method: str) -> None:
    pool = BlockPool(6, True, 4, self_check=True)
    blocks, _ = cache_chain(pool, "ab")
    pool.get_new_blocks(1)
    if method == "reset_prefix_cache":
        pool.free_blocks([pool.blocks[3], *blocks])
    pool.blocks[5].ref_cnt = -1
    with pytest.raises(InvariantError):
        SELF_CHECKED[method](pool, blocks)


def test_without_self_check_damage_goes_unnoticed_until_asked() -> None:
    pool = BlockPool(6, True, 4)
    blocks, _ = cache_chain(pool, "ab")
    pool.free_block_queue.num_free_blocks += 1
    pool.free_blocks(blocks)
    with pytest.raises(InvariantError):
        pool.check_invariants()


def test_a_healthy_self_checking_pool_works_as_any() -> None:
    results = []
    for self_check in (False, True):
        pool = BlockPool(6, True, 4, True, self_check=self_check)
        blocks, request = cache_chain(pool, "ab")
        pool.free_blocks(reversed(blocks))
        pool.touch(pool.find_longest_prefix(request.block_hashes, [0])[0])
        pool.free_blocks(reversed(blocks))
        pool.get_new_blocks(4)
        results.append((queue_ids(pool), repr(pool.take_events()), tuple(pool.occupancy())))
    assert results[0] == results[1]


def test_without_caching_blocks_are_only_handed_out_and_taken_back() -> None:
    pool = BlockPool(5, False, 4, True)
    blocks = pool.get_new_blocks(4)
    pool.free_blocks(reversed(blocks))
    assert ids(pool.get_new_blocks(2)) == [4, 3]
    assert pool.take_events() == []
    assert tuple(pool.occupancy()) == (2, 0, 2)
    assert pool.num_evictions == 0
    pool.check_invariants()


def test_without_caching_nothing_is_ever_indexed() -> None:
    """Indexing does nothing: no error, no hash, no event."""
    pool = BlockPool(4, False, 4, True)
    request = FakeRequest(chain("ab"), range(8))
    blocks = pool.get_new_blocks(2)
    before = snapshot(pool)
    pool.cache_full_blocks(request, blocks, 0, 2, 4, 0)
    assert snapshot(pool) == before
    pool.check_invariants()
    pool.free_blocks(blocks)
    taken = pool.get_new_blocks(3)
    assert [block.block_hash for block in taken] == [None] * 3
    assert tuple(pool.occupancy()) == (3, 0, 0)
    assert pool.get_cached_block(request.block_hashes[0], [0]) is None
    assert pool.take_events() == []
    pool.check_invariants()


def test_an_idle_block_may_be_indexed() -> None:
    pool = BlockPool(5, True, 4)
    blocks = pool.get_new_blocks(2)
    pool.free_blocks(blocks)
    pool.cache_full_blocks(FakeRequest(chain("ab")), blocks, 0, 2, 4, 0)
    assert tuple(pool.occupancy()) == (0, 2, 2)
    pool.check_invariants()
    pool.touch(blocks[:1])
    assert tuple(pool.occupancy()) == (1, 1, 2)
    pool.check_invariants()


def test_everything_on_at_once() -> None:
    """Groups, events, metrics, both options: two tenants take turns in a pool that is too small."""
    clock = FakeClock()
    metrics = KVCacheMetricsCollector(1.0, clock=clock, random=lambda: 0.0)
    pool = BlockPool(8, True, 4, True, metrics, reuse_uncached_first=True, self_check=True)
    consumer = IndexConsumer()
    for turn in range(12):
        prompt = f"{turn % 3}abc"
        request = FakeRequest(chain(prompt), range(16))
        hits = pool.find_longest_prefix(request.block_hashes, [0])[0]
        pool.touch(hits)
        fresh = pool.get_new_blocks(4 - len(hits))
        table = hits + fresh
        request.all_token_ids = [turn % 3, *range(15)]
        pool.cache_full_blocks(request, table, len(hits), 4, 4, 0)
        partial = pool.get_new_blocks(1)
        clock.advance(1)
        pool.free_blocks([*partial, *reversed(table)])
        consumer.apply(pool.take_events())
        assert consumer.held() == indexed_copies(pool)
        assert sum(pool.occupancy()) == 7
    # Two chains of four do not fit into seven, and the third pushes the first out: tails go, heads stay.
    assert pool.num_evictions == len(metrics.drain_events())
    assert pool.num_evictions > 0
    assert len(metrics.drain_recycled()) > 0

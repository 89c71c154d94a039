"""BlockPool: indexing full blocks, looking them up, evicting, and resetting the prefix cache."""

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockpool import BlockPool

from .pool_model import naive_prefix
from .support import (
    FakeRequest,
    RecordingCollector,
    cache_chain,
    chain,
    ids,
    key,
    queue_ids,
    snapshot,
)


def test_a_full_block_is_found_by_its_hash() -> None:
    pool = BlockPool(6, True, 16)
    blocks, request = cache_chain(pool, "abc")
    for block, block_hash in zip(blocks, request.block_hashes, strict=True):
        assert block.block_hash == key(block_hash)
        assert pool.get_cached_block(block_hash, [0]) == [block]
    assert len(pool.cached_block_hash_to_block) == 3


def test_a_look_up_has_no_side_effect() -> None:
    pool = BlockPool(6, True, 16, True, RecordingCollector())
    blocks, request = cache_chain(pool, "abc")
    pool.free_blocks(reversed(blocks))
    before = snapshot(pool)
    pool.get_cached_block(request.block_hashes[1], [0])
    pool.get_cached_block(b"unknown", [0])
    pool.find_longest_prefix(request.block_hashes, [0])
    assert snapshot(pool) == before


def test_a_look_up_in_unknown_groups_leaves_nothing_behind() -> None:
    pool = BlockPool(6, True, 16)
    hashes = chain("ab")
    pool.get_cached_block(hashes[0], [0])
    num_groups = len(pool.cached_block_hash_to_block.groups())
    for group_id in range(50):
        assert pool.get_cached_block(hashes[0], [group_id]) is None
        assert pool.find_longest_prefix(hashes, [0, group_id]) == ([], [])
    assert len(pool.cached_block_hash_to_block.groups()) <= num_groups + 1


def test_a_miss() -> None:
    pool = BlockPool(6, True, 16)
    _, request = cache_chain(pool, "abc")
    assert pool.get_cached_block(chain("x")[0], [0]) is None
    assert pool.get_cached_block(request.block_hashes[0], [1]) is None


def test_an_idle_block_is_still_found() -> None:
    pool = BlockPool(6, True, 16)
    blocks, request = cache_chain(pool, "abc")
    pool.free_blocks(reversed(blocks))
    assert pool.get_cached_block(request.block_hashes[0], [0]) == [blocks[0]]


def test_blocks_become_full_step_by_step() -> None:
    pool = BlockPool(6, True, 16)
    request = FakeRequest(chain("abcd"))
    blocks = pool.get_new_blocks(4)
    pool.cache_full_blocks(request, blocks, 0, 1, 16, 0)
    assert [block.block_hash is not None for block in blocks] == [True, False, False, False]
    pool.cache_full_blocks(request, blocks, 1, 3, 16, 0)
    assert [block.block_hash is not None for block in blocks] == [True, True, True, False]
    pool.cache_full_blocks(request, blocks, 3, 4, 16, 0)
    assert [block.block_hash for block in blocks] == [key(h) for h in request.block_hashes]


@pytest.mark.parametrize(("cached", "full"), [(0, 0), (2, 2), (3, 2), (4, 0)])
def test_nothing_new_is_a_no_op(cached: int, full: int) -> None:
    pool = BlockPool(6, True, 16, True)
    request = FakeRequest(chain("abcd"), range(64))
    blocks = pool.get_new_blocks(4)
    before = snapshot(pool)
    pool.cache_full_blocks(request, blocks, cached, full, 16, 0)
    assert snapshot(pool) == before


def test_more_hashes_and_blocks_than_full_ones_are_left_alone() -> None:
    pool = BlockPool(6, True, 16)
    request = FakeRequest(chain("abcdef"))
    blocks = pool.get_new_blocks(5)
    pool.cache_full_blocks(request, blocks, 0, 2, 16, 0)
    assert [block.block_hash is not None for block in blocks] == [True, True, False, False, False]


def test_hashes_may_be_a_tuple() -> None:
    pool = BlockPool(6, True, 16)
    request = FakeRequest(chain("ab"))
    request.block_hashes = tuple(request.block_hashes)  # type: ignore[assignment]
    blocks = pool.get_new_blocks(2)
    pool.cache_full_blocks(request, tuple(blocks), 0, 2, 16, 0)
    assert pool.get_cached_block(request.block_hashes[1], (0,)) == [blocks[1]]


@pytest.mark.parametrize("container", [list, tuple, iter])
def test_blocks_may_be_any_iterable(container: type) -> None:
    pool = BlockPool(6, True, 16)
    request = FakeRequest(chain("ab"))
    blocks = pool.get_new_blocks(2)
    pool.cache_full_blocks(request, container(blocks), 0, 2, 16, 0)
    assert pool.find_longest_prefix(request.block_hashes, [0]) == (blocks,)


def test_equal_blocks_are_indexed_side_by_side() -> None:
    pool = BlockPool(6, True, 16)
    first, request = cache_chain(pool, "a")
    second, _ = cache_chain(pool, "a")
    assert first[0] is not second[0]
    assert first[0].block_hash == second[0].block_hash
    assert pool.get_cached_block(request.block_hashes[0], [0]) == first
    assert len(pool.cached_block_hash_to_block) == 1
    pool.evict_blocks({first[0].block_id})
    assert pool.get_cached_block(request.block_hashes[0], [0]) == second
    pool.evict_blocks({second[0].block_id})
    assert pool.get_cached_block(request.block_hashes[0], [0]) is None


def test_null_blocks_are_skipped() -> None:
    pool = BlockPool(6, True, 16)
    request = FakeRequest(chain("abcd"))
    blocks = pool.get_new_blocks(2)
    table = [pool.null_block, pool.null_block, *blocks]
    pool.cache_full_blocks(request, table, 0, 4, 16, 0)
    assert pool.null_block.block_hash is None
    assert pool.get_cached_block(request.block_hashes[0], [0]) is None
    assert pool.get_cached_block(request.block_hashes[2], [0]) == [blocks[0]]
    pool.check_invariants()


def test_a_block_lives_from_blank_to_recycled() -> None:
    pool = BlockPool(2, True, 16)
    (block,) = pool.get_new_blocks(1)
    assert (block.ref_cnt, block.block_hash) == (1, None)
    request = FakeRequest(chain("a"))
    pool.cache_full_blocks(request, [block], 0, 1, 16, 0)
    assert (block.ref_cnt, block.block_hash) == (1, key(request.block_hashes[0]))
    pool.touch([block])
    assert block.ref_cnt == 2
    pool.free_blocks([block])
    pool.free_blocks([block])
    assert (block.ref_cnt, block.block_hash) == (0, key(request.block_hashes[0]))
    assert pool.num_evictions == 0
    assert pool.get_new_blocks(1) == [block]
    assert (block.ref_cnt, block.block_hash) == (1, None)
    assert pool.get_cached_block(request.block_hashes[0], [0]) is None
    assert pool.num_evictions == 1


def test_get_new_blocks_never_looks_the_cache_up() -> None:
    pool = BlockPool(4, True, 16)
    blocks, _ = cache_chain(pool, "a")
    pool.free_blocks(blocks)
    assert ids(pool.get_new_blocks(1)) == [2]
    assert blocks[0].block_hash is not None


def test_the_least_recently_freed_goes_first_and_the_shared_head_last() -> None:
    pool = BlockPool(7, True, 16)
    old, old_request = cache_chain(pool, "abc")
    new, new_request = cache_chain(pool, "xyz")
    pool.free_blocks(reversed(new))
    pool.free_blocks(reversed(old))
    assert queue_ids(pool) == [6, 5, 4, 3, 2, 1]
    pool.get_new_blocks(4)
    assert pool.get_cached_block(new_request.block_hashes[0], [0]) is None
    assert pool.get_cached_block(old_request.block_hashes[2], [0]) is None
    assert pool.get_cached_block(old_request.block_hashes[1], [0]) == [old[1]]
    assert len(pool.find_longest_prefix(old_request.block_hashes, [0])[0]) == 2


def test_evict_drops_the_hash_and_nothing_else() -> None:
    pool = BlockPool(6, True, 16)
    blocks, request = cache_chain(pool, "abc")
    pool.free_blocks([blocks[2]])
    order = queue_ids(pool)
    pool.evict_blocks({blocks[0].block_id, blocks[2].block_id})
    assert [block.ref_cnt for block in blocks] == [1, 1, 0]
    assert [block.block_hash is None for block in blocks] == [True, False, True]
    assert queue_ids(pool) == order
    assert pool.get_cached_block(request.block_hashes[0], [0]) is None
    assert pool.get_cached_block(request.block_hashes[1], [0]) == [blocks[1]]
    assert pool.num_evictions == 2
    pool.check_invariants()


def test_evicting_blank_blocks_and_nothing() -> None:
    pool = BlockPool(6, True, 16, True)
    pool.get_new_blocks(1)
    before = snapshot(pool)
    pool.evict_blocks(set())
    pool.evict_blocks({1, 2})
    pool.evict_blocks([3, 3])
    assert snapshot(pool) == before
    assert pool.num_evictions == 0


@pytest.mark.parametrize("container", [set, frozenset, list, tuple, iter])
def test_evict_takes_any_iterable(container: type) -> None:
    pool = BlockPool(6, True, 16)
    blocks, _ = cache_chain(pool, "ab")
    pool.evict_blocks(container(ids(blocks)))
    assert [block.block_hash for block in blocks] == [None, None]


def test_an_evicted_block_can_be_indexed_again() -> None:
    pool = BlockPool(6, True, 16)
    blocks, request = cache_chain(pool, "a")
    pool.evict_blocks({blocks[0].block_id})
    pool.cache_full_blocks(request, blocks, 0, 1, 16, 0)
    assert pool.get_cached_block(request.block_hashes[0], [0]) == blocks


def test_reset_when_idle() -> None:
    collector = RecordingCollector()
    pool = BlockPool(6, True, 16, True, collector)
    blocks, request = cache_chain(pool, "abc")
    pool.free_blocks(reversed(blocks))
    pool.take_events()
    order = queue_ids(pool)
    assert pool.reset_prefix_cache() is True
    assert len(pool.cached_block_hash_to_block) == 0
    assert [block.block_hash for block in pool.blocks] == [None] * 6
    assert pool.find_longest_prefix(request.block_hashes, [0]) == ([],)
    assert queue_ids(pool) == order
    assert collector.calls[-1][0] == "reset"
    assert [hook for hook, _ in collector.names()].count("reset") == 1
    assert pool.num_evictions == 0
    pool.check_invariants()


def test_reset_with_a_block_held(caplog: pytest.LogCaptureFixture) -> None:
    pool = BlockPool(6, True, 16, True, RecordingCollector())
    blocks, _ = cache_chain(pool, "abc")
    pool.free_blocks([blocks[2]])
    before = snapshot(pool)
    with caplog.at_level(logging.WARNING, logger="blockpool"):
        assert pool.reset_prefix_cache() is False
    assert snapshot(pool) == before
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "2" in record.getMessage()
    assert record.name.startswith("blockpool")


def test_a_successful_reset_warns_of_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="blockpool"):
        assert BlockPool(6, True, 16).reset_prefix_cache() is True
    assert caplog.records == []


@given(
    indexed=st.lists(st.sets(st.integers(0, 7)), min_size=2, max_size=3),
    groups=st.sampled_from([[0], [1], [0, 1], [1, 0], [0, 0], [5], [0, 5]]),
    limit=st.none() | st.integers(0, 10),
    length=st.integers(0, 8),
)
def test_find_longest_prefix_is_the_naive_loop(
    indexed: list[set[int]], groups: list[int], limit: int | None, length: int
) -> None:
    pool = BlockPool(40, True, 16)
    hashes = chain(range(8))
    for group_id, positions in enumerate(indexed):
        for position in sorted(positions):
            (block,) = pool.get_new_blocks(1)
            table = [pool.null_block] * position + [block]
            pool.cache_full_blocks(FakeRequest(hashes), table, position, position + 1, 16, group_id)
    expected = tuple(naive_prefix(pool.get_cached_block, hashes[:length], groups, limit))
    found = pool.find_longest_prefix(hashes[:length], groups, limit)
    assert isinstance(found, tuple)
    assert found == expected
    if limit is None:
        assert pool.find_longest_prefix(tuple(hashes[:length]), tuple(groups)) == expected


def test_find_longest_prefix_stops_at_the_first_hole() -> None:
    pool = BlockPool(10, True, 16)
    blocks, request = cache_chain(pool, "abcd")
    pool.evict_blocks({blocks[2].block_id})
    assert pool.find_longest_prefix(request.block_hashes, [0]) == (blocks[:2],)
    assert pool.find_longest_prefix(request.block_hashes, [0], max_blocks=1) == (blocks[:1],)
    assert pool.find_longest_prefix(request.block_hashes, [0], max_blocks=0) == ([],)


def test_a_found_list_is_the_callers_own() -> None:
    pool = BlockPool(10, True, 16)
    blocks, request = cache_chain(pool, "ab")
    pool.find_longest_prefix(request.block_hashes, [0])[0].clear()
    assert pool.find_longest_prefix(request.block_hashes, [0]) == (blocks,)

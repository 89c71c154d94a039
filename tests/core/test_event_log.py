"""Which events a pool makes of what happened: granularity, batched removals, records handed over; its fingerprint."""

import pytest

from blockpool import (
    AllBlocksCleared,
    ArgumentError,
    BlockHasher,
    BlockPool,
    BlockRemoved,
    BlockStored,
    ConfigError,
    EventLog,
)

from .support import FakeRequest, cache_chain, chain, external, snapshot


def kinds(pool: BlockPool) -> list[tuple[str, list[int | bytes]]]:
    return [(type(event).__name__, getattr(event, "block_hashes", [])) for event in pool.take_events()]


def test_two_copies_case_5() -> None:
    """Still a hit after the first copy is gone; each mode tells of it in its own way."""
    for granularity, removed in (("every_copy", 2), ("last_copy", 1)):
        pool = BlockPool(5, True, 4, True, event_granularity=granularity)
        first, request = cache_chain(pool, "a")
        second, _ = cache_chain(pool, "a")
        digest = request.block_hashes[0]
        assert len(pool.take_events()) == removed
        pool.evict_blocks([first[0].block_id])
        assert pool.get_cached_block(digest, [0]) == second
        after_first = pool.take_events()
        pool.evict_blocks([second[0].block_id])
        assert pool.get_cached_block(digest, [0]) is None
        events = after_first + pool.take_events()
        assert events == [BlockRemoved([external(digest)], "GPU")] * removed
        assert bool(after_first) is (granularity == "every_copy")


def test_last_copy_tells_of_new_blocks_only_and_names_their_true_parents() -> None:
    pool = BlockPool(20, True, 4, True, event_granularity="last_copy")
    hashes = chain("abcd")
    external_hashes = [external(digest) for digest in hashes]
    cache_chain(pool, "ab")
    cache_chain(pool, "abcd")
    first, second = pool.take_events()
    assert isinstance(first, BlockStored)
    assert isinstance(second, BlockStored)
    assert (first.block_hashes, first.parent_block_hash) == (external_hashes[:2], None)
    assert (second.block_hashes, second.parent_block_hash) == (external_hashes[2:], external_hashes[1])
    assert second.token_ids == list(range(8, 16))


def test_last_copy_splits_a_run_at_known_blocks() -> None:
    pool = BlockPool(20, True, 4, True, event_granularity="last_copy")
    hashes = chain("abc")
    request = FakeRequest(hashes, range(12))
    blocks = pool.get_new_blocks(1)
    pool.cache_full_blocks(request, [pool.null_block, *blocks], 1, 2, 4, 0)
    cache_chain(pool, "abc")
    told = [event.block_hashes for event in pool.take_events()]  # type: ignore[union-attr]
    assert told == [[external(hashes[1])], [external(hashes[0])], [external(hashes[2])]]


def test_the_hash_of_a_null_block_counts_for_nothing() -> None:
    pool = BlockPool(9, True, 4, True, event_granularity="last_copy")
    digest = chain("a")[0]
    request = FakeRequest([digest, digest], range(8))
    pool.cache_full_blocks(request, [pool.null_block, *pool.get_new_blocks(1)], 0, 2, 4, 0)
    assert kinds(pool) == [("BlockStored", [external(digest)])]


def test_the_same_hash_twice_in_one_call_is_told_once() -> None:
    pool = BlockPool(9, True, 4, True, event_granularity="last_copy")
    digest = chain("a")[0]
    request = FakeRequest([digest, digest], range(8))
    blocks = pool.get_new_blocks(2)
    pool.cache_full_blocks(request, blocks, 0, 2, 4, 0)
    pool.free_blocks(blocks)
    pool.get_new_blocks(8)
    assert kinds(pool) == [("BlockStored", [external(digest)]), ("BlockRemoved", [external(digest)])]


def test_groups_are_told_apart_by_last_copies() -> None:
    pool = BlockPool(9, True, 4, True, event_granularity="last_copy")
    for group_id in (0, 1, 1):
        cache_chain(pool, "a", group_id)
    pool.evict_blocks([1, 2, 3])
    assert [kind for kind, _ in kinds(pool)] == ["BlockStored"] * 2 + ["BlockRemoved"] * 2


def test_batched_removals_share_an_event_until_something_else_happens() -> None:
    pool = BlockPool(4, True, 4, True, batch_removes=True)
    blocks, request = cache_chain(pool, "abc")
    pool.free_blocks(reversed(blocks))
    recycled = pool.get_new_blocks(1) + pool.get_new_blocks(1)
    x = chain("x")
    pool.cache_full_blocks(FakeRequest(x, range(4)), recycled, 0, 1, 4, 0)
    pool.evict_blocks([1, 2, 3])
    a, b, c = (external(digest) for digest in request.block_hashes)
    assert [recycled[0].block_id, blocks[0].block_id] == [3, 1]
    assert kinds(pool) == [
        ("BlockStored", [a, b, c]),
        ("BlockRemoved", [c, b]),
        ("BlockStored", [external(x[0])]),
        ("BlockRemoved", [a, external(x[0])]),
    ]


def test_a_log_is_handed_over_whole_and_read_when_wanted() -> None:
    pool = BlockPool(7, True, 4, True)
    cache_chain(pool, "a")
    queue = pool.kv_event_queue
    pool.evict_blocks([1])
    log = pool.take_event_log()
    cache_chain(pool, "b")
    assert isinstance(log, EventLog)
    assert len(log) == 2
    digest = external(chain("a")[0])
    assert [type(event) for event in log.events()] == [BlockStored, BlockRemoved]
    assert log.events() is log.events() is queue
    assert log.events()[1] == BlockRemoved([digest], "GPU")
    assert len(pool.take_event_log()) == 1
    assert len(pool.take_event_log()) == 0


def test_a_copy_makes_its_events_by_itself() -> None:
    pool = BlockPool(7, True, 4, True)
    cache_chain(pool, "ab")
    half_made = pool.take_event_log()
    first = half_made.events().copy()
    copies = [half_made.copy() for _ in range(2)]
    assert [copy.num_made for copy in copies] == [1, 1]
    pool.evict_blocks([1])
    log = pool.take_event_log()
    copy = log.copy()
    events = log.events()
    assert (copy.num_made, len(copy)) == (0, 1)
    assert copy.events() == events
    assert copy.events() is not events
    copies[0].events().clear()
    assert copies[1].events() == half_made.events() == first


def test_a_log_keeps_clears() -> None:
    pool = BlockPool(7, True, 4, True)
    pool.reset_prefix_cache()
    log = pool.take_event_log()
    assert len(log) == 1
    assert log.events() == [AllBlocksCleared()]


def test_with_events_off_a_log_is_empty() -> None:
    pool = BlockPool(7, True, 4)
    cache_chain(pool, "a")
    assert len(pool.take_event_log()) == 0


def test_a_look_at_the_queue_changes_nothing() -> None:
    pool = BlockPool(7, True, 4, True)
    cache_chain(pool, "ab")
    before = snapshot(pool)
    assert snapshot(pool) == before
    assert len(pool.take_events()) == 1


def test_fingerprint() -> None:
    hasher = BlockHasher("sha256", 4, "0")
    assert BlockPool(3, True, 4, fingerprint=hasher.fingerprint).fingerprint == hasher.fingerprint
    assert BlockPool(3, True, 4).fingerprint is None


def test_bad_settings() -> None:
    with pytest.raises(ConfigError, match="every_copy, last_copy"):
        BlockPool(3, True, 4, event_granularity="some")
    with pytest.raises(ArgumentError, match="event_granularity"):
        BlockPool(3, True, 4, event_granularity=1)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="batch_removes"):
        BlockPool(3, True, 4, batch_removes=1)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="fingerprint"):
        BlockPool(3, True, 4, fingerprint=b"f")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="fingerprint"):
        BlockPool(3, True, 4, fingerprint="")

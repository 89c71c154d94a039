"""`KVCacheManager`: what `allocate_slots` gives for each kind of token, and the rest of its surface."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from blockpool import BlockRemoved, BlockStored, KVCacheMetricsCollector
from blockpool.kv_cache import KVCacheBlocks

from .support import (
    admit,
    assert_all_given_back,
    decode,
    full,
    make_manager,
    make_request,
    mamba,
    run_once,
    snapshot,
    tables,
    window,
)


def cached(manager: object, request_id: str = "a") -> list[int]:
    singles = manager.coordinator.single_type_managers  # type: ignore[attr-defined]
    return [single.num_cached_block[request_id] for single in singles]


# --- kinds of tokens


def test_a_prompt_in_chunks() -> None:
    manager = make_manager(full(4))
    request = make_request("a", range(14), manager)
    given = []
    for chunk in (6, 1, 1, 6):
        blocks = manager.allocate_slots(request, chunk)
        assert blocks is not None
        given.append(blocks.get_block_ids())
        request.num_computed_tokens += chunk
    assert given == [([1, 2],), ([],), ([],), ([3, 4],)]
    assert cached(manager) == [3]


def test_lookahead_takes_slots_and_is_not_indexed() -> None:
    manager = make_manager(full(4))
    request = make_request("a", range(7), manager)
    assert admit(manager, request, num_lookahead_tokens=5).get_block_ids() == ([1, 2, 3],)
    assert cached(manager) == [1]
    assert decode(manager, request, num_lookahead_tokens=4) is manager.empty_kv_cache_blocks
    assert cached(manager) == [2]


def test_drafts_take_slots_and_are_not_indexed() -> None:
    """New tokens beyond those that the request has are drafts, which may be refused."""
    manager = make_manager(full(4))
    request = make_request("a", range(7), manager)
    admit(manager, request)
    request.append_output_token_ids(7)
    blocks = manager.allocate_slots(request, 1 + 4)
    assert blocks is not None
    assert blocks.get_block_ids() == ([3],)
    assert cached(manager) == [2], "12 tokens have slots, 8 are sure"


def test_slots_end_with_the_longest_request() -> None:
    manager = make_manager(full(4), max_model_len=10)
    request = make_request("a", range(9), manager)
    admit(manager, request)
    assert decode(manager, request, num_lookahead_tokens=50) is manager.empty_kv_cache_blocks
    assert tables(manager, request) == ([1, 2, 3],)


def test_external_tokens_get_blocks_and_are_indexed() -> None:
    manager = make_manager(full(4))
    run_once(manager, range(4))
    request = make_request("a", range(14), manager)
    computed, length = manager.get_computed_blocks(request)
    new_blocks = manager.allocate_slots(request, 3, length, computed, num_external_computed_tokens=7)
    assert new_blocks is not None
    assert new_blocks.get_block_ids() == ([4],), "without those for external tokens"
    assert tables(manager, request) == ([1, 2, 3, 4],)
    assert cached(manager) == [3]


def test_transfers_that_are_waited_for() -> None:
    manager = make_manager(full(4))
    request = make_request("a", range(14), manager)
    blocks = manager.allocate_slots(request, 0, num_external_computed_tokens=13, delay_cache_blocks=True)
    assert blocks is manager.empty_kv_cache_blocks
    assert (tables(manager, request), cached(manager)) == (([1, 2, 3, 4],), [0])
    other = make_request("b", range(14), manager)
    assert manager.get_computed_blocks(other)[1] == 0, "its KV is not there yet"
    request.num_computed_tokens = 13
    manager.cache_blocks(request, 13)
    assert cached(manager) == [3]
    assert manager.get_computed_blocks(other)[1] == 12
    assert manager.allocate_slots(request, 1) is manager.empty_kv_cache_blocks


# --- all or nothing


def test_none_leaves_no_trace() -> None:
    manager = make_manager(full(2), window(2, 4), num_blocks=14, log_stats=True, enable_kv_cache_events=True)
    run_once(manager, range(5))
    holder = make_request("h", range(100, 106), manager)
    admit(manager, holder)
    request = make_request("a", range(11), manager)
    computed, length = manager.get_computed_blocks(request)
    assert length == 4
    before = snapshot(manager)
    for _ in range(3):
        assert manager.allocate_slots(request, 7, length, computed) is None
        assert snapshot(manager) == before
    manager.free(holder)
    assert manager.allocate_slots(request, 7, length, computed) is not None


def test_none_frees_not_even_what_is_out_of_sight() -> None:
    """Unlike vLLM 0.16, which frees it before it finds that the rest does not fit. It counts as room all the same."""
    manager = make_manager(window(2, 3), num_blocks=8)
    request = make_request("a", range(8), manager)
    admit(manager, request)  # 4 of 7 blocks; 3 of them out of sight of token 8
    before = snapshot(manager)
    assert manager.allocate_slots(request, 13) is None  # 7 blocks more, and there are 3 + 3
    assert snapshot(manager) == before
    assert manager.allocate_slots(request, 12) is not None
    assert tables(manager, request)[0][:3] == [0, 0, 0]
    assert manager.block_pool.get_num_free_blocks() == 0


def test_hits_that_nobody_holds_are_room_that_is_needed() -> None:
    manager = make_manager(full(2), num_blocks=5)
    run_once(manager, range(4))
    request = make_request("a", range(8), manager)
    computed, length = manager.get_computed_blocks(request)
    assert length == 4
    assert manager.allocate_slots(request, 5, length, computed) is None, "2 hits and 3 blocks: 5 of 4"
    assert manager.allocate_slots(request, 4, length, computed) is not None


# --- the rest


def test_a_decode_step_that_needs_nothing_returns_the_one_empty_result() -> None:
    manager = make_manager(full(8), window(8, 16), mamba(8))
    request = make_request("a", range(9), manager)
    admit(manager, request)
    decode(manager, request)
    outlook = manager.coordinator.outlooks["a"]
    for _ in range(2):
        assert decode(manager, request) is manager.empty_kv_cache_blocks
        assert manager.coordinator.outlooks["a"] is outlook, "the managers were not even asked"


def test_get_blocks_is_a_copy() -> None:
    manager = make_manager(full(4))
    request = make_request("a", range(4), manager)
    admit(manager, request)
    blocks = manager.get_blocks("a")
    decode(manager, request)
    assert blocks.get_block_ids() == ([1],)
    assert manager.get_blocks("a").get_block_ids() == ([1, 2],)
    assert manager.get_blocks("b") is manager.empty_kv_cache_blocks
    assert manager.get_block_ids("b") == ([],)


def test_requests_that_skip_the_cache_fill_it() -> None:
    manager = make_manager(full(4), log_stats=True)
    request = make_request("a", range(9), manager, skip_reading_prefix_cache=True)
    run_once(manager, range(9))
    assert manager.get_computed_blocks(request) == (manager.empty_kv_cache_blocks, 0)
    admit(manager, request)
    assert cached(manager) == [2]
    stats = manager.make_prefix_cache_stats()
    assert stats is not None
    assert stats.requests == 1, "only the one that asked"


def test_events_and_eviction() -> None:
    manager = make_manager(full(4), enable_kv_cache_events=True)
    lora = SimpleNamespace(adapter_id=3, name="sql")
    request = make_request("a", range(9), manager, lora_request=lora)
    admit(manager, request)
    (stored,) = manager.take_events()
    assert isinstance(stored, BlockStored)
    assert (stored.token_ids, stored.lora_id, stored.lora_name) == (list(range(8)), 3, "sql")
    assert manager.take_events() == []
    manager.evict_blocks({1})
    assert len(manager.take_events()) == 1
    assert manager.get_computed_blocks(make_request("b", range(9), manager, lora_request=lora))[1] == 0


def test_options_of_events_reach_the_pool() -> None:
    manager = make_manager(
        full(4),
        enable_kv_cache_events=True,
        int_block_hashes=False,
        event_granularity="last_copy",
        batch_removes=True,
        fingerprint="abc",
    )
    assert manager.block_pool.fingerprint == "abc"
    for name in "ab":  # the second copies the first's full blocks: it never looked them up
        admit(manager, make_request(name, range(9), manager, skip_reading_prefix_cache=True))
    manager.evict_blocks({1, 2, 4, 5})
    stored, removed = manager.take_event_log().events()
    assert isinstance(stored, BlockStored)
    assert isinstance(removed, BlockRemoved)
    assert sorted(removed.block_hashes) == sorted(stored.block_hashes)
    assert all(isinstance(block_hash, bytes) for block_hash in stored.block_hashes)
    assert manager.take_events() == []


def test_usage_and_options_reach_the_pool() -> None:
    collector = KVCacheMetricsCollector(sample_rate=1.0)
    manager = make_manager(full(4), num_blocks=11, metrics_collector=collector, reuse_uncached_first=True)
    assert manager.usage == 0.0
    request = make_request("a", range(17), manager)
    admit(manager, request)
    assert manager.usage == 0.5
    manager.free(request)
    for turn in range(20):
        run_once(manager, [1000 + turn])
    assert manager.get_computed_blocks(request)[1] == 16, "parts of blocks pushed out nothing"
    assert collector.drain_recycled()


def test_free_is_quiet_about_strangers() -> None:
    manager = make_manager(full(4), window(4, 8))
    manager.free(make_request("a", range(4), manager))
    manager.remove_skipped_blocks("a", 100)
    assert_all_given_back(manager)


# --- KVCacheBlocks


def test_blocks_join_and_compare() -> None:
    manager = make_manager(full(2), window(2, 9))
    request = make_request("a", range(6), manager)
    first = manager.allocate_slots(request, 3)
    request.num_computed_tokens = 3
    second = manager.allocate_slots(request, 3)
    assert first is not None
    assert second is not None
    both = first + second
    assert both == manager.get_blocks("a") == KVCacheBlocks(tuple(tuple(group) for group in both.blocks))
    assert both != first
    assert both != ((),)
    assert both.get_block_ids() == ([1, 2, 5], [3, 4, 6])
    assert first.new_empty() == manager.empty_kv_cache_blocks
    assert first.new_empty().get_block_ids(allow_none=True) is None
    assert first.get_block_ids(allow_none=True) == ([1, 2], [3, 4])
    assert repr(first) == "KVCacheBlocks(block_ids=([1, 2], [3, 4]))"
    with pytest.raises(ValueError, match="2 groups"):
        first + KVCacheBlocks(((),))
    with pytest.raises(ValueError, match="single group"):
        first.get_unhashed_block_ids()
    with pytest.raises(TypeError):
        hash(first)


def test_unhashed_blocks() -> None:
    manager = make_manager(full(2))
    admit(manager, make_request("a", range(5), manager))
    assert manager.get_blocks("a").get_unhashed_block_ids() == [3]

"""Hybrids: groups that must agree, and EAGLE, which takes one block from the hit whatever the number of groups."""

from __future__ import annotations

from typing import Any

import pytest

from blockpool.kv_cache import KVCacheSpec

from .support import admit, chunked, full, make_manager, make_request, mamba, run_once, sink, tables, window


@pytest.mark.parametrize(
    "specs",
    [
        [full(2)],
        [window(2, 5)],
        [chunked(2, 40)],
        [mamba(2)],
        [full(2), full(2)],
        [full(2), window(2, 5)],
        [full(2), mamba(2)],
        [window(2, 5), window(2, 9)],
        [full(2), window(2, 5), window(2, 9)],
        [full(2), window(2, 5), window(2, 9), window(2, 3), mamba(2)],
        [sink(2, 2), chunked(2, 40), window(2, 5)],
        [mamba(2), mamba(2, "all", 1)],
    ],
)
def test_eagle_drops_one_block_in_all(specs: list[KVCacheSpec]) -> None:
    lengths = []
    for use_eagle in (False, True):
        manager = make_manager(*specs, use_eagle=use_eagle, num_blocks=300)
        run_once(manager, range(40))
        found, length = manager.get_computed_blocks(make_request("a", range(41), manager))
        assert {len(blocks) * 2 for blocks in found.blocks} == {length}
        lengths.append(length)
    assert lengths == [40, 38]


def test_eagle_drops_no_more_when_groups_lower_each_other() -> None:
    """The window has lost block 7: it accepts 12 tokens, full attention all 20. Rounds cost nothing."""
    specs: list[KVCacheSpec] = [full(2), window(2, 3), window(2, 5), mamba(2)]
    for use_eagle, expected in ((False, 12), (True, 10)):
        manager = make_manager(*specs, use_eagle=use_eagle, num_blocks=100)
        request = make_request("a", range(21), manager)
        admit(manager, request)
        window_blocks = tables(manager, request)[1]
        manager.free(request)
        manager.evict_blocks(window_blocks[6:])
        assert manager.get_computed_blocks(make_request("b", range(21), manager))[1] == expected


def test_a_hit_is_a_multiple_of_all_block_sizes() -> None:
    manager = make_manager(full(4), window(6, 7), hash_block_size=2)
    run_once(manager, range(40))
    found, length = manager.get_computed_blocks(make_request("a", range(40), manager))
    assert length == 36
    assert [len(blocks) for blocks in found.blocks] == [9, 6]


def test_groups_share_the_pool_and_keep_tables_apart() -> None:
    manager = make_manager(full(2), window(2, 3), num_blocks=30)
    request = make_request("a", range(8), manager)
    assert admit(manager, request).get_block_ids() == ([1, 2, 3, 4], [5, 6, 7, 8])
    again = make_request("b", range(9), manager)
    computed, length = manager.get_computed_blocks(again)
    assert (computed.get_block_ids(), length) == (([1, 2, 3, 4], [0, 0, 0, 8]), 8)
    assert admit(manager, again).get_block_ids() == ([9], [10])
    assert tables(manager, again) == ([1, 2, 3, 4, 9], [0, 0, 0, 8, 10])
    assert manager.get_num_common_prefix_blocks("a") == [4, 0]


def test_freed_group_by_group_tail_first() -> None:
    manager = make_manager(full(2), window(2, 9), num_blocks=7)
    run_once(manager, range(6))
    queue: list[Any] = manager.block_pool.free_block_queue.get_all_free_blocks()
    assert [block.block_id for block in queue] == [3, 2, 1, 6, 5, 4]


def test_all_groups_hold_their_hits_before_any_takes_blocks() -> None:
    """The oldest free blocks are hits of the second group: external blocks of the first must not be taken from them."""
    manager = make_manager(full(2), full(2), num_blocks=9)
    request = make_request("a", range(5), manager)
    admit(manager, request)  # [1, 2, 3], [4, 5, 6]; 7 and 8 are blank
    manager.free(request)
    single = manager.coordinator.single_type_managers
    manager.block_pool.touch([manager.block_pool.blocks[i] for i in (1, 2)])
    taken = manager.block_pool.get_new_blocks(
        4
    )  # 7, 8, and the parts of blocks, 3 and 6: the hits are the oldest
    assert sorted(block.block_id for block in taken) == [3, 6, 7, 8]
    manager.block_pool.free_blocks(taken)
    manager.block_pool.free_blocks([manager.block_pool.blocks[i] for i in (2, 1)])
    again = make_request("b", range(8), manager)
    computed, length = manager.get_computed_blocks(again)
    assert computed.get_block_ids() == ([1, 2], [4, 5])
    assert manager.allocate_slots(again, 2, length, computed, num_external_computed_tokens=2) is not None
    assert tables(manager, again)[1][:2] == [4, 5]
    ids = [i for table in tables(manager, again) for i in table]
    assert len(ids) == len(set(ids)) == 8
    assert [len(one.req_to_blocks["b"]) for one in single] == [4, 4]


@pytest.mark.parametrize("lost", [None, 31, 32, 33, 96, 149])
def test_long_prompts_with_derived_hashes(lost: int | None) -> None:
    """Derived hashes are looked up in pieces of 32, 64, 128 … blocks; no seam shows."""
    manager = make_manager(full(4), hash_block_size=2, num_blocks=200)
    run_once(manager, range(600))
    if lost is not None:
        manager.evict_blocks([lost + 1])
    found, length = manager.get_computed_blocks(make_request("a", range(601), manager))
    expected = 150 if lost is None else lost
    assert found.get_block_ids() == (list(range(1, expected + 1)),)
    assert length == expected * 4

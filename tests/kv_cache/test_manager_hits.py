"""Computed blocks that `allocate_slots` must not take: stale ones, and those of a shape that no look-up returns."""

from __future__ import annotations

from typing import Any

import pytest

from blockpool import BlockStateError
from blockpool.core.block import KVCacheBlock
from blockpool.kv_cache import KVCacheBlocks, KVCacheManager

from .support import (
    admit,
    assert_refused,
    chunked,
    full,
    make_manager,
    make_request,
    mamba,
    run_once,
    tables,
    window,
)


def recycle(manager: KVCacheManager, wanted: KVCacheBlock) -> None:
    """Other prompts take blocks and go, until this one holds the content of one of them."""
    for turn in range(manager.block_pool.num_gpu_blocks):
        other = make_request(f"other {turn}", range(500 + 10 * turn, 504 + 10 * turn), manager)
        assert admit(manager, other) is not None
        found = wanted.block_id in tables(manager, other)[0]
        if found:
            manager.free(other)
            assert wanted.block_hash is not None
            return
    raise AssertionError("it was never taken")


def assert_stale(manager: KVCacheManager, group_id: int, position: int, num_tokens: int) -> None:
    """A block of a hit gets other content after the look-up: that is told."""
    request = make_request("late", [*range(num_tokens), 999], manager)
    computed, length = manager.get_computed_blocks(request)
    assert length == num_tokens
    block = computed.blocks[group_id][position]
    if block.ref_cnt == 0:
        recycle(manager, block)
    refused = assert_refused(
        manager, BlockStateError, lambda: manager.allocate_slots(request, 1, length, computed)
    )
    assert f"block {block.block_id}" in str(refused)
    assert "something else" in str(refused)


def test_the_head_of_a_hit_that_two_requests_computed() -> None:
    """They did so at the same time: the copy that is found first is recycled first, though it is the prompt's head."""
    manager = make_manager(full(4), num_blocks=6)
    short = make_request("short", range(4), manager)
    long = make_request("long", range(8), manager)
    assert manager.allocate_slots(short, 4) is not None
    assert manager.allocate_slots(long, 8) is not None
    manager.free(short)
    manager.free(long)
    assert_stale(manager, 0, 0, 8)


def test_the_first_block_of_a_window() -> None:
    """A running request has freed it earlier than those behind it."""
    manager = make_manager(window(4, 9), num_blocks=6)
    first = make_request("first", range(12), manager)
    assert admit(manager, first) is not None
    first.append_output_token_ids([50, 51, 52, 53])
    assert manager.allocate_slots(first, 4) is not None
    first.num_computed_tokens = 16
    first.append_output_token_ids(1)
    assert manager.allocate_slots(first, 1) is not None
    manager.free(first)
    assert_stale(manager, 0, 1, 12)


@pytest.mark.parametrize("position", [0, 1, 2])
def test_any_block_of_coarse_hashes(position: int) -> None:
    manager = make_manager(full(8), num_blocks=20, hash_block_size=4)
    run_once(manager, range(24))
    run_once(manager, range(100, 124), "another")
    request = make_request("late", range(25), manager)
    computed, length = manager.get_computed_blocks(request)
    others = manager.get_computed_blocks(make_request("o", range(100, 125), manager))[0].blocks[0]
    blocks = list(computed.blocks[0])
    blocks[position] = others[position]
    wrong = KVCacheBlocks((blocks,))
    assert_refused(manager, BlockStateError, lambda: manager.allocate_slots(request, 1, length, wrong))
    assert manager.allocate_slots(request, 1, length, computed) is not None


@pytest.mark.parametrize(
    "specs",
    [
        (full(4),),
        (window(4, 9),),
        (chunked(4, 16),),
        (mamba(4),),
        (full(4), window(4, 9)),
        (full(4), mamba(4)),
    ],
)
def test_null_blocks_where_attention_looks(specs: Any) -> None:
    manager = make_manager(*specs, num_blocks=30)
    run_once(manager, range(12))
    request = make_request("late", range(13), manager)
    computed, length = manager.get_computed_blocks(request)
    assert length == 12
    null_block = manager.block_pool.null_block
    for group_id, blocks in enumerate(computed.blocks):
        for position, block in enumerate(blocks):
            if block is not null_block:
                groups = [list(group) for group in computed.blocks]
                groups[group_id][position] = null_block
                wrong = KVCacheBlocks(tuple(groups))
                assert_refused(
                    manager,
                    BlockStateError,
                    lambda: manager.allocate_slots(request, 1, length, wrong),  # noqa: B023
                )
    assert manager.allocate_slots(request, 1, length, computed) is not None


def test_groups_that_are_swapped() -> None:
    manager = make_manager(full(4), window(4, 100), num_blocks=30)
    run_once(manager, range(12))
    request = make_request("late", range(13), manager)
    computed, length = manager.get_computed_blocks(request)
    wrong = KVCacheBlocks(computed.blocks[::-1])
    refused = assert_refused(
        manager, BlockStateError, lambda: manager.allocate_slots(request, 1, length, wrong)
    )
    assert "group 1" in str(refused)


def test_blocks_in_another_order() -> None:
    manager = make_manager(full(4), num_blocks=30)
    run_once(manager, range(12))
    request = make_request("late", range(13), manager)
    computed, length = manager.get_computed_blocks(request)
    wrong = KVCacheBlocks((computed.blocks[0][::-1],))
    assert_refused(manager, BlockStateError, lambda: manager.allocate_slots(request, 1, length, wrong))


def test_what_is_skipped_may_be_there() -> None:
    """A window's hit that names the blocks before the window, too: they are not held, but must be what they say."""
    manager = make_manager(window(4, 9), full(4), num_blocks=30)
    first = make_request("first", range(12), manager)
    assert admit(manager, first) is not None
    every = manager.get_blocks("first").blocks
    manager.free(first)
    request = make_request("late", range(13), manager)
    wrong = KVCacheBlocks(([every[1][0], *every[0][1:]], every[1]))
    assert_refused(manager, BlockStateError, lambda: manager.allocate_slots(request, 1, 12, wrong))
    assert manager.allocate_slots(request, 1, 12, KVCacheBlocks(every)) is not None
    assert tables(manager, request)[0][0] == 0

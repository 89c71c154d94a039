"""`KVCacheBlocks` made of what are no blocks."""

from __future__ import annotations

from typing import Any

import pytest

from blockpool import ArgumentError, ConfigError
from blockpool.core.block import KVCacheBlock
from blockpool.kv_cache import KVCacheBlocks

from .support import assert_refused, full, make_manager, make_request


@pytest.mark.parametrize(
    "blocks", [None, 5, "ab", [[], []], (5,), (None,), ("ab",), (b"ab",), ([], 5), ({1: 2},), (iter([]),)]
)
def test_no_tuple_of_sequences(blocks: Any) -> None:
    with pytest.raises(ArgumentError) as caught:
        KVCacheBlocks(blocks)
    assert caught.value.field == "blocks"
    manager = make_manager(full(4), num_blocks=9)
    assert_refused(manager, ArgumentError, lambda: manager.create_kv_cache_blocks(blocks))


def test_the_manager_wraps_blocks_and_keeps_what_is_empty() -> None:
    manager = make_manager(full(4), full(4), num_blocks=9)
    assert manager.create_kv_cache_blocks(([], [])) is manager.empty_kv_cache_blocks
    block = manager.block_pool.blocks[1]
    assert manager.create_kv_cache_blocks(([], [block])) == KVCacheBlocks(((), (block,)))


@pytest.mark.parametrize("strangers", [[5], [None], ["a"], (KVCacheBlock(1), 5)])
def test_sequences_of_something_else(strangers: Any) -> None:
    wrong = KVCacheBlocks((strangers,))
    for read in (wrong.get_block_ids, wrong.get_unhashed_block_ids, wrong.__repr__):
        with pytest.raises(ArgumentError) as caught:
            read()
        assert caught.value.field == "blocks"
    manager = make_manager(full(4), num_blocks=9)
    request = make_request("a", range(12), manager)
    num_computed = 4 * len(strangers)
    assert_refused(manager, ConfigError, lambda: manager.allocate_slots(request, 4, 0, wrong))
    if not isinstance(strangers[0], KVCacheBlock):
        assert_refused(
            manager, ArgumentError, lambda: manager.allocate_slots(request, 4, num_computed, wrong)
        )


@pytest.mark.parametrize("other", [None, 5, (), ([],)])
def test_joined_with_something_else(other: Any) -> None:
    with pytest.raises(ArgumentError) as caught:
        KVCacheBlocks(([],)) + other
    assert caught.value.field == "other"

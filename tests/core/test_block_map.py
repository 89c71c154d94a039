"""BlockHashToBlockMap: one bare block per key, several only when there are several."""

from collections.abc import Callable

import pytest

from blockpool import ArgumentError, BlockHashToBlockMap, KVCacheBlock

from .support import key

KEY_A = key(b"a" * 32, 0)
KEY_B = key(b"b" * 32, 0)
KEY_A1 = key(b"a" * 32, 1)


def filled(*block_ids: int) -> tuple[BlockHashToBlockMap, list[KVCacheBlock]]:
    index = BlockHashToBlockMap()
    blocks = [KVCacheBlock(i) for i in block_ids]
    for block in blocks:
        index.insert(KEY_A, block)
    return index, blocks


def test_an_empty_map() -> None:
    index = BlockHashToBlockMap()
    assert len(index) == 0
    assert index.get_one_block(KEY_A) is None
    assert index.pop(KEY_A, 1) is None


def test_one_block() -> None:
    index, (block,) = filled(1)
    assert index.get_one_block(KEY_A) is block
    assert index.get_one_block(KEY_B) is None
    assert len(index) == 1


def test_groups_are_apart() -> None:
    index, (block,) = filled(1)
    other = KVCacheBlock(2)
    assert index.get_one_block(KEY_A1) is None
    index.insert(KEY_A1, other)
    assert index.get_one_block(KEY_A1) is other
    assert index.get_one_block(KEY_A) is block
    assert len(index) == 2
    assert index.pop(KEY_A, 2) is None
    assert index.pop(KEY_A1, 2) is other
    assert index.get_one_block(KEY_A) is block


def test_the_first_inserted_is_found_when_several() -> None:
    index, blocks = filled(7, 3, 5)
    assert index.get_one_block(KEY_A) is blocks[0]
    assert len(index) == 1


def test_popping_the_first_leaves_the_next() -> None:
    index, blocks = filled(7, 3, 5)
    assert index.pop(KEY_A, 7) is blocks[0]
    assert index.get_one_block(KEY_A) is blocks[1]
    assert index.pop(KEY_A, 5) is blocks[2]
    assert index.get_one_block(KEY_A) is blocks[1]
    assert len(index) == 1
    assert index.pop(KEY_A, 3) is blocks[1]
    assert len(index) == 0
    assert index.get_one_block(KEY_A) is None


@pytest.mark.parametrize("block_ids", [(1,), (1, 2)])
def test_pop_of_another_id_loses_nothing(block_ids: tuple[int, ...]) -> None:
    index, blocks = filled(*block_ids)
    assert index.pop(KEY_A, 99) is None
    assert index.pop(KEY_A, -1) is None
    assert index.pop(KEY_A, 2**70) is None
    assert index.get_one_block(KEY_A) is blocks[0]
    assert [index.pop(KEY_A, block_id) for block_id in block_ids] == blocks


def test_pop_of_an_unknown_key_loses_nothing() -> None:
    index, (block,) = filled(1)
    assert index.pop(KEY_B, 1) is None
    assert index.get_one_block(KEY_A) is block


def test_a_key_can_come_back_after_it_is_emptied() -> None:
    index, blocks = filled(1, 2)
    index.pop(KEY_A, 1)
    index.pop(KEY_A, 2)
    index.insert(KEY_A, blocks[1])
    assert index.get_one_block(KEY_A) is blocks[1]
    assert len(index) == 1


def test_a_block_inserted_twice_is_there_once() -> None:
    index, (block,) = filled(1)
    index.insert(KEY_A, block)
    assert len(index) == 1
    assert index.pop(KEY_A, 1) is block
    assert index.get_one_block(KEY_A) is None
    assert len(index) == 0


def test_keys_of_every_hash_length() -> None:
    index = BlockHashToBlockMap()
    blocks = {length: KVCacheBlock(length) for length in (16, 32, 64, 320)}
    for length, block in blocks.items():
        index.insert(key(b"x" * length), block)
    assert len(index) == 4
    for length, block in blocks.items():
        assert index.get_one_block(key(b"x" * length)) is block


def test_the_cache_view_holds_a_bare_block_until_there_are_two() -> None:
    index, blocks = filled(4)
    assert index._cache[KEY_A] is blocks[0]
    second = KVCacheBlock(6)
    index.insert(KEY_A, second)
    assert index._cache[KEY_A] == {4: blocks[0], 6: second}
    assert len(index._cache) == 1
    assert KEY_A in index._cache
    assert KEY_B not in index._cache


def test_the_cache_view_writes_through() -> None:
    """vLLM's own tests read, pop from and clear it."""
    index, (block,) = filled(4)
    index.insert(KEY_A1, block)
    view = index._cache
    assert dict(view) == {KEY_A: block, KEY_A1: block}
    assert view.get(KEY_B) is None
    assert repr(view) == repr(dict(view))
    assert view.pop(KEY_A1) is block
    assert index.get_one_block(KEY_A1) is None
    with pytest.raises(KeyError):
        del view[KEY_B]
    with pytest.raises(KeyError):
        view[KEY_B]
    second = KVCacheBlock(6)
    view[KEY_B] = second
    assert index.get_one_block(KEY_B) is second
    view[KEY_B] = {4: block, 6: second}
    assert index.pop(KEY_B, 4) is block
    assert index.get_one_block(KEY_B) is second
    index._cache.clear()
    assert len(index) == len(view) == 0
    assert index.get_one_block(KEY_A) is None


def test_the_cache_view_is_live() -> None:
    index, _ = filled(4)
    view = index._cache
    index.insert(KEY_B, KVCacheBlock(5))
    assert set(view) == {KEY_A, KEY_B}
    assert len(view) == 2


@pytest.mark.parametrize(
    "call",
    [
        lambda index: index.get_one_block(5),
        lambda index: index.get_one_block("a"),
        lambda index: index.get_one_block(None),
        lambda index: index.insert("a", KVCacheBlock(1)),
        lambda index: index.insert(KEY_B, 1),
        lambda index: index.insert(KEY_B, None),
        lambda index: index.pop(7, 1),
        lambda index: index.pop(KEY_A, "1"),
        lambda index: index.pop(KEY_A, None),
        lambda index: index.pop(KEY_A, 1.0),
    ],
)
def test_wrong_types(call: Callable[[BlockHashToBlockMap], None]) -> None:
    index, (block,) = filled(1)
    with pytest.raises(ArgumentError):
        call(index)
    assert len(index) == 1
    assert index.get_one_block(KEY_A) is block

"""BlockHashToBlockMap: one bare block per key, several only when there are several. On both kinds of index."""

import copy
from collections.abc import Callable

import pytest

from blockpool import ArgumentError, BlockHashToBlockMap, KVCacheBlock
from blockpool.core.dict_index import DictIndex
from blockpool.core.packed_index import PackedIndex

from .index_support import MAPS
from .support import key

KEY_A = key(b"a" * 32, 0)
KEY_B = key(b"b" * 32, 0)
KEY_A1 = key(b"a" * 32, 1)


class Scene:
    """The kind of map that the test at hand is about, and the blocks that a packed one resolves its ids by."""

    kind: str
    blocks: list[KVCacheBlock]


@pytest.fixture(params=MAPS, autouse=True)
def kind(request: pytest.FixtureRequest) -> str:
    Scene.kind = request.param
    Scene.blocks = [KVCacheBlock(i) for i in range(400)]
    return Scene.kind


def new_map() -> BlockHashToBlockMap:
    return MAPS[Scene.kind](Scene.blocks)


def block_of(block_id: int, full_key: bytes = KEY_A) -> KVCacheBlock:
    """That block, carrying that key."""
    block = Scene.blocks[block_id]
    block.block_hash = full_key  # type: ignore[assignment]
    return block


def filled(*block_ids: int) -> tuple[BlockHashToBlockMap, list[KVCacheBlock]]:
    index = new_map()
    blocks = [block_of(i) for i in block_ids]
    for block in blocks:
        index.insert(KEY_A, block)
    return index, blocks


def test_an_empty_map() -> None:
    index = new_map()
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
    other = block_of(2, KEY_A1)
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


def test_duplicates_are_counted() -> None:
    index, _ = filled(4, 6, 5)
    index.insert(KEY_A1, block_of(7, KEY_A1))
    assert (len(index), index.num_duplicates()) == (2, 2)
    for number, left in ((9, 2), (4, 1), (5, 0), (6, 0), (7, 0)):
        index.pop(KEY_A, number)
        assert index.num_duplicates() == left
    assert len(index) == 1


def test_a_dict_that_lost_count_is_damaged() -> None:
    index = DictIndex()
    index.insert(b"a", KVCacheBlock(1))
    index.insert(b"a", KVCacheBlock(2))
    assert index.damage() is None
    several = index.entry(b"a")
    assert isinstance(several, dict)
    del several[2]
    assert index.damage() == "1 later blocks are counted, 0 are there"
    several.clear()
    assert index.damage() == "nothing is under 61"


def test_a_block_inserted_twice_is_there_once() -> None:
    index, (block,) = filled(1)
    index.insert(KEY_A, block)
    assert len(index) == 1
    assert index.pop(KEY_A, 1) is block
    assert index.get_one_block(KEY_A) is None
    assert len(index) == 0


def test_keys_of_every_hash_length() -> None:
    index = new_map()
    blocks = {length: block_of(length, key(b"x" * length)) for length in (16, 32, 64, 320)}
    for length, block in blocks.items():
        index.insert(key(b"x" * length), block)
    assert len(index) == 4
    for length, block in blocks.items():
        assert index.get_one_block(key(b"x" * length)) is block


def test_the_cache_view_holds_a_bare_block_until_there_are_two() -> None:
    index, blocks = filled(4)
    assert index._cache[KEY_A] is blocks[0]
    second = block_of(6)
    index.insert(KEY_A, second)
    assert index._cache[KEY_A] == {4: blocks[0], 6: second}
    assert len(index._cache) == 1
    assert KEY_A in index._cache
    assert KEY_B not in index._cache


def test_a_copy_of_the_cache_view_stays_as_it_was() -> None:
    index, blocks = filled(4)
    kept = copy.copy(index._cache)
    assert kept == index._cache
    del index._cache[KEY_A]
    assert kept[KEY_A] is blocks[0]


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
    assert index.num_duplicates() == 1
    view[KEY_B] = second
    assert index.num_duplicates() == 0
    view[KEY_B] = {4: block, 6: second}
    assert index.pop(KEY_B, 4) is block
    assert index.num_duplicates() == 0
    view[KEY_B] = {4: block, 6: second}
    del view[KEY_B]
    assert index.num_duplicates() == 0
    view[KEY_B] = {6: second}
    assert index.get_one_block(KEY_B) is second
    index._cache.clear()
    assert len(index) == len(view) == 0
    assert index.get_one_block(KEY_A) is None


def test_the_cache_view_is_live() -> None:
    index, _ = filled(4)
    view = index._cache
    index.insert(KEY_B, block_of(5, KEY_B))
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


def test_the_groups_are_of_the_kind_that_was_asked_for(kind: str) -> None:
    index, _ = filled(1)
    wanted = {"dict": DictIndex, "packed": PackedIndex}[kind]
    assert isinstance(index.group(0), wanted)
    assert isinstance(index.emptied().group(0), wanted)
    assert len(index.emptied()) == 0


def a_stranger() -> KVCacheBlock:
    stranger = KVCacheBlock(1)
    stranger.block_hash = KEY_B  # type: ignore[assignment]
    return stranger


@pytest.mark.parametrize(
    "make", [a_stranger, lambda: KVCacheBlock(1000), lambda: Scene.blocks[9], lambda: block_of(9, KEY_A1)]
)
def test_any_block_can_stand_under_any_key(make: Callable[[], KVCacheBlock]) -> None:
    """What a packed index cannot hold turns that group, and no other, into a dict; nothing is lost."""
    index, blocks = filled(7, 3, 5)
    index.insert(KEY_A1, block_of(2, KEY_A1))
    single = block_of(4, key(b"c" * 32))
    index.insert(key(b"c" * 32), single)
    guest = make()
    index.insert(KEY_B, guest)
    assert index.get_one_block(KEY_B) is guest
    assert index.get_one_block(key(b"c" * 32)) is single
    assert [index.pop(KEY_A, block.block_id) for block in blocks] == blocks
    assert len(index) == 3
    assert isinstance(index.group(0), DictIndex)
    assert isinstance(index.group(1), type(new_map().group(1)))


def test_the_longest_prefix_ends_at_the_first_miss() -> None:
    """For each length, on both kinds in both builds: what was found before the miss is kept."""
    index = new_map()
    hashes: list[object] = [bytes([i]) * 32 for i in range(150)]
    blocks = [block_of(i, key(bytes([i]) * 32)) for i in range(140)]
    for block in blocks:
        assert block.block_hash is not None
        index.insert(block.block_hash, block)
    group = index.find_group(0)
    for start in (0, 1, 20, 132, 139, 140):
        assert group.longest_prefix(hashes[start:]) == blocks[start:]
    assert group.longest_prefix([*hashes[:3], bytes(31), 5]) == blocks[:3]
    with pytest.raises(ArgumentError, match="bytes"):
        group.longest_prefix([*hashes[:3], 5])
    with pytest.raises(ArgumentError, match="bytes"):
        group.longest_prefix([*hashes[:100], 5, *hashes[:3]])

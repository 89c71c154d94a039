"""KVCacheBlock: its attributes, the hash that is never overwritten, identity and repr."""

import sys

import pytest

from blockpool import BlockStateError, FreeKVCacheBlockQueue, HashAlreadySetError, KVCacheBlock

from .support import key

KEY_A = key(b"a" * 32)
KEY_B = key(b"b" * 32, 7)


def test_a_new_block_is_blank() -> None:
    block = KVCacheBlock(5)
    assert block.block_id == 5
    assert block.ref_cnt == 0
    assert block.block_hash is None
    assert block.prev_free_block is None
    assert block.next_free_block is None
    assert block.is_null is False


def test_block_id_is_a_keyword_too() -> None:
    assert KVCacheBlock(block_id=3).block_id == 3


def test_hash_is_set_once() -> None:
    block = KVCacheBlock(0)
    block.block_hash = KEY_A
    assert block.block_hash == KEY_A
    with pytest.raises(HashAlreadySetError) as caught:
        block.block_hash = KEY_B
    assert block.block_hash == KEY_A
    assert caught.value.block_id == 0
    assert isinstance(caught.value, AssertionError)
    assert isinstance(caught.value, BlockStateError)


def test_even_the_same_hash_is_refused() -> None:
    block = KVCacheBlock(9)
    block.block_hash = KEY_A
    with pytest.raises(HashAlreadySetError):
        block.block_hash = KEY_A


def test_life_runs_unset_set_reset_set() -> None:
    block = KVCacheBlock(0)
    block.block_hash = KEY_A
    block.reset_hash()
    assert block.block_hash is None
    block.block_hash = KEY_B
    assert block.block_hash == KEY_B


def test_reset_of_a_blank_block_is_harmless() -> None:
    block = KVCacheBlock(0)
    block.reset_hash()
    assert block.block_hash is None


@pytest.mark.parametrize("wrong", [5, "text", [1]])
def test_a_hash_is_bytes(wrong: object) -> None:
    block = KVCacheBlock(0)
    with pytest.raises(TypeError):
        block.block_hash = wrong  # type: ignore[assignment]
    assert block.block_hash is None


def test_equality_and_hash_are_by_identity() -> None:
    one, twin = KVCacheBlock(1), KVCacheBlock(1)
    assert one != twin
    assert one == one
    assert len({one, twin}) == 2


def test_repr_shows_the_ids_of_the_neighbours() -> None:
    blocks = [KVCacheBlock(i) for i in range(3)]
    queue = FreeKVCacheBlockQueue(blocks)
    text = repr(blocks[1])
    assert "block_id=1" in text
    assert "prev_free_block=0" in text
    assert "next_free_block=2" in text
    assert text.count("KVCacheBlock(") == 1
    assert queue.num_free_blocks == 3


def test_blocks_that_outlive_their_queue_have_no_neighbours() -> None:
    blocks = [KVCacheBlock(i) for i in range(3)]
    queue = FreeKVCacheBlockQueue(blocks)
    before = [sys.getrefcount(block) for block in blocks]
    del queue
    assert [block.prev_free_block for block in blocks] == [None] * 3
    assert [block.next_free_block for block in blocks] == [None] * 3
    # Each was referred to by two neighbours: what nobody refers to is gone at once, in both builds.
    assert [sys.getrefcount(block) for block in blocks] == [count - 2 for count in before]


def test_repr_of_a_block_without_neighbours() -> None:
    text = repr(KVCacheBlock(4))
    assert "block_id=4" in text
    assert "prev_free_block=None" in text
    assert "next_free_block=None" in text
    assert "ref_cnt=0" in text


def test_repr_shows_the_hash() -> None:
    block = KVCacheBlock(4)
    block.block_hash = KEY_A
    assert repr(KEY_A) in repr(block)


def test_is_null_can_be_set() -> None:
    """The pool sets it once; as an attribute it works on any block."""
    block = KVCacheBlock(3)
    block.is_null = True
    assert block.is_null is True
    block.is_null = False
    assert block.is_null is False


def test_the_private_name_of_the_hash_can_be_read() -> None:
    """vLLM's own tests read it."""
    block = KVCacheBlock(3)
    assert block._block_hash is None
    block.block_hash = KEY_B
    assert block._block_hash == KEY_B


@pytest.mark.parametrize("block_id", ["1", None, 1.5])
def test_a_block_id_is_an_integer(block_id: object) -> None:
    with pytest.raises(TypeError):
        KVCacheBlock(block_id)  # type: ignore[arg-type]


def test_blocks_are_slotted() -> None:
    block = KVCacheBlock(0)
    assert not hasattr(block, "__dict__")
    with pytest.raises(AttributeError):
        block.colour = "red"  # type: ignore[attr-defined]

"""Whose a block is, and the errors for blocks that a call cannot take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from mypy_extensions import i64

from blockpool.core.arguments import as_int, as_list
from blockpool.core.block import NOBODY, OWNER_MASK, KVCacheBlock
from blockpool.errors import ArgumentError, BlockPoolError, BlockStateError, HashAlreadySetError


def require_own(field: str, items: list[object], owner: i64) -> None:
    """Checks that all items are blocks of the owner. Written for the interpreted build: a wrong type shows by itself.

    Raises:
        ArgumentError: For what is no block.
        BlockStateError: For a block of another pool.
    """
    try:
        for block in cast("list[KVCacheBlock]", items):
            if block._home != owner and not is_own(block, owner):
                raise not_own(field, block)
    except (AttributeError, TypeError):
        raise not_own(field, items[first_stranger(items)]) from None


def first_stranger(items: Sequence[object]) -> int:
    """Position of the first item that is no block; there must be one."""
    for position, item in enumerate(items):
        if not isinstance(item, KVCacheBlock):
            return position
    raise AssertionError("all items are blocks")


def is_own_null(item: object, owner: i64) -> bool:
    """Whether it is the null block of that owner."""
    return isinstance(item, KVCacheBlock) and item._home < 0 and -item._home & OWNER_MASK == owner


def is_own(block: KVCacheBlock, owner: i64) -> bool:
    """Whether it is a block of that owner, of whatever group, or its null block."""
    home = block._home
    return (-home if home < 0 else home) & OWNER_MASK == owner


def not_own(field: str, item: object) -> BlockPoolError:
    """For what is no block, or not a block of this pool."""
    if not isinstance(item, KVCacheBlock):
        return ArgumentError(field, item, "a KVCacheBlock is needed")
    return BlockStateError(item.block_id, "a block of this pool", "it is not one of its blocks")


def cannot_index(block: KVCacheBlock, block_hash: object) -> BlockPoolError:
    """For a block that has a hash already, or whose hash to be is none."""
    if not isinstance(block_hash, bytes):
        return ArgumentError("block_hashes", block_hash, "bytes are needed")
    return HashAlreadySetError(block.block_id, "no hash", "it has one, or is listed twice")


def cannot_free(block: KVCacheBlock, num_listed: int) -> BlockPoolError:
    """For a block that is listed more often than it is held."""
    found = f"it is held {block.ref_cnt} times and listed {num_listed} times"
    return BlockStateError(block.block_id, "held as often as it is listed", found)


def cannot_leave(block: KVCacheBlock) -> BlockPoolError:
    """For a block that is not in the free queue it is to be taken from."""
    return BlockStateError(block.block_id, "in this free queue", "it is not")


def cannot_join(item: object, owner: i64) -> BlockPoolError:
    """For what cannot be put into the free queue of that owner."""
    if not isinstance(item, KVCacheBlock):
        return ArgumentError("blocks", item, "a KVCacheBlock is needed")
    if item.block_id < 0:
        return BlockStateError(item.block_id, "a block of a pool", "it is a sentinel")
    if item.is_null:
        return BlockStateError(item.block_id, "a block that can be handed out", "it is the null block")
    if item._home & OWNER_MASK in (owner, NOBODY):
        return BlockStateError(item.block_id, "not in a queue", "it is in one, or listed twice")
    return BlockStateError(item.block_id, "a block of this queue", "it belongs to another")


def cannot_copy(kind: str) -> BlockPoolError:
    """For an attempt to copy or pickle what has an identity."""
    return ArgumentError("self", kind, "it belongs together with its pool and cannot be copied or pickled")


def blocks_by_id(blocks: Sequence[KVCacheBlock], block_ids: object) -> list[KVCacheBlock]:
    """The blocks of a pool that have these ids.

    Raises:
        ArgumentError: If something is no integer.
        BlockStateError: If the pool has no such block; it names the id.
    """
    found: list[KVCacheBlock] = []
    for value in as_list("block_ids", block_ids):
        block_id = as_int("block_ids", value)
        if not 0 <= block_id < len(blocks):
            raise no_such_block(block_id, len(blocks))
        found.append(blocks[block_id])
    return found


def no_such_block(block_id: int, num_blocks: int) -> BlockPoolError:
    """For an id that the pool does not have."""
    return BlockStateError(block_id, f"an id in 0 … {num_blocks - 1}", "there is no such block")

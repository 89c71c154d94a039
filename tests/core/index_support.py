"""Both kinds of index, side by side for the tests: maps, pools, hashes that meet in the packed table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from blockpool import BlockHashToBlockMap, BlockPool, KVCacheBlock
from blockpool.core.hash_mixer import SEED_BYTES
from blockpool.core.packed_index import PackedIndex

PLAIN_SEED = bytes(SEED_BYTES)
"""With it the factors are 1: the mixed hash is the last word, or the sum of the four, folded."""

MAPS: dict[str, Callable[[list[KVCacheBlock]], BlockHashToBlockMap]] = {
    "dict": lambda blocks: BlockHashToBlockMap(),
    "packed": lambda blocks: BlockHashToBlockMap(blocks, PLAIN_SEED),
}


def pool_with(kind: str, *args: Any, **options: Any) -> BlockPool:
    """A pool whose index is of that kind."""
    pool = BlockPool(*args, **options)
    pool.cached_block_hash_to_block = MAPS[kind](pool._store.made)
    return pool


def meeting_hash(home: int, number: int) -> bytes:
    """A hash whose search starts at slot `home` of 16 under the plain seed. All of one home share all mixed bits."""
    words = (-number, number, 0, home << 60)
    return b"".join((value % 2**64).to_bytes(8, "little") for value in words)


def hashed(blocks: list[KVCacheBlock], block_id: int, block_hash: bytes) -> KVCacheBlock:
    """That block, carrying that hash in group 0."""
    block = blocks[block_id]
    block.reset_hash()
    block.block_hash = block_hash + bytes(4)  # type: ignore[assignment]
    return block


def searches(index: PackedIndex) -> list[int]:
    """How many slots a search passes before it finds each hash."""
    table = list(index._table)
    passed = []
    for slot, entry in enumerate(table):
        if entry != 0:
            home = (entry & (2**62 - 1)) >> index._shift
            passed.append((slot - home) % len(table))
    return passed

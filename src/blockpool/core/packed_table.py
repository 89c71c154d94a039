"""The slots of a packed index: what one holds, and how entries move between them."""

from __future__ import annotations

from typing import Final

from librt.vecs import vec
from mypy_extensions import i32, i64

from blockpool.core.block import KVCacheBlock
from blockpool.core.hash_mixer import POSITIVE, HashMixer

TAG: Final = 0x3FFFFFFF80000000
"""The bits of a slot that are the upper ones of the mixed hash."""

NUMBER: Final = 0x7FFFFFFF
"""The bits that are block id + 1."""

MOST_STEPS: Final = 96
"""A search this long has a chance of 1 in 100 million where hashes are random and the table is half full."""


def spread(old: vec[i64], size: i64, shift: i64, slots: vec[i32]) -> vec[i64]:
    """The entries of a table in a new one of that size; they tell themselves where to. O(size).

    Args:
        slots: By block id; takes where the entry of a block stands now.
    """
    table = vec[i64]([0] * size)
    last_slot = size - 1
    for entry in old:
        if entry != 0:
            slot = (entry & POSITIVE) >> shift
            while table[slot] != 0:
                slot = (slot + 1) & last_slot
            table[slot] = entry
            slots[(entry & NUMBER) - 1] = i32(slot)
    return table


def mixed_anew(
    old: vec[i64], shift: i64, mixer: HashMixer, blocks: list[KVCacheBlock], slots: vec[i32]
) -> vec[i64]:
    """As `spread` to the same size, with the tags that the mixer gives now. O(size)."""
    table = vec[i64]([0] * len(old))
    last_slot: i64 = len(table) - 1
    for entry in old:
        if entry != 0:
            block_hash = blocks[(entry & NUMBER) - 1]._hash
            mixed = mixer.mix(b"" if block_hash is None else block_hash)
            slot = mixed >> shift
            while table[slot] != 0:
                slot = (slot + 1) & last_slot
            kept = (mixed & TAG) | (entry & NUMBER)
            table[slot] = kept if entry > 0 else kept - POSITIVE - 1
            slots[(entry & NUMBER) - 1] = i32(slot)
    return table


def clear_slot(table: vec[i64], shift: i64, slots: vec[i32], slot: i64) -> None:
    """Empties a slot, and moves entries back that a search would no longer reach."""
    last_slot: i64 = len(table) - 1
    hole = slot
    while True:
        slot = (slot + 1) & last_slot
        entry = table[slot]
        if entry == 0:
            break
        home = (entry & POSITIVE) >> shift
        if (slot - home) & last_slot >= (slot - hole) & last_slot:
            table[hole] = entry
            slots[(entry & NUMBER) - 1] = i32(hole)
            hole = slot
    table[hole] = 0


def read_ahead(blocks: list[KVCacheBlock], start: i64, stop: i64, table: vec[i64], slots: vec[i32]) -> i64:
    """Reads the slots and the hashes of `blocks[start:stop]`, so that what is in no near cache comes all at once.

    Returns:
        Something of all that was read: what nobody uses, the C compiler would not read.
    """
    seen: i64 = 0
    num_known: i64 = len(slots)
    for position in range(start, stop):
        block = blocks[position]
        block_hash = block._hash
        block_id = i64(block.block_id)
        if block_hash is not None and block_id < num_known:
            seen ^= table[i64(slots[block_id])] ^ i64(len(block_hash))
    return seen

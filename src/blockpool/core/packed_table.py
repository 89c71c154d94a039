"""The slots of a packed index: what one holds, and how all of them move to a new table."""

from __future__ import annotations

from typing import Final

from librt.vecs import vec
from mypy_extensions import i64

from blockpool.core.block import KVCacheBlock
from blockpool.core.hash_mixer import POSITIVE, HashMixer

TAG: Final = 0x3FFFFFFF80000000
"""The bits of a slot that are the upper ones of the mixed hash."""

NUMBER: Final = 0x7FFFFFFF
"""The bits that are block id + 1."""


def spread(old: vec[i64], size: i64, shift: i64) -> vec[i64]:
    """The entries of a table in a new one of that size; they tell themselves where to. O(size)."""
    table = vec[i64]([0] * size)
    last_slot = size - 1
    for entry in old:
        if entry != 0:
            slot = (entry & POSITIVE) >> shift
            while table[slot] != 0:
                slot = (slot + 1) & last_slot
            table[slot] = entry
    return table


def mixed_anew(old: vec[i64], shift: i64, mixer: HashMixer, blocks: list[KVCacheBlock]) -> vec[i64]:
    """The entries of a table in a new one of the same size, with the tags that the mixer gives now. O(size)."""
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
    return table

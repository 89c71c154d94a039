"""What a packed index does with runs of blocks, in pieces that ask for their memory at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from mypy_extensions import i32, i64

from blockpool.core.block import OWNER_MASK, KVCacheBlock
from blockpool.core.hash_mixer import PIECE, PIECE_MASK, smaller_of
from blockpool.core.packed_table import MOST_STEPS, NUMBER, TAG, clear_slot, read_ahead
from blockpool.core.refusals import cannot_index, is_own_null, not_own
from blockpool.errors import ArgumentError

if TYPE_CHECKING:
    from blockpool.core.packed_index import PackedIndex

FIRST_PIECE: Final = 8
"""So many hashes are mixed before a look-up knows whether there is a hit at all."""


def longest_prefix(index: PackedIndex, block_hashes: list[object]) -> list[KVCacheBlock]:
    """`PackedIndex.longest_prefix`."""
    table = index._table
    shift = index._shift
    last_slot: i64 = len(table) - 1
    blocks = index._blocks
    found: list[KVCacheBlock] = []
    mixer = index._mixer
    piece = mixer.piece
    position: i64 = 0
    mixed_to: i64 = 0
    size: i64 = FIRST_PIECE
    try:
        for block_hash in cast("list[bytes]", block_hashes):
            if position == mixed_to:
                mixed_to = mixer.mix_run(block_hashes, position, position + size, table, shift)
                if mixed_to == position:
                    raise TypeError
                size = PIECE
            mixed = piece[position & PIECE_MASK]
            position += 1
            slot = mixed >> shift
            entry = table[slot]
            while entry != 0:
                if (entry ^ mixed) & TAG == 0:
                    block = blocks[(entry & NUMBER) - 1]
                    own_hash = block._hash
                    if own_hash is not None and own_hash == block_hash:
                        found.append(block)
                        break
                slot = (slot + 1) & last_slot
                entry = table[slot]
            if entry == 0:
                break
    except TypeError:  # how both builds tell what is no hash
        raise ArgumentError("block_hashes", block_hashes[len(found)], "bytes are needed") from None
    return found


def insert_range(
    index: PackedIndex,
    blocks: list[object],
    start: int,
    stop: int,
    block_hashes: list[object],
    first: int,
    home: i64,
) -> int:
    """`PackedIndex.insert_range`."""
    index._reserve(stop - start)
    table = index._table
    shift = index._shift
    slots = index._slots
    last_slot: i64 = len(table) - 1
    num_known: i64 = len(slots)
    num_idle: i64 = 0
    num_slots: i64 = 0
    offset: i64 = first
    owner = home & OWNER_MASK
    mixer = index._mixer
    piece = mixer.piece
    mixed_to: i64 = i64(start) - offset
    for position in range(i64(start), i64(stop)):
        if position - offset == mixed_to:
            if index._crowded:
                index._num_slots_used += num_slots
                num_slots = 0
                index._strengthen()
                table = index._table
                slots = index._slots
            end = smaller_of(mixed_to + PIECE, i64(stop) - offset)
            mixed_to = mixer.mix_run(block_hashes, mixed_to, end, table, shift)
            if mixed_to == position - offset:  # no hash: it is refused below, if its block is no null block
                mixed_to += 1
        block = blocks[position]
        if not isinstance(block, KVCacheBlock) or block._home & OWNER_MASK != owner:
            if is_own_null(block, owner):
                continue
            index._num_slots_used += num_slots
            index._remove_range(blocks, start, position)
            raise not_own("blocks", block)
        block_hash = block_hashes[position - offset]
        if block._hash is not None or not isinstance(block_hash, bytes):
            index._num_slots_used += num_slots
            index._remove_range(blocks, start, position)
            raise cannot_index(block, block_hash)
        block._home = home
        block._hash = block_hash
        mixed = piece[(position - offset) & PIECE_MASK]
        first_slot = mixed >> shift
        slot = first_slot
        entry = table[slot]
        while entry != 0 and (entry ^ mixed) & TAG != 0:
            slot = (slot + 1) & last_slot
            entry = table[slot]
        if entry == 0 and (slot - first_slot) & last_slot <= MOST_STEPS:
            block_id = i64(block.block_id)
            table[slot] = (mixed & TAG) | (block_id + 1)
            if block_id < num_known:
                slots[block_id] = i32(slot)
            num_slots += 1
        else:
            index._insert(block_hash, block, mixed, first_slot)
        if block.ref_cnt == 0:
            num_idle += 1
    index._num_slots_used += num_slots
    if index._crowded:
        index._strengthen()
    return num_idle


def evict(
    index: PackedIndex, blocks: list[KVCacheBlock], start: int, home: i64, dropped: list[object] | None
) -> tuple[int, int]:
    """`PackedIndex.evict`."""
    index._know_blocks()
    table = index._table
    shift = index._shift
    slots = index._slots
    last_slot: i64 = len(table) - 1
    num_known: i64 = len(slots)
    num_blocks: i64 = len(blocks)
    position: i64 = start
    read_to = position
    num_dropped: i64 = 0
    num_cleared: i64 = 0
    while position < num_blocks:
        if position == read_to:
            read_to = smaller_of(position + PIECE, num_blocks)
            index._seen = read_ahead(blocks, position, read_to, table, slots)
        block = blocks[position]
        if block._hash is not None:
            if block._home != home:
                break
            block_id = i64(block.block_id)
            slot: i64 = 0
            if block_id < num_known:
                slot = i64(slots[block_id])
            entry = table[slot]
            if entry > 0 and entry & NUMBER == block_id + 1:
                if table[(slot + 1) & last_slot] == 0:
                    table[slot] = 0
                else:
                    clear_slot(table, shift, slots, slot)
                num_cleared += 1
            elif index.pop(block._hash, block.block_id) is None:
                position += 1
                continue
            if dropped is not None:
                dropped.append(block._hash)
            block._hash = None
            num_dropped += 1
        position += 1
    index._num_slots_used -= num_cleared
    return position, num_dropped

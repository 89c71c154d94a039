"""What a packed index is checked for, beside what `GroupIndex` shows of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from blockpool.core.packed_table import NUMBER

if TYPE_CHECKING:
    from blockpool.core.packed_index import PackedIndex


def damage_of(index: PackedIndex) -> str | None:
    """What is wrong; None if every entry stands where its block and that one's hash lead to, and the counts agree."""
    for entry in index._table:
        if (entry & NUMBER) > len(index._blocks):
            return f"a slot names block {(entry & NUMBER) - 1}"
    num_used = 0
    num_several = 0
    for slot in range(len(index._table)):
        entry = index._table[slot]
        if entry == 0:
            continue
        num_used += 1
        block = index._block_at(slot)
        block_hash = block._hash
        if block_hash is None or index._slot_of(block_hash) != slot:
            return f"the hash of block {block.block_id} does not lead to its slot {slot}"
        if int(index._slots[i64(block.block_id)]) != slot:
            return f"block {block.block_id} does not know its slot {slot}"
        if entry < 0:
            num_several += 1
            if block.block_id in index._later.get(block_hash, {block.block_id: block}):
                return f"the later blocks under the hash of block {block.block_id} are not right"
    num_later = sum([len(later) for later in index._later.values()])
    if num_used != index._num_slots_used or num_used > len(index._table) // 2:
        return f"{num_used} of {len(index._table)} slots are used, {index._num_slots_used} are counted"
    if num_several != len(index._later) or num_later != index._num_later:
        return f"{num_later} later blocks under {len(index._later)} hashes; {index._num_later} are counted"
    return None

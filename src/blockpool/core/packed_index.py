"""`PackedIndex`: the index of one group as a table of integers. What a compiled build uses for a pool."""

from __future__ import annotations

from typing import Final, final

from librt.vecs import append, vec
from mypy_extensions import i32, i64

from blockpool.core.block import KVCacheBlock
from blockpool.core.group_index import Entry, GroupIndex
from blockpool.core.hash_mixer import MIXED_BITS, POSITIVE, HashMixer
from blockpool.core.packed_index_check import damage_of
from blockpool.core.packed_runs import evict, insert_range, longest_prefix
from blockpool.core.packed_table import MOST_STEPS, NUMBER, TAG, clear_slot, mixed_anew, spread

FIRST_BITS: Final = 4
MOST_SLOTS: Final = 0x80000000


@final
class PackedIndex(GroupIndex):
    """Blocks of one pool, each under the hash that it carries: the table need not keep the hashes.

    Open addressing with linear probing, at most half full, a power of two in size, doubled when it must grow. One slot
    is one integer: a sign, the upper 31 bits of the mixed hash (the tag), and block id + 1 in 31 bits; 0 is an empty
    slot. The uppermost bits of the tag are the slot in which the search starts, so that neither growing nor deleting
    looks at a hash. A tag that agrees is a candidate; the whole hash decides. Deleting moves later entries back: there
    are no tombstones.

    Later blocks under a hash that is there stand in a dict aside, in the order of insertion; the sign says that there
    is one. So long as there are none, nothing looks there.

    The slot of each block is written down by its id. So eviction mixes no hash and searches for none: it looks whether
    the slot names the block. Where it does not, because the block is a later one, say, the hash decides.

    Runs of hashes are worked on in pieces (`packed_runs`): all hashes of a piece are mixed and their first slots read,
    before any slot is looked at. The reads do not wait for each other, nor for a branch that depends on one, and so
    what is not in the near caches comes at once, and not one by one.

    A block must carry its hash when it is inserted, and as long as it is here.

    Args:
        blocks: The pool's blocks by id: the list itself, not a copy.
        seed: `SEED_BYTES` random bytes, for mixing (`HashMixer`).
    """

    __slots__ = (
        "_blocks",
        "_crowded",
        "_later",
        "_mixer",
        "_num_later",
        "_num_slots_used",
        "_seen",
        "_shift",
        "_slots",
        "_table",
    )

    def __init__(self, blocks: list[KVCacheBlock], seed: bytes) -> None:
        self._blocks: list[KVCacheBlock] = blocks
        self._mixer: HashMixer = HashMixer(seed)
        self._shift: i64 = MIXED_BITS - FIRST_BITS
        self._table: vec[i64] = vec[i64]([0] * (1 << FIRST_BITS))
        self._slots: vec[i32] = vec[i32]([])
        self._num_slots_used: i64 = 0
        self._later: dict[bytes, dict[int, KVCacheBlock]] = {}
        self._num_later: int = 0
        self._crowded: bool = False
        self._seen: i64 = 0

    def get(self, block_hash: bytes) -> KVCacheBlock | None:
        """See `GroupIndex`."""
        slot = self._slot_of(block_hash)
        return None if slot < 0 else self._block_at(slot)

    def insert(self, block_hash: bytes, block: KVCacheBlock) -> None:
        """See `GroupIndex`."""
        self._reserve(1)
        mixed = self._mixer.mix(block_hash)
        self._insert(block_hash, block, mixed, mixed >> self._shift)
        if self._crowded:
            self._strengthen()

    def takes(self, block_hash: bytes, block: KVCacheBlock) -> bool:
        """A block of this pool that carries that hash."""
        block_id: int = block.block_id
        if not 0 <= block_id < len(self._blocks) or self._blocks[block_id] is not block:
            return False
        return block._hash == block_hash

    def pop(self, block_hash: bytes, block_id: int) -> KVCacheBlock | None:
        """See `GroupIndex`."""
        slot = self._slot_of(block_hash)
        if slot < 0:
            return None
        block = self._block_at(slot)
        several = self._table[slot] < 0
        if int(block.block_id) != block_id:
            return self._pop_later(block_hash, block_id) if several else None
        if several:
            self._promote(slot, block_hash)
        else:
            self._clear(slot)
        return block

    def find(self, block_hash: bytes, block_id: int) -> KVCacheBlock | None:
        """See `GroupIndex`."""
        slot = self._slot_of(block_hash)
        if slot < 0:
            return None
        block = self._block_at(slot)
        if int(block.block_id) == block_id:
            return block
        return self._later[block_hash].get(block_id) if self._table[slot] < 0 else None

    def longest_prefix(self, block_hashes: list[object]) -> list[KVCacheBlock]:
        """See `GroupIndex`."""
        return longest_prefix(self, block_hashes)

    def insert_range(
        self,
        blocks: list[object],
        start: int,
        stop: int,
        block_hashes: list[object],
        first: int,
        home: i64,
    ) -> int:
        """See `GroupIndex`."""
        return insert_range(self, blocks, start, stop, block_hashes, first, home)

    def evict_one(self, block: KVCacheBlock) -> bool:
        """See `GroupIndex`. A step of `packed_runs.evict` without what only pays for many."""
        block_id = i64(block.block_id)
        if block_id < len(self._slots):
            slot = i64(self._slots[block_id])
            entry = self._table[slot]
            if entry > 0 and entry & NUMBER == block_id + 1:
                self._clear(slot)
                block._hash = None
                return True
        return super().evict_one(block)

    def read_ahead(self, block: KVCacheBlock) -> None:
        """See `GroupIndex`."""
        block_id = i64(block.block_id)
        if block_id < len(self._slots):
            self._seen = self._table[i64(self._slots[block_id])]

    def evict(
        self, blocks: list[KVCacheBlock], start: int, home: i64, dropped: list[object] | None
    ) -> tuple[int, int]:
        """See `GroupIndex`."""
        return evict(self, blocks, start, home, dropped)

    def num_blocks(self) -> int:
        """See `GroupIndex`."""
        return self._num_slots_used + self._num_later

    def hashes(self) -> list[bytes]:
        """See `GroupIndex`."""
        found = [self._blocks[(entry & NUMBER) - 1]._hash for entry in self._table if entry != 0]
        return [block_hash for block_hash in found if block_hash is not None]

    def entry(self, block_hash: bytes) -> Entry | None:
        """See `GroupIndex`. A new dict, when there were several."""
        slot = self._slot_of(block_hash)
        if slot < 0:
            return None
        block = self._block_at(slot)
        if self._table[slot] > 0:
            return block
        several: dict[int, KVCacheBlock] = {block.block_id: block}
        several.update(self._later[block_hash])
        return several

    def discard(self, block_hash: bytes) -> bool:
        """See `GroupIndex`."""
        slot = self._slot_of(block_hash)
        if slot < 0:
            return False
        if self._table[slot] < 0:
            self._num_later -= len(self._later.pop(block_hash))
        self._clear(slot)
        return True

    def damage(self) -> str | None:
        """See `GroupIndex`."""
        return damage_of(self)

    def __len__(self) -> int:
        return self._num_slots_used

    # ------------------------------------------------------------------------------------------------- inside

    def _slot_of(self, block_hash: bytes) -> i64:
        """The slot of the first block under the hash, or -1."""
        table = self._table
        last_slot: i64 = len(table) - 1
        mixed = self._mixer.mix(block_hash)
        slot = mixed >> self._shift
        while True:
            entry = table[slot]
            if entry == 0:
                return -1
            if (entry ^ mixed) & TAG == 0:
                own_hash = self._blocks[(entry & NUMBER) - 1]._hash
                if own_hash is not None and own_hash == block_hash:
                    return slot
            slot = (slot + 1) & last_slot

    def _block_at(self, slot: i64) -> KVCacheBlock:
        return self._blocks[(self._table[slot] & NUMBER) - 1]

    def _insert(self, block_hash: bytes, block: KVCacheBlock, mixed: i64, slot: i64) -> None:
        """`insert` where there is room, searching from that slot on."""
        table = self._table
        last_slot: i64 = len(table) - 1
        first = slot
        entry = table[slot]
        while entry != 0:
            if (entry ^ mixed) & TAG == 0:
                there = self._blocks[(entry & NUMBER) - 1]
                own_hash = there._hash
                if own_hash is not None and own_hash == block_hash:
                    if there is not block:
                        self._insert_later(slot, block_hash, block)
                    return
            slot = (slot + 1) & last_slot
            entry = table[slot]
        block_id = i64(block.block_id)
        table[slot] = (mixed & TAG) | (block_id + 1)
        self._slots[block_id] = i32(slot)
        self._num_slots_used += 1
        if (slot - first) & last_slot > MOST_STEPS:
            self._crowded = True

    def _strengthen(self) -> None:
        """Hashes meet too often to be digests: mixes all of them anew, with more of each. O(size), once."""
        self._crowded = False
        if not self._mixer.strong:
            self._mixer.strong = True
            self._table = mixed_anew(self._table, self._shift, self._mixer, self._blocks, self._slots)

    def _insert_later(self, slot: i64, block_hash: bytes, block: KVCacheBlock) -> None:
        """Puts a block behind the one in the slot."""
        table = self._table
        if table[slot] > 0:
            table[slot] = table[slot] - POSITIVE - 1
        later = self._later.setdefault(block_hash, {})
        if block.block_id not in later:
            later[block.block_id] = block
            self._num_later += 1

    def _pop_later(self, block_hash: bytes, block_id: int) -> KVCacheBlock | None:
        """Takes out a block that is not the first under its hash."""
        block = self._later[block_hash].pop(block_id, None)
        if block is not None:
            self._num_later -= 1
        return block

    def _promote(self, slot: i64, block_hash: bytes) -> None:
        """Takes out the first of several: the next takes its slot."""
        later = self._later[block_hash]
        if not later:
            del self._later[block_hash]
            self._clear(slot)
            return
        next_id = next(iter(later))
        del later[next_id]
        self._num_later -= 1
        number: i64 = next_id
        table = self._table
        table[slot] = table[slot] - (table[slot] & NUMBER) + number + 1
        self._slots[number] = i32(slot)

    def _clear(self, slot: i64) -> None:
        """Empties a slot."""
        table = self._table
        if table[(slot + 1) & (len(table) - 1)] == 0:
            table[slot] = 0
        else:
            clear_slot(table, self._shift, self._slots, slot)
        self._num_slots_used -= 1

    def _know_blocks(self) -> None:
        """Makes room for the slot of every block that is made. Amortised O(1) for each."""
        while len(self._slots) < len(self._blocks):
            self._slots = append(self._slots, 0)

    def _reserve(self, num_more: i64) -> None:
        """Grows until there is room for so many more hashes, of any block. Amortised O(1) for each."""
        self._know_blocks()
        old = self._table
        size: i64 = len(old)
        needed = (self._num_slots_used + num_more) * 2
        if needed <= size:
            return
        shift = self._shift
        while size < needed and size < MOST_SLOTS:
            size *= 2
            shift -= 1
        self._table = spread(old, size, shift, self._slots)
        self._shift = shift

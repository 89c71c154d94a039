"""`DictIndex`: the index of one group as a dict. The reference, and what an interpreted build uses."""

from __future__ import annotations

from typing import cast, final

from mypy_extensions import i64

from blockpool.core.block import OWNER_MASK, KVCacheBlock
from blockpool.core.build import COMPILED
from blockpool.core.group_index import Entry, GroupIndex
from blockpool.core.refusals import cannot_index, is_own_null, not_own
from blockpool.errors import ArgumentError


@final
class DictIndex(GroupIndex):
    """Any blocks, under any hashes, whatever hash they carry themselves.

    Nearly every hash has one block, which is stored bare; only a second one makes the entry a dict by block id, in the
    order of insertion. That keeps thousands of small dicts away from the garbage collector. Only those dicts are
    counted, and the blocks in them, so that a hash with one block costs no count.
    """

    __slots__ = ("_num_dicts", "_num_later", "entries")

    def __init__(self) -> None:
        self.entries: dict[bytes, Entry] = {}
        self._num_later: int = 0
        self._num_dicts: int = 0

    def get(self, block_hash: bytes) -> KVCacheBlock | None:
        """See `GroupIndex`."""
        entry = self.entries.get(block_hash)
        if entry is None or isinstance(entry, KVCacheBlock):
            return entry
        return next(iter(entry.values()))

    def insert(self, block_hash: bytes, block: KVCacheBlock) -> None:
        """See `GroupIndex`."""
        entry = self.entries.setdefault(block_hash, block)
        if entry is block:
            return
        if isinstance(entry, KVCacheBlock):
            self.put(block_hash, {entry.block_id: entry, block.block_id: block})
        else:
            num_before = len(entry)
            entry[block.block_id] = block
            self._num_later += len(entry) - num_before

    def takes(self, block_hash: bytes, block: KVCacheBlock) -> bool:
        """Always."""
        return True

    def pop(self, block_hash: bytes, block_id: int) -> KVCacheBlock | None:
        """See `GroupIndex`."""
        entry = self.entries.get(block_hash)
        if entry is None:
            return None
        if isinstance(entry, KVCacheBlock):
            entry_id: int = entry.block_id
            if entry_id != block_id:
                return None
            del self.entries[block_hash]
            return entry
        block = entry.pop(block_id, None)
        if not entry:
            del self.entries[block_hash]
            self._num_dicts -= 1
        elif block is not None:
            self._num_later -= 1
        return block

    def find(self, block_hash: bytes, block_id: int) -> KVCacheBlock | None:
        """See `GroupIndex`."""
        entry = self.entries.get(block_hash)
        if entry is None:
            return None
        if isinstance(entry, KVCacheBlock):
            entry_id: int = entry.block_id
            return entry if entry_id == block_id else None
        return entry.get(block_id)

    def longest_prefix(self, block_hashes: list[object]) -> list[KVCacheBlock]:
        """See `GroupIndex`."""
        found: list[Entry] = (
            self._entries_one_by_one(block_hashes) if COMPILED else self._entries_at_once(block_hashes)
        )
        if self._num_dicts > 0:
            for position, kind in enumerate(map(type, found)):
                if kind is dict:
                    found[position] = next(iter(cast("dict[int, KVCacheBlock]", found[position]).values()))
        return cast("list[KVCacheBlock]", found)

    def _entries_at_once(self, block_hashes: list[object]) -> list[Entry]:
        """The entries up to the first miss.

        For the interpreted build: there is no Python code per hash, and what was found before the first miss stays in
        the list. In compiled code it would not: there an iterator is read to its end before the list grows.
        """
        found: list[Entry] = []
        try:
            found.extend(map(self.entries.__getitem__, cast("list[bytes]", block_hashes)))
        except (KeyError, TypeError):  # not there, and what cannot be a key
            if not isinstance(block_hashes[len(found)], bytes):
                raise ArgumentError("block_hashes", block_hashes[len(found)], "bytes are needed") from None
        return found

    def _entries_one_by_one(self, block_hashes: list[object]) -> list[Entry]:
        """The same for the compiled build."""
        found: list[Entry] = []
        for block_hash in block_hashes:
            if not isinstance(block_hash, bytes):
                raise ArgumentError("block_hashes", block_hash, "bytes are needed")
            entry = self.entries.get(block_hash)
            if entry is None:
                break
            found.append(entry)
        return found

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
        entries = self.entries
        owner = home & OWNER_MASK
        num_idle = 0
        pairs = zip(blocks[start:stop], block_hashes[start - first : stop - first], strict=True)
        for num_done, (block, block_hash) in enumerate(pairs):
            if not isinstance(block, KVCacheBlock) or (
                block._home != owner and block._home & OWNER_MASK != owner
            ):
                if is_own_null(block, owner):
                    continue
                self._remove_range(blocks, start, start + num_done)
                raise not_own("blocks", block)
            if block._hash is not None or not isinstance(block_hash, bytes):
                self._remove_range(blocks, start, start + num_done)
                raise cannot_index(block, block_hash)
            block._home = home
            block._hash = block_hash
            if entries.setdefault(block_hash, block) is not block:
                self.insert(block_hash, block)
            if block.ref_cnt == 0:
                num_idle += 1
        return num_idle

    def evict_one(self, block: KVCacheBlock) -> bool:
        """See `GroupIndex`."""
        block_hash = block._hash
        if block_hash is None or self.entries.get(block_hash) is not block:
            return super().evict_one(block)
        del self.entries[block_hash]
        block._hash = None
        return True

    def evict(
        self, blocks: list[KVCacheBlock], start: int, home: i64, dropped: list[object] | None
    ) -> tuple[int, int]:
        """See `GroupIndex`."""
        entries = self.entries
        num_dropped = 0
        for position in range(start, len(blocks)):
            block = blocks[position]
            block_hash = block._hash
            if block_hash is None:
                continue
            if block._home != home:
                return position, num_dropped
            if entries.get(block_hash) is block:
                del entries[block_hash]
            elif self.pop(block_hash, block.block_id) is None:
                continue
            block._hash = None
            num_dropped += 1
            if dropped is not None:
                dropped.append(block_hash)
        return len(blocks), num_dropped

    def num_blocks(self) -> int:
        """See `GroupIndex`."""
        return len(self.entries) + self._num_later

    def hashes(self) -> list[bytes]:
        """See `GroupIndex`; in the order of insertion."""
        return list(self.entries)

    def entry(self, block_hash: bytes) -> Entry | None:
        """See `GroupIndex`. The inner dict itself."""
        return self.entries.get(block_hash)

    def put(self, block_hash: bytes, entry: Entry) -> None:
        """Puts an entry in the place of whatever stands under the hash."""
        replaced = self.entries.get(block_hash)
        if replaced is not None:
            self._count(replaced, -1)
        self.entries[block_hash] = entry
        self._count(entry, 1)

    def discard(self, block_hash: bytes) -> bool:
        """See `GroupIndex`."""
        entry = self.entries.pop(block_hash, None)
        if entry is None:
            return False
        self._count(entry, -1)
        return True

    def damage(self) -> str | None:
        """See `GroupIndex`."""
        num_later = 0
        num_dicts = 0
        for block_hash, entry in self.entries.items():
            if isinstance(entry, KVCacheBlock):
                continue
            if not entry:
                return f"nothing is under {block_hash.hex()}"
            num_dicts += 1
            num_later += len(entry) - 1
        if num_later != self._num_later:
            return f"{self._num_later} later blocks are counted, {num_later} are there"
        if num_dicts != self._num_dicts:
            return f"{self._num_dicts} hashes with a dict are counted, {num_dicts} are there"
        return None

    def __len__(self) -> int:
        return len(self.entries)

    def _count(self, entry: Entry, change: int) -> None:
        """Counts the dict of a hash, and its blocks beyond the first: -1 for an empty one, which none should have."""
        if not isinstance(entry, KVCacheBlock):
            self._num_later += change * (len(entry) - 1)
            self._num_dicts += change

"""`BlockHashToBlockMap`: the prefix index, from content hash to block."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import TypeAlias, cast, final

from mypy_extensions import i32

from blockpool.core.arguments import as_int
from blockpool.core.block import KVCacheBlock
from blockpool.core.block_hash import get_block_hash, get_group_id, signed_group_id
from blockpool.core.block_map_view import BlockMapView
from blockpool.core.refusals import cannot_index, is_own_null, not_own
from blockpool.core.types import BlockArg, BytesArg, IntArg
from blockpool.errors import ArgumentError

Entry: TypeAlias = KVCacheBlock | dict[int, KVCacheBlock]


@final
class GroupIndex:
    """The index of one KV cache group, keyed by the bare block hash.

    Nearly every hash has one block, which is stored bare; only a second one makes the entry a dict by block id, in the
    order of insertion. That keeps thousands of small dicts away from the garbage collector.
    """

    __slots__ = ("entries",)

    def __init__(self) -> None:
        self.entries: dict[bytes, Entry] = {}

    def get(self, block_hash: bytes) -> KVCacheBlock | None:
        """The first block inserted under the hash that is still there, or None. O(1)."""
        entry = self.entries.get(block_hash)
        if entry is None or isinstance(entry, KVCacheBlock):
            return entry
        return next(iter(entry.values()))

    def insert(self, block_hash: bytes, block: KVCacheBlock) -> None:
        """Puts a block beside those that are there already. O(1)."""
        entry = self.entries.setdefault(block_hash, block)
        if entry is block:
            return
        if isinstance(entry, KVCacheBlock):
            self.entries[block_hash] = {entry.block_id: entry, block.block_id: block}
        else:
            entry[block.block_id] = block

    def pop(self, block_hash: bytes, block_id: int) -> KVCacheBlock | None:
        """Takes that block out, or returns None, with nothing lost, if it is not there. O(1)."""
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
        return block

    def find(self, block_hash: bytes, block_id: int) -> KVCacheBlock | None:
        """That block, or None if it is not under the hash. O(1)."""
        entry = self.entries.get(block_hash)
        if entry is None:
            return None
        if isinstance(entry, KVCacheBlock):
            entry_id: int = entry.block_id
            return entry if entry_id == block_id else None
        return entry.get(block_id)

    def longest_prefix(self, block_hashes: list[object]) -> list[KVCacheBlock]:
        """One block for each hash, up to the first that is not there. O(length of the hit).

        Raises:
            ArgumentError: If a hash that was looked at is not bytes.
        """
        entries = self.entries
        found: list[KVCacheBlock] = []
        try:
            for block_hash in cast("list[bytes]", block_hashes):
                entry = entries.get(block_hash)
                if isinstance(entry, KVCacheBlock):
                    found.append(entry)
                elif entry is not None:
                    found.append(next(iter(entry.values())))
                elif isinstance(block_hash, bytes):
                    break
                else:
                    raise TypeError
        except TypeError:
            raise ArgumentError("block_hashes", block_hashes[len(found)], "bytes are needed") from None
        return found

    def insert_range(
        self,
        blocks: list[object],
        start: int,
        stop: int,
        block_hashes: list[object],
        first: int,
        signed_id: int,
        owner: i32,
    ) -> int:
        """Gives `blocks[start:stop]` their hashes and indexes them, null blocks excepted. All or nothing.

        Args:
            block_hashes: Hashes of the blocks from number `first` on.
            first: Not above `start`.
            signed_id: Number of this group, as blocks hold it.
            owner: Whose the blocks must be.

        Returns:
            How many of them nobody holds.

        Raises:
            ArgumentError: If something is not a block, or a hash not bytes.
            BlockStateError: If a block belongs to another pool.
            HashAlreadySetError: If a block has a hash.
        """
        entries = self.entries
        num_idle = 0
        for position in range(start, stop):
            block = blocks[position]
            if not isinstance(block, KVCacheBlock) or block._owner != owner:
                if is_own_null(block, owner):
                    continue
                self._remove_range(blocks, start, position)
                raise not_own("blocks", block)
            block_hash = block_hashes[position - first]
            if block._hash is not None or not isinstance(block_hash, bytes):
                self._remove_range(blocks, start, position)
                raise cannot_index(block, block_hash)
            block._signed_group_id = signed_id
            block._hash = block_hash
            if entries.setdefault(block_hash, block) is not block:
                self.insert(block_hash, block)
            if block.ref_cnt == 0:
                num_idle += 1
        return num_idle

    def _remove_range(self, blocks: list[object], start: int, stop: int) -> None:
        """Takes `blocks[start:stop]` of a failed `insert_range` out again."""
        for block in cast("list[KVCacheBlock]", blocks)[start:stop]:
            if block._hash is not None:
                self.pop(block._hash, block.block_id)
                block._hash = None

    def num_blocks(self) -> int:
        """Blocks under all hashes together. O(number of hashes)."""
        total = 0
        for entry in self.entries.values():
            total += 1 if isinstance(entry, KVCacheBlock) else len(entry)
        return total

    def __len__(self) -> int:
        return len(self.entries)


@final
class BlockHashToBlockMap:
    """Blocks by key (block hash + group id). Equal content in several blocks is kept several times, never merged:
    a block id that a request has been given stays its own.

    Inside there is one `GroupIndex` per group, so that a look-up needs no joined key; `_cache` shows all of them as one
    mapping from key to block, or to a dict of blocks by id.
    """

    def __init__(self) -> None:
        self._groups: dict[int, GroupIndex] = {}

    @property
    def _cache(self) -> MutableMapping[bytes, Entry]:
        return BlockMapView(self)

    def group(self, signed_id: int) -> GroupIndex:
        """The index of one group (`signed_group_id`), for inserting. O(1)."""
        index = self._groups.get(signed_id)
        if index is None:
            index = GroupIndex()
            self._groups[signed_id] = index
        return index

    def find_group(self, signed_id: int) -> GroupIndex:
        """The index of one group, for reading: an unknown one is empty and is not kept. O(1)."""
        index = self._groups.get(signed_id)
        return GroupIndex() if index is None else index

    def groups(self) -> dict[int, GroupIndex]:
        """Every group's index by signed group id: the inner dict, for reading only."""
        return self._groups

    def evict_n(self, blocks: list[KVCacheBlock], dropped: list[bytes] | None) -> int:
        """Drops the hashes of those blocks that are indexed, from the index and from the blocks. O(len(blocks)).

        Args:
            dropped: Takes the hashes, in order, when they are wanted.

        Returns:
            Their number.
        """
        num_dropped = 0
        signed_id = 0
        index = self.find_group(0)
        for block in blocks:
            block_hash = block._hash
            if block_hash is None:
                continue
            if block._signed_group_id != signed_id:
                signed_id = block._signed_group_id
                index = self.find_group(signed_id)
            if index.entries.get(block_hash) is block:
                del index.entries[block_hash]
            elif index.pop(block_hash, block.block_id) is None:
                continue
            block._hash = None
            num_dropped += 1
            if dropped is not None:
                dropped.append(block_hash)
        return num_dropped

    def get_one_block(self, key: BytesArg) -> KVCacheBlock | None:
        """Any block with that key (the first inserted, when there are several), or None. O(1).

        Raises:
            ArgumentError: If the key is not bytes.
            ConfigError: If it is too short to end in a group id.
        """
        return self.find_group(signed_group_id(get_group_id(key))).get(get_block_hash(key))

    def insert(self, key: BytesArg, block: BlockArg) -> None:
        """Adds a block under a key, beside those that are there. O(1).

        Raises:
            ArgumentError: If the key is not bytes or the block is not a block.
            ConfigError: If the key is too short to end in a group id.
        """
        block_hash = get_block_hash(key)
        if not isinstance(block, KVCacheBlock):
            raise ArgumentError("block", block, "a KVCacheBlock is needed")
        self.group(signed_group_id(get_group_id(key))).insert(block_hash, block)

    def pop(self, key: BytesArg, block_id: IntArg) -> KVCacheBlock | None:
        """Takes just that block from under a key. O(1).

        Returns:
            The block; None, and nothing is lost, when the key is unknown or the id is not under it.

        Raises:
            ArgumentError: If the key is not bytes or the id no integer.
            ConfigError: If the key is too short to end in a group id.
        """
        number = as_int("block_id", block_id)
        return self.find_group(signed_group_id(get_group_id(key))).pop(get_block_hash(key), number)

    def __len__(self) -> int:
        total = 0
        for index in self._groups.values():
            total += len(index)
        return total

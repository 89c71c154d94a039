"""`BlockHashToBlockMap`: the prefix index, from content hash to block."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import TypeAlias, final

from blockpool.core.arguments import as_int
from blockpool.core.block import KVCacheBlock
from blockpool.core.block_hash import get_block_hash, get_group_id, signed_group_id
from blockpool.core.block_map_view import BlockMapView
from blockpool.core.types import BytesArg, IntArg
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
        for block in entry.values():
            return block
        return None

    def insert(self, block_hash: bytes, block: KVCacheBlock) -> None:
        """Puts a block beside those that are there already. O(1)."""
        entry = self.entries.get(block_hash)
        if entry is None:
            self.entries[block_hash] = block
        elif isinstance(entry, KVCacheBlock):
            self.entries[block_hash] = {entry.block_id: entry, block.block_id: block}
        else:
            entry[block.block_id] = block

    def pop(self, block_hash: bytes, block_id: int) -> KVCacheBlock | None:
        """Takes that block out, or returns None, with nothing lost, if it is not there. O(1)."""
        entry = self.entries.get(block_hash)
        if entry is None:
            return None
        if isinstance(entry, KVCacheBlock):
            if entry.block_id != block_id:
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
            return entry if entry.block_id == block_id else None
        return entry.get(block_id)

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
        self._last_id: int = 0
        self._last: GroupIndex = GroupIndex()
        self._groups[0] = self._last

    @property
    def _cache(self) -> MutableMapping[bytes, Entry]:
        return BlockMapView(self)

    def group(self, signed_id: int) -> GroupIndex:
        """The index of one group (`signed_group_id`); an empty one springs up on first use. O(1)."""
        if signed_id == self._last_id:
            return self._last
        index = self._groups.get(signed_id)
        if index is None:
            index = GroupIndex()
            self._groups[signed_id] = index
        self._last_id = signed_id
        self._last = index
        return index

    def groups(self) -> dict[int, GroupIndex]:
        """Every group's index by signed group id: the inner dict, for reading only."""
        return self._groups

    def get_one_block(self, key: BytesArg) -> KVCacheBlock | None:
        """Any block with that key (the first inserted, when there are several), or None. O(1).

        Raises:
            ArgumentError: If the key is not bytes.
            ConfigError: If it is too short to end in a group id.
        """
        return self._group_of(key).get(get_block_hash(key))

    def insert(self, key: BytesArg, block: KVCacheBlock) -> None:
        """Adds a block under a key, beside those that are there. O(1).

        Raises:
            ArgumentError: If the key is not bytes or the block is not a block.
            ConfigError: If the key is too short to end in a group id.
        """
        block_hash = get_block_hash(key)
        if not isinstance(block, KVCacheBlock):
            raise ArgumentError("block", block, "a KVCacheBlock is needed")
        self._group_of(key).insert(block_hash, block)

    def pop(self, key: BytesArg, block_id: IntArg) -> KVCacheBlock | None:
        """Takes just that block from under a key. O(1).

        Returns:
            The block; None, and nothing is lost, when the key is unknown or the id is not under it.

        Raises:
            ArgumentError: If the key is not bytes or the id no integer.
            ConfigError: If the key is too short to end in a group id.
        """
        number = as_int("block_id", block_id)
        return self._group_of(key).pop(get_block_hash(key), number)

    def __len__(self) -> int:
        total = 0
        for index in self._groups.values():
            total += len(index)
        return total

    def _group_of(self, key: BytesArg) -> GroupIndex:
        return self.group(signed_group_id(get_group_id(key)))

"""`BlockHashToBlockMap`: the prefix index, from content hash to block."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import final

from blockpool.core.arguments import as_int, random_seed
from blockpool.core.block import KVCacheBlock, group_of
from blockpool.core.block_hash import get_block_hash, get_group_id
from blockpool.core.block_map_view import BlockMapView
from blockpool.core.build import COMPILED
from blockpool.core.dict_index import DictIndex
from blockpool.core.group_index import Entry, GroupIndex
from blockpool.core.hash_mixer import SEED_BYTES
from blockpool.core.packed_index import PackedIndex
from blockpool.core.types import BlockArg, BytesArg, IntArg
from blockpool.errors import ArgumentError

PACKED: bool = COMPILED
"""Whether pools get packed indexes. Interpreted, a dict is faster. Not final: the tests try the other one, too."""


@final
class BlockHashToBlockMap:
    """Blocks by key (block hash + group id).

    Equal content in several blocks is kept several times, never merged: a block id that a request has been given stays
    its own.

    Inside there is one `GroupIndex` per group, so that a look-up needs no joined key; `_cache` shows all of them as one
    mapping from key to block, or to a dict of blocks by id.

    Args:
        blocks: None: each group is a `DictIndex`. The blocks of a pool, by id: it is a `PackedIndex`, until something
            is put in by hand that does not fit there, and that group is copied to a `DictIndex`.
        seed: Random bytes for the packed indexes, `SEED_BYTES` of them.
    """

    def __init__(self, blocks: list[KVCacheBlock] | None = None, seed: bytes = b"") -> None:
        self._blocks: list[KVCacheBlock] | None = blocks
        self._seed: bytes = seed
        self._groups: dict[int, GroupIndex] = {}
        # The group asked for last: most pools have one, and a look-up in the dict counts for a call about one block.
        self._last_id: int = -1
        self._last: GroupIndex = DictIndex()

    def emptied(self) -> BlockHashToBlockMap:
        """A new map of the same kind with nothing in it."""
        return BlockHashToBlockMap(self._blocks, self._seed)

    @property
    def _cache(self) -> MutableMapping[bytes, Entry]:
        return BlockMapView(self)

    def group(self, group_id: int) -> GroupIndex:
        """The index of one group, for inserting. O(1)."""
        index = self._groups.get(group_id)
        if index is None:
            index = DictIndex() if self._blocks is None else PackedIndex(self._blocks, self._seed)
            self._keep(group_id, index)
        return index

    def _keep(self, group_id: int, index: GroupIndex) -> None:
        self._groups[group_id] = index
        self._last_id = group_id
        self._last = index

    def find_group(self, group_id: int) -> GroupIndex:
        """The index of one group, for reading: an unknown one is empty and is not kept. O(1)."""
        if group_id == self._last_id:
            return self._last
        index = self._groups.get(group_id)
        if index is None:
            return DictIndex()
        self._last_id = group_id
        self._last = index
        return index

    def dict_group(self, group_id: int) -> DictIndex:
        """The index of one group, for inserting what only a dict takes; from now on it is one. Once O(its size)."""
        index = self.group(group_id)
        if isinstance(index, DictIndex):
            return index
        copied = DictIndex()
        for block_hash in index.hashes():
            entry = index.entry(block_hash)
            if entry is not None:
                copied.put(block_hash, entry)
        self._keep(group_id, copied)
        return copied

    def groups(self) -> dict[int, GroupIndex]:
        """Every group's index by group id: the inner dict, for reading only."""
        return self._groups

    def evict_n(
        self, blocks: list[KVCacheBlock], dropped: list[object] | None, last_copies: bool = False
    ) -> int:
        """Drops the hashes of those blocks that are indexed, from the index and from the blocks. O(len(blocks)).

        Args:
            dropped: Takes the hashes, in order, when they are wanted.
            last_copies: Whether it takes a hash only when no block is left under it.

        Returns:
            Their number.
        """
        if len(blocks) == 1 and not last_copies:  # decoding asks for one block at a time
            return self._evict_one(blocks[0], dropped)
        num_dropped = 0
        position = 0
        while position < len(blocks):
            block = blocks[position]
            if block._hash is None:
                position += 1
                continue
            home = block._home
            index = self.find_group(group_of(home))
            num_known = 0 if dropped is None else len(dropped)
            position, num_of_group = index.evict(blocks, position, home, dropped)
            num_dropped += num_of_group
            if last_copies and dropped is not None:
                _keep_last_copies(index, dropped, num_known)
        return num_dropped

    def _evict_one(self, block: KVCacheBlock, dropped: list[object] | None) -> int:
        """`evict_n` of one block."""
        block_hash = block._hash
        if block_hash is None or not self.find_group(group_of(block._home)).evict_one(block):
            return 0
        if dropped is not None:
            dropped.append(block_hash)
        return 1

    def read_ahead(self, block: KVCacheBlock | None) -> None:
        """Has what evicting this block will need brought from memory, while others still have something to do."""
        if block is not None and block._hash is not None:
            self.find_group(group_of(block._home)).read_ahead(block)

    def get_one_block(self, key: BytesArg) -> KVCacheBlock | None:
        """Any block with that key (the first inserted, when there are several), or None. O(1).

        Raises:
            ArgumentError: If the key is not bytes.
            ConfigError: If it is too short to end in a group id.
        """
        return self.find_group(get_group_id(key)).get(get_block_hash(key))

    def insert(self, key: BytesArg, block: BlockArg) -> None:
        """Adds a block under a key, beside those that are there. O(1).

        Raises:
            ArgumentError: If the key is not bytes or the block is not a block.
            ConfigError: If the key is too short to end in a group id.
        """
        block_hash = get_block_hash(key)
        if not isinstance(block, KVCacheBlock):
            raise ArgumentError("block", block, "a KVCacheBlock is needed")
        group_id = get_group_id(key)
        index = self.group(group_id)
        if not index.takes(block_hash, block):
            index = self.dict_group(group_id)
        index.insert(block_hash, block)

    def pop(self, key: BytesArg, block_id: IntArg) -> KVCacheBlock | None:
        """Takes just that block from under a key. O(1).

        Returns:
            The block; None, and nothing is lost, when the key is unknown or the id is not under it.

        Raises:
            ArgumentError: If the key is not bytes or the id no integer.
            ConfigError: If the key is too short to end in a group id.
        """
        number = as_int("block_id", block_id)
        return self.find_group(get_group_id(key)).pop(get_block_hash(key), number)

    def num_duplicates(self) -> int:
        """Blocks that stand beside another one under the same key. O(groups)."""
        total = 0
        for index in self._groups.values():
            total += index.num_blocks() - len(index)
        return total

    def __len__(self) -> int:
        total = 0
        for index in self._groups.values():
            total += len(index)
        return total


def _keep_last_copies(index: GroupIndex, dropped: list[object], start: int) -> None:
    """Leaves in `dropped[start:]` what is not in the index any more, each hash once, where its last copy stood."""
    gone: dict[object, None] = {}
    for digest in dropped[start:]:
        if isinstance(digest, bytes) and index.get(digest) is None:
            gone.pop(digest, None)
            gone[digest] = None
    del dropped[start:]
    dropped.extend(gone)


def map_for_pool(blocks: list[KVCacheBlock], random_bytes: Callable[[int], object]) -> BlockHashToBlockMap:
    """The map of a new pool, of the kind that is fastest in this build. Asks once for random bytes, in every build."""
    seed = random_seed(random_bytes, SEED_BYTES)
    return BlockHashToBlockMap(blocks, seed) if PACKED else BlockHashToBlockMap()

"""`GroupIndex`: what the index of one KV cache group can do, whoever does it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TypeAlias, cast

from mypy_extensions import i64

from blockpool.core.block import KVCacheBlock

Entry: TypeAlias = KVCacheBlock | dict[int, KVCacheBlock]
"""What stands under one hash: a block, or since there were several, a dict by block id in the order of insertion."""


class GroupIndex(ABC):
    """The index of one KV cache group, keyed by the bare block hash.

    `DictIndex` is the reference; `PackedIndex` gives the same answers and is the faster one when compiled. `len()`
    counts hashes.
    """

    __slots__ = ()

    @abstractmethod
    def get(self, block_hash: bytes) -> KVCacheBlock | None:
        """The first block inserted under the hash that is still there, or None. O(1)."""

    @abstractmethod
    def insert(self, block_hash: bytes, block: KVCacheBlock) -> None:
        """Puts a block that it `takes` beside those that are there already. O(1)."""

    @abstractmethod
    def takes(self, block_hash: bytes, block: KVCacheBlock) -> bool:
        """Whether this kind of index can hold that block under that hash."""

    @abstractmethod
    def pop(self, block_hash: bytes, block_id: int) -> KVCacheBlock | None:
        """Takes that block out, or returns None, with nothing lost, if it is not there. O(1)."""

    @abstractmethod
    def find(self, block_hash: bytes, block_id: int) -> KVCacheBlock | None:
        """That block, or None if it is not under the hash. O(1)."""

    @abstractmethod
    def longest_prefix(self, block_hashes: list[object]) -> list[KVCacheBlock]:
        """One block for each hash, up to the first that is not there. O(length of the hit).

        Raises:
            ArgumentError: If a hash that was looked at is not bytes.
        """

    @abstractmethod
    def insert_range(
        self,
        blocks: list[object],
        start: int,
        stop: int,
        block_hashes: list[object],
        first: int,
        home: i64,
    ) -> int:
        """Gives `blocks[start:stop]` their hashes and indexes them, null blocks excepted. All or nothing.

        Args:
            block_hashes: Hashes of the blocks from number `first` on.
            first: Not above `start`.
            home: What the blocks' `_home` becomes: whose they must be, and this group.

        Returns:
            How many of them nobody holds.

        Raises:
            ArgumentError: If something is not a block, or a hash not bytes.
            BlockStateError: If a block belongs to another pool.
            HashAlreadySetError: If a block has a hash.
        """

    def _remove_range(self, blocks: list[object], start: int, stop: int) -> None:
        """Takes `blocks[start:stop]` of a failed `insert_range` out again."""
        for block in cast("list[KVCacheBlock]", blocks)[start:stop]:
            self.evict_one(block)

    def evict_one(self, block: KVCacheBlock) -> bool:
        """`evict` of one block of this group that has a hash; tells whether it was indexed here. O(1)."""
        if block._hash is None or self.pop(block._hash, block.block_id) is None:
            return False
        block._hash = None
        return True

    def read_ahead(self, block: KVCacheBlock) -> None:  # noqa: B027 - nothing, where nothing is known to be far away
        """Reads what `evict_one` of that block will need. Changes nothing that can be seen."""

    @abstractmethod
    def evict(
        self, blocks: list[KVCacheBlock], start: int, home: i64, dropped: list[object] | None
    ) -> tuple[int, int]:
        """Drops the hashes of the blocks from number `start` on that are indexed here, from the index and the blocks.

        Args:
            home: `_home` of the blocks of this group: it stops at another one that has a hash.
            dropped: Takes the hashes, in order, when they are wanted.

        Returns:
            Where it stopped, and how many it dropped.
        """

    @abstractmethod
    def num_blocks(self) -> int:
        """Blocks under all hashes together. O(1)."""

    @abstractmethod
    def hashes(self) -> list[bytes]:
        """All hashes, in no particular order. O(size)."""

    @abstractmethod
    def entry(self, block_hash: bytes) -> Entry | None:
        """What stands under the hash, or None. For inspection."""

    @abstractmethod
    def discard(self, block_hash: bytes) -> bool:
        """Drops whatever stands under the hash; tells whether something did."""

    @abstractmethod
    def damage(self) -> str | None:
        """What is wrong with the structure itself, as far as it can tell; None if nothing. O(size)."""

    @abstractmethod
    def __len__(self) -> int: ...

"""`KVCacheBlocks`: blocks of a request, one list per group, as the managers hand them to a scheduler."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, cast, final, overload

from blockpool.core.arguments import as_bool
from blockpool.core.block import KVCacheBlock
from blockpool.core.types import BoolArg
from blockpool.errors import ArgumentError, ConfigError
from blockpool.kv_cache.types import BlockGroupsArg, BlocksArg


@final
class KVCacheBlocks:
    """What `KVCacheManager` returns and takes back. A scheduler passes it on, joins it, and reads the block ids.

    Attributes:
        blocks: One sequence per group. For the managers; a scheduler needs only the ids.

    Raises:
        ArgumentError: If they are no tuple of sequences. What is in these is looked at when it is used.
    """

    __slots__ = ("blocks",)

    def __init__(self, blocks: BlockGroupsArg) -> None:
        if not isinstance(blocks, tuple):
            raise ArgumentError("blocks", blocks, "a tuple with the blocks of each group is needed")
        for group in blocks:
            if not isinstance(group, (list, tuple)) and not is_plain_sequence(group):
                raise ArgumentError("blocks", group, "a sequence of blocks is needed for each group")
        self.blocks: tuple[Sequence[KVCacheBlock], ...] = blocks

    def __add__(self, other: BlocksArg) -> KVCacheBlocks:
        """Group by group, the blocks of both in order.

        Raises:
            ArgumentError: If the other is something else.
            ConfigError: If they are not of equally many groups.
        """
        if not isinstance(other, KVCacheBlocks):
            raise ArgumentError("other", other, "KVCacheBlocks are needed")
        if len(self.blocks) != len(other.blocks):
            raise ConfigError("other", len(other.blocks), f"blocks of {len(self.blocks)} groups are needed")
        joined: list[Sequence[KVCacheBlock]] = []
        for group, blocks in enumerate(self.blocks):
            joined.append([*blocks, *other.blocks[group]])
        return KVCacheBlocks(tuple(joined))

    @overload
    def get_block_ids(self, allow_none: Literal[False] = False) -> tuple[list[int], ...]: ...

    @overload
    def get_block_ids(self, allow_none: bool) -> tuple[list[int], ...] | None: ...

    def get_block_ids(self, allow_none: BoolArg = False) -> tuple[list[int], ...] | None:
        """The ids, one list per group; 0 stands for what attention skips. O(blocks).

        Args:
            allow_none: Whether to return None when there is no block at all.

        Raises:
            ArgumentError: If something in them is no block.
        """
        if as_bool("allow_none", allow_none) and not self.any_blocks():
            return None
        ids: list[list[int]] = []
        try:
            for blocks in self.blocks:
                ids.append([block.block_id for block in blocks])
        except (AttributeError, TypeError):
            raise self._no_blocks() from None
        return tuple(ids)

    def get_unhashed_block_ids(self) -> list[int]:
        """The ids of the blocks that are not indexed, of the one group there is. O(blocks).

        Raises:
            ArgumentError: If something in them is no block.
            ConfigError: If there is another number of groups.
        """
        if len(self.blocks) != 1:
            raise ConfigError("blocks", len(self.blocks), "it is asked of a single group")
        try:
            return [block.block_id for block in self.blocks[0] if block._hash is None]
        except (AttributeError, TypeError):
            raise self._no_blocks() from None

    def new_empty(self) -> KVCacheBlocks:
        """No blocks, of as many groups."""
        return empty_blocks(len(self.blocks))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, KVCacheBlocks):
            return NotImplemented
        return [list(blocks) for blocks in self.blocks] == [list(blocks) for blocks in other.blocks]

    def __hash__(self) -> int:
        raise ArgumentError("self", "KVCacheBlocks", "it is compared by its blocks and has no hash")

    def __repr__(self) -> str:
        return f"KVCacheBlocks(block_ids={self.get_block_ids()})"

    def _no_blocks(self) -> ArgumentError:
        for blocks in self.blocks:
            for block in cast("Sequence[object]", blocks):
                if not isinstance(block, KVCacheBlock):
                    return ArgumentError("blocks", block, "a KVCacheBlock is needed")
        return ArgumentError("blocks", self.blocks, "sequences of blocks are needed")

    def any_blocks(self) -> bool:
        """Whether there is a block in any group."""
        return max(map(len, self.blocks), default=0) > 0


def is_plain_sequence(value: object) -> bool:
    """Whether it is a sequence, and no text or bytes."""
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray, memoryview))


def empty_blocks(num_groups: int) -> KVCacheBlocks:
    """No blocks, of so many groups; nothing in it can be changed."""
    groups: list[Sequence[KVCacheBlock]] = [() for _ in range(num_groups)]
    return KVCacheBlocks(tuple(groups))

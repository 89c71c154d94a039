"""`KVCacheBlocks`: blocks of a request, one list per group, as the managers hand them to a scheduler."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, final, overload

from blockpool.core.arguments import as_bool
from blockpool.core.block import KVCacheBlock
from blockpool.core.types import BoolArg
from blockpool.errors import ArgumentError, ConfigError


@final
class KVCacheBlocks:
    """What `KVCacheManager` returns and takes back. A scheduler passes it on, joins it, and reads the block ids.

    Attributes:
        blocks: One sequence per group. For the managers; a scheduler needs only the ids.
    """

    __slots__ = ("blocks",)

    def __init__(self, blocks: tuple[Sequence[KVCacheBlock], ...]) -> None:
        self.blocks: tuple[Sequence[KVCacheBlock], ...] = blocks

    def __add__(self, other: KVCacheBlocks) -> KVCacheBlocks:
        """Group by group, the blocks of both in order.

        Raises:
            ConfigError: If they are not of equally many groups.
        """
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
        """
        if as_bool("allow_none", allow_none) and not self.any_blocks():
            return None
        ids: list[list[int]] = []
        for blocks in self.blocks:
            ids.append([block.block_id for block in blocks])
        return tuple(ids)

    def get_unhashed_block_ids(self) -> list[int]:
        """The ids of the blocks that are not indexed, of the one group there is. O(blocks).

        Raises:
            ConfigError: If there is another number of groups.
        """
        if len(self.blocks) != 1:
            raise ConfigError("blocks", len(self.blocks), "it is asked of a single group")
        return [block.block_id for block in self.blocks[0] if block._hash is None]

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

    def any_blocks(self) -> bool:
        """Whether there is a block in any group."""
        return any(len(blocks) > 0 for blocks in self.blocks)


def empty_blocks(num_groups: int) -> KVCacheBlocks:
    """No blocks, of so many groups; nothing in it can be changed."""
    groups: list[Sequence[KVCacheBlock]] = [() for _ in range(num_groups)]
    return KVCacheBlocks(tuple(groups))

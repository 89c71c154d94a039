"""`BlockStore`: the blocks of a pool, each made when it is first needed."""

from __future__ import annotations

from typing import Final

from mypy_extensions import mypyc_attr

from blockpool.core.block import GAP_ID, KVCacheBlock, home_of, stores

SENTINEL_ID: Final = -1


@mypyc_attr(native_class=False)  # so that it can be referred to weakly
class BlockStore:
    """Blocks 0 … `num_blocks` - 1 of one queue. So many of them as were needed are made, in the order of their ids.

    The others are free, and have never been anything else. One node stands for all of them in the queue, the gap: what
    is made leaves it at its old end, as an ordinary block in the same place. So whatever nobody asked for costs
    nothing. Whoever asks for a block by its id has all before it made, too.

    Args:
        num_blocks: At least 0.
        owner: Number of the queue.

    Attributes:
        made: The blocks that are made, by id: the list itself.
        num_blocks: As given.
        gap: What stands in the queue while there are more.
    """

    def __init__(self, num_blocks: int, owner: int) -> None:
        self.made: list[KVCacheBlock] = []
        self.num_blocks: int = num_blocks
        self.gap: KVCacheBlock = KVCacheBlock(SENTINEL_ID)
        self.gap.block_id = GAP_ID
        self.gap._home = home_of(owner, 0)
        stores[owner] = self

    def open_gap(self, place: KVCacheBlock) -> None:
        """Links the gap in behind that node of the queue."""
        if self.num_blocks == 0:
            return
        gap = self.gap
        after = place._next
        assert after is not None
        gap._prev = place
        gap._next = after
        place._next = gap
        after._prev = gap

    def make(self, count: int) -> None:
        """Makes the next `count` blocks, at most as many as are left, and links them in before the gap. O(count)."""
        made = self.made
        gap = self.gap
        home = gap._home
        last = gap._prev
        start = len(made)
        if last is None:
            return
        for block_id in range(start, min(start + count, self.num_blocks)):
            block = KVCacheBlock(block_id)
            block._home = home
            block._prev = last
            last._next = block
            made.append(block)
            last = block
        after = gap._next
        assert after is not None
        if len(made) < self.num_blocks:
            last._next = gap
            gap._prev = last
        else:
            last._next = after
            after._prev = last
            gap._prev = None
            gap._next = None

    def num_unmade(self) -> int:
        """How many blocks the gap stands for."""
        return self.num_blocks - len(self.made)

    def at(self, block_id: int) -> KVCacheBlock:
        """The block of that id, 0 … `num_blocks` - 1. O(1), but for those that have to be made."""
        missing = block_id + 1 - len(self.made)
        if missing > 0:
            self.make(missing)
        return self.made[block_id]

    def all(self) -> list[KVCacheBlock]:
        """All blocks by id; afterwards all are made."""
        self.make(self.num_unmade())
        return self.made

"""What happens to blocks, as the pool tells it."""

from __future__ import annotations

from blockpool.core.block import KVCacheBlock


class BlockWatcher:
    """A metrics collector of the pool that notes which blocks a step touched.

    Attributes:
        allocated: Blocks handed out in this step.
        hit: Blocks that a prompt found in the cache in this step.
        evicted: Blocks whose content was dropped from the cache in this step; they are in `allocated`, too.
    """

    def __init__(self) -> None:
        self.allocated: set[int] = set()
        self.hit: set[int] = set()
        self.evicted: set[int] = set()

    def begin_step(self) -> None:
        """Forgets the blocks of the last step."""
        self.allocated.clear()
        self.hit.clear()
        self.evicted.clear()

    def on_block_allocated(self, block: KVCacheBlock) -> None:
        """Notes a block that was handed out."""
        self.allocated.add(block.block_id)

    def on_block_accessed(self, block: KVCacheBlock) -> None:
        """Notes a block that was found."""
        self.hit.add(block.block_id)

    def on_block_evicted(self, block: KVCacheBlock) -> None:
        """Notes a block that is taken for something else; it may never have been in the cache."""
        if block.block_hash is not None:
            self.evicted.add(block.block_id)

    def reset(self) -> None:
        """Starts over, with the prefix cache."""
        self.begin_step()

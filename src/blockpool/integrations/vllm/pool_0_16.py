"""`BlockPool` as vLLM 0.16 calls it: ours, with vLLM's events."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from blockpool.core import pool as core
from blockpool.core.block import KVCacheBlock
from blockpool.core.block_map import BlockHashToBlockMap
from blockpool.integrations.vllm.stored_events import events_of


class BlockPool:
    """`blockpool.BlockPool` under vLLM's name. What it does to the blocks is `inner`'s work alone.

    Attributes:
        inner: The pool.
    """

    def __init__(
        self,
        num_gpu_blocks: int,
        enable_caching: bool,
        hash_block_size: int,
        enable_kv_cache_events: bool = False,
        metrics_collector: Any = None,
    ) -> None:
        self.inner = core.BlockPool(
            num_gpu_blocks,
            bool(enable_caching),
            hash_block_size,
            bool(enable_kv_cache_events),
            metrics_collector,
        )
        self.num_gpu_blocks = num_gpu_blocks
        self.enable_caching = enable_caching
        self.hash_block_size = hash_block_size
        self.enable_kv_cache_events = enable_kv_cache_events
        self.metrics_collector = metrics_collector
        self.blocks = self.inner.blocks
        self.free_block_queue = self.inner.free_block_queue
        self.null_block = self.inner.null_block
        self._events: list[Any] = []

    @property
    def cached_block_hash_to_block(self) -> BlockHashToBlockMap:
        """The prefix index; a new one after every reset."""
        return self.inner.cached_block_hash_to_block

    @property
    def kv_event_queue(self) -> list[Any]:
        """Events not yet taken."""
        if self.enable_kv_cache_events:
            self._events += events_of(self.inner.take_event_log())
        return self._events

    def get_cached_block(self, block_hash: bytes, kv_cache_group_ids: list[int]) -> list[KVCacheBlock] | None:
        """One block per group, or None."""
        return self.inner.get_cached_block(block_hash, kv_cache_group_ids)

    def find_longest_prefix(
        self, block_hashes: Any, kv_cache_group_ids: Sequence[int], max_blocks: int
    ) -> tuple[list[KVCacheBlock], ...]:
        """Not vLLM's: the whole look-up of a prompt in one call."""
        return self.inner.find_longest_prefix(block_hashes, kv_cache_group_ids, max_blocks)

    def cache_full_blocks(
        self,
        request: Any,
        blocks: list[KVCacheBlock],
        num_cached_blocks: int,
        num_full_blocks: int,
        block_size: int,
        kv_cache_group_id: int,
    ) -> None:
        """Indexes blocks that have become full."""
        self.inner.cache_full_blocks(
            request, blocks, num_cached_blocks, num_full_blocks, block_size, kv_cache_group_id
        )

    def get_new_blocks(self, num_blocks: int) -> list[KVCacheBlock]:
        """Hands out the blocks that were freed longest ago."""
        return self.inner.get_new_blocks(num_blocks)

    def touch(self, blocks: Sequence[KVCacheBlock]) -> None:
        """Takes one more hold of blocks that were found."""
        self.inner.touch(blocks)

    def free_blocks(self, ordered_blocks: Iterable[KVCacheBlock]) -> None:
        """Gives blocks back."""
        self.inner.free_blocks(ordered_blocks)

    def evict_blocks(self, block_ids: set[int]) -> None:
        """Drops the hashes of blocks whose content is no good."""
        self.inner.evict_blocks(block_ids)

    def reset_prefix_cache(self) -> bool:
        """Empties the index, if no block is in use."""
        return self.inner.reset_prefix_cache()

    def get_num_free_blocks(self) -> int:
        """Length of the free queue."""
        return self.inner.free_block_queue.num_free_blocks

    def get_usage(self) -> float:
        """Share of the usable blocks that requests hold."""
        return self.inner.get_usage()

    def take_events(self) -> list[Any]:
        """Hands over the events since the last call."""
        events, self._events = self.kv_event_queue, []
        return events

    def _maybe_evict_cached_block(self, block: KVCacheBlock) -> bool:
        return self.inner._maybe_evict_cached_block(block)

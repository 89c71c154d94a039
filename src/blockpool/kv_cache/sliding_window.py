"""Sliding window: only the last blocks are needed; a hit is a run of as many blocks as a window takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from blockpool.core.block import KVCacheBlock
from blockpool.core.pool import BlockPool
from blockpool.kv_cache.lookups import find_run
from blockpool.kv_cache.single_type_manager import SingleTypeKVCacheManager, cdiv, nothing
from blockpool.kv_cache.specs import SlidingWindowSpec


@final
class SlidingWindowManager(SingleTypeKVCacheManager):
    """Manages sliding-window attention.

    Attributes:
        sliding_window: Tokens that a token attends to, itself included.
    """

    def __init__(
        self,
        kv_cache_spec: SlidingWindowSpec,
        block_pool: BlockPool,
        enable_caching: bool,
        kv_cache_group_id: int,
        context_parallel_size: int = 1,
    ) -> None:
        super().__init__(kv_cache_spec, block_pool, enable_caching, kv_cache_group_id, context_parallel_size)
        self.sliding_window: int = kv_cache_spec.sliding_window
        self.can_skip = True

    def find_longest_cache_hit(
        self,
        block_hashes: Sequence[bytes],
        max_length: int,
        kv_cache_group_ids: list[int],
        use_eagle: bool,
        alignment_tokens: int,
    ) -> tuple[list[KVCacheBlock], ...]:
        """From the right, the first run of as many blocks as a window takes, or one from the start of the prompt.

        A window takes ceil((window - 1) / block size) blocks, at least one. A run is tried from its left end. So a miss
        rules out all runs over it, and a prompt of which nothing is found costs one look-up per run, not per block. No
        block is looked up twice. See `SingleTypeKVCacheManager`.
        """
        size = self.block_size
        step = alignment_tokens // size
        extra = 1 if use_eagle else 0
        length = max(cdiv(self.sliding_window - 1, size) + extra, 1)
        end = (min(max_length // size, len(block_hashes)) - extra) // step * step
        known = nothing(len(kv_cache_group_ids))
        known_start = end + extra
        while end > 0:
            first = max(end + extra - length, 0)
            stop = min(end + extra, known_start)
            found = find_run(self.block_pool, block_hashes, kv_cache_group_ids, first, stop)
            if known_start < end + extra:
                for blocks, more in zip(found, known, strict=True):
                    if len(blocks) == stop - first:
                        blocks.extend(more[: end + extra - stop])
            num_found = len(found[0])
            if num_found == end + extra - first:
                return self._with_nulls(found, first, end)
            end = (first + num_found - extra) // step * step
            known = found
            known_start = first
        return nothing(len(kv_cache_group_ids))

    def _with_nulls(
        self, found: tuple[list[KVCacheBlock], ...], first: int, end: int
    ) -> tuple[list[KVCacheBlock], ...]:
        """Puts null blocks before the run, and drops the block after `end`."""
        tables: list[list[KVCacheBlock]] = []
        for blocks in found:
            table = [self._null_block] * first
            table.extend(blocks)
            del table[end:]
            tables.append(table)
        return tuple(tables)

    def get_num_skipped_tokens(self, num_computed_tokens: int) -> int:
        """What lies before the window of the next token."""
        return max(num_computed_tokens - self.sliding_window + 1, 0)

    def next_to_skip(self, total_computed_tokens: int) -> int:
        """See `SingleTypeKVCacheManager`."""
        num_skipped = self.get_num_skipped_tokens(total_computed_tokens) // self.block_size
        return (num_skipped + 1) * self.block_size + self.sliding_window - 1

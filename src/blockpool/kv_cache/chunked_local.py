"""Chunked local attention: only the blocks of the current chunk are needed; those before it count as computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from blockpool.core.block import KVCacheBlock
from blockpool.core.pool import BlockPool
from blockpool.kv_cache.lookups import find_run
from blockpool.kv_cache.single_type_manager import SingleTypeKVCacheManager, nothing
from blockpool.kv_cache.specs import ChunkedLocalAttentionSpec


@final
class ChunkedLocalAttentionManager(SingleTypeKVCacheManager):
    """Manages chunked local attention.

    Attributes:
        attention_chunk_size: Tokens per chunk.
    """

    def __init__(
        self,
        kv_cache_spec: ChunkedLocalAttentionSpec,
        block_pool: BlockPool,
        enable_caching: bool,
        kv_cache_group_id: int,
        context_parallel_size: int = 1,
    ) -> None:
        super().__init__(kv_cache_spec, block_pool, enable_caching, kv_cache_group_id, context_parallel_size)
        self.attention_chunk_size: int = kv_cache_spec.attention_chunk_size
        self.can_skip = True

    def find_longest_cache_hit(
        self,
        block_hashes: Sequence[bytes],
        max_length: int,
        kv_cache_group_ids: list[int],
        use_eagle: bool,
        alignment_tokens: int,
    ) -> tuple[list[KVCacheBlock], ...]:
        """From the right, the first length whose chunk is there from its start on; nothing is looked up before it.

        See `SingleTypeKVCacheManager`. At most one search per chunk that was tried.
        """
        size = self.block_size
        step = alignment_tokens // size
        extra = 1 if use_eagle else 0
        limit = max_length // size
        search = _ChunkSearch(self, block_hashes, kv_cache_group_ids, limit)
        end = (limit - extra) // step * step
        while end > 0:
            if search.accepts(end) and (extra == 0 or search.accepts(end + 1)):
                return search.table(end)
            end -= step
        return nothing(len(kv_cache_group_ids))

    def first_block(self, num_blocks: int) -> int:
        """The block in which the chunk of the token after so many blocks starts; `num_blocks` if it starts there."""
        return self.get_num_skipped_tokens(num_blocks * self.block_size) // self.block_size

    def get_num_skipped_tokens(self, num_computed_tokens: int) -> int:
        """What lies before the chunk of the next token."""
        return num_computed_tokens - num_computed_tokens % self.attention_chunk_size

    def next_to_skip(self, total_computed_tokens: int) -> int:
        """See `SingleTypeKVCacheManager`."""
        return self.get_num_skipped_tokens(total_computed_tokens) + self.attention_chunk_size

    def fullest_length(self, num_tokens: int, num_computed: int) -> int:
        """With its last whole chunk, if that is not behind it already."""
        end = self.get_num_skipped_tokens(num_tokens)
        return end if end > num_computed else num_tokens


@final
class _ChunkSearch:
    """One look-up: remembers, per first block of a chunk, the run of blocks found there."""

    def __init__(
        self,
        manager: ChunkedLocalAttentionManager,
        block_hashes: Sequence[bytes],
        kv_cache_group_ids: list[int],
        limit: int,
    ) -> None:
        self.manager: ChunkedLocalAttentionManager = manager
        self.block_hashes: Sequence[bytes] = block_hashes
        self.kv_cache_group_ids: list[int] = kv_cache_group_ids
        self.limit: int = limit
        self.runs: dict[int, tuple[list[KVCacheBlock], ...]] = {}

    def accepts(self, num_blocks: int) -> bool:
        """Whether a hit of so many blocks is one: whatever it has of the chunk of the next token is found."""
        first = self.manager.first_block(num_blocks)
        return first >= num_blocks or first + len(self._run(first)[0]) >= num_blocks

    def table(self, num_blocks: int) -> tuple[list[KVCacheBlock], ...]:
        """The blocks of an accepted hit."""
        first = min(self.manager.first_block(num_blocks), num_blocks)
        run = self._run(first) if first < num_blocks else nothing(len(self.kv_cache_group_ids))
        tables: list[list[KVCacheBlock]] = []
        for blocks in run:
            table = [self.manager.block_pool.null_block] * first
            table.extend(blocks[: num_blocks - first])
            tables.append(table)
        return tuple(tables)

    def _run(self, first: int) -> tuple[list[KVCacheBlock], ...]:
        run = self.runs.get(first)
        if run is None:
            stop = min(self.limit, len(self.block_hashes), self._most_blocks(first))
            run = find_run(
                self.manager.block_pool, self.block_hashes, self.kv_cache_group_ids, first, max(stop, first)
            )
            self.runs[first] = run
        return run

    def _most_blocks(self, first: int) -> int:
        """The longest hit after which the next token is in a chunk that starts in block `first`."""
        size = self.manager.block_size
        return ((first + 1) * size - 2 + self.manager.attention_chunk_size) // size

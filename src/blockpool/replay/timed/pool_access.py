"""`PoolAccess`: the scheduler's way to the pool under trace rules.

The manager is an engine's: it indexes full blocks only and leaves a token to compute, so that trace rules, by which a
whole prompt may be found and nothing be left to ask blocks for, cannot go through it.
"""

from __future__ import annotations

from typing import Any

from blockpool.core.block import KVCacheBlock
from blockpool.core.pool import BlockPool
from blockpool.replay.pool_run import POOL_BLOCK_SIZE, PoolRequest
from blockpool.replay.settings import ReplaySettings
from blockpool.replay.timed.block_access import Found
from blockpool.replay.timed.timed_request import TimedRequest
from blockpool.replay.timed.timed_statistics import TimedStatistics

_GROUP_ID = 0
_GROUP_IDS = [_GROUP_ID]


class PoolAccess:
    """Trace rules: the prompt alone takes blocks, and all of it can be found. See `BlockAccess`."""

    def __init__(self, blocks: int, settings: ReplaySettings, statistics: TimedStatistics) -> None:
        """Makes the pool.

        Args:
            blocks: Usable blocks.
            settings: How the pool recycles.
            statistics: Told by the pool what becomes of blocks.
        """
        self.pool = BlockPool(
            blocks + 1,
            True,
            POOL_BLOCK_SIZE,
            metrics_collector=statistics.collector,
            reuse_uncached_first=settings.reuse_uncached_first,
        )
        self._misses = statistics.misses
        self._block_map = statistics.block_map

    def num_blocks(self, request: TimedRequest) -> int:
        """See `BlockAccess`."""
        return request.layout.blocks_for(request.total_tokens)

    def look_up(self, request: TimedRequest) -> Found:
        """See `BlockAccess`."""
        limit = request.layout.full_blocks(request.prefill_target)
        blocks = self.pool.find_longest_prefix(request.plan.keys, _GROUP_IDS, limit)[0]
        return Found(len(blocks), blocks)

    def is_resident(self, key: Any) -> bool:
        """See `BlockAccess`."""
        return self.pool.get_cached_block(key, _GROUP_IDS) is not None

    def has_room(self, request: TimedRequest, num_tokens: int, found: Found) -> bool:
        """See `BlockAccess`."""
        wanted = request.layout.blocks_for(num_tokens) - found.num_blocks
        blocks: list[KVCacheBlock] = found.blocks
        num_idle = sum(block.ref_cnt == 0 for block in blocks)
        return wanted + num_idle <= self.pool.get_num_free_blocks()

    def admit(self, request: TimedRequest, num_tokens: int, found: Found) -> None:
        """See `BlockAccess`."""
        if found.num_blocks:
            self.pool.touch(found.blocks)
            request.blocks += found.blocks
            request.num_indexed = found.num_blocks
            if self._misses is not None:  # what was found stands behind each other here, too
                self._misses.note_indexed(request.request, request.plan, 0, found.num_blocks)
            if self._block_map is not None:
                self._block_map.note_changed(request.blocks)
        self._lengthen(request, num_tokens)

    def grow(self, request: TimedRequest, num_tokens: int) -> bool:
        """See `BlockAccess`."""
        wanted = request.layout.blocks_for(num_tokens) - len(request.blocks)
        if wanted > self.pool.get_num_free_blocks():
            return False
        self._lengthen(request, num_tokens)
        return True

    def next_event(self, request: TimedRequest, token: int) -> int:
        """See `BlockAccess`. Output takes no blocks."""
        return request.total_tokens

    def next_change(self, request: TimedRequest) -> int:
        """See `BlockAccess`."""
        return request.next_change(num_blocks=len(request.blocks))

    def _lengthen(self, request: TimedRequest, num_tokens: int) -> None:
        first_changed = len(request.blocks)
        wanted = request.layout.blocks_for(num_tokens) - first_changed
        if wanted:
            new_blocks = self.pool.get_new_blocks(wanted)
            request.blocks += new_blocks
            if self._block_map is not None:
                self._block_map.note_handed_out(new_blocks)
        num_full = min(request.layout.full_blocks(num_tokens), len(request.plan.keys))
        if num_full > request.num_indexed:
            first_changed = min(first_changed, request.num_indexed)
            self._index(request, num_full)
        if self._block_map is not None:
            self._block_map.note_changed(request.blocks[first_changed:])

    def free(self, request: TimedRequest) -> None:
        """See `BlockAccess`."""
        self.pool.free_blocks(reversed(request.blocks))
        if self._block_map is not None:
            self._block_map.note_changed(request.blocks)
        request.blocks = []
        request.num_indexed = 0

    def _index(self, request: TimedRequest, num_full: int) -> None:
        self.pool.cache_full_blocks(
            PoolRequest(request.plan.keys),
            request.blocks,
            request.num_indexed,
            num_full,
            POOL_BLOCK_SIZE,
            _GROUP_ID,
        )
        if self._misses is not None:
            self._misses.note_indexed(request.request, request.plan, request.num_indexed, num_full)
        request.num_indexed = num_full

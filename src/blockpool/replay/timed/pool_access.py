"""`PoolAccess`: all that the scheduler does to a pool, behind a few calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from blockpool.core.block import KVCacheBlock
from blockpool.core.pool import BlockPool
from blockpool.replay.pool_run import POOL_BLOCK_SIZE, PoolRequest
from blockpool.replay.timed.timed_request import TimedRequest
from blockpool.replay.timed.timed_statistics import TimedStatistics

_GROUP_ID = 0
_GROUP_IDS = [_GROUP_ID]


class PoolAccess:
    """Looks up, allocates and frees for requests; what becomes full is indexed as it is allocated, as vLLM does.

    Tells what happens to blocks to whoever explains misses or draws a block map.

    Attributes:
        pool: The pool.
    """

    def __init__(self, pool: BlockPool, rules: str, statistics: TimedStatistics) -> None:
        self.pool = pool
        self._rules = rules
        self._misses = statistics.misses
        self._block_map = statistics.block_map

    def look_up(self, request: TimedRequest) -> list[KVCacheBlock]:
        """Leading blocks of a request that holds none which are in the cache. Changes nothing."""
        limit = request.max_hit_blocks(self._rules)
        return self.pool.find_longest_prefix(request.plan.keys, _GROUP_IDS, limit)[0]

    def is_resident(self, key: Any) -> bool:
        """Whether the pool has any block under a key."""
        return self.pool.get_cached_block(key, _GROUP_IDS) is not None

    def has_room(self, request: TimedRequest, num_tokens: int, found: Sequence[KVCacheBlock] = ()) -> bool:
        """Whether `allocate` would find enough blocks."""
        wanted = request.layout.blocks_for(num_tokens) - len(request.blocks) - len(found)
        num_idle = sum(block.ref_cnt == 0 for block in found)
        return wanted + num_idle <= self.pool.get_num_free_blocks()

    def allocate(self, request: TimedRequest, num_tokens: int, found: Sequence[KVCacheBlock] = ()) -> None:
        """Makes the blocks of a request cover its first tokens, and indexes those that they fill. Only with `has_room`.

        Args:
            request: Holds blocks for fewer tokens, or for as many.
            num_tokens: Computed when the step is done, those in `found` included.
            found: What `look_up` has just found, for a request that holds no blocks.
        """
        pool = self.pool
        first_changed = len(request.blocks)
        if found:
            pool.touch(found)
            request.blocks += found
            request.num_indexed = len(found)
            if self._misses is not None:  # what was found stands behind each other here, too
                self._misses.note_indexed(request.request, request.plan, 0, len(found))
        wanted = request.layout.blocks_for(num_tokens) - len(request.blocks)
        if wanted:
            new_blocks = pool.get_new_blocks(wanted)
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
        """Gives all blocks of a request back, tail first."""
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

"""`PoolAccess`: all that the scheduler does to a pool, behind three calls."""

from __future__ import annotations

from collections.abc import Sequence

from blockpool.core.block import KVCacheBlock
from blockpool.core.pool import BlockPool
from blockpool.replay.pool_run import POOL_BLOCK_SIZE, PoolRequest
from blockpool.replay.timed.timed_request import TimedRequest

_GROUP_ID = 0
_GROUP_IDS = [_GROUP_ID]


class PoolAccess:
    """Looks up, allocates and frees for requests; what becomes full is indexed as it is allocated, as vLLM does.

    Attributes:
        pool: The pool.
    """

    def __init__(self, pool: BlockPool, rules: str) -> None:
        self.pool = pool
        self._rules = rules

    def look_up(self, request: TimedRequest) -> list[KVCacheBlock]:
        """Leading blocks of a request that holds none which are in the cache. Changes nothing."""
        limit = request.max_hit_blocks(self._rules)
        return self.pool.find_longest_prefix(request.keys, _GROUP_IDS, limit)[0]

    def allocate(self, request: TimedRequest, num_tokens: int, found: Sequence[KVCacheBlock] = ()) -> bool:
        """Makes the blocks of a request cover its first tokens, and indexes those that they fill.

        Args:
            request: Holds blocks for fewer tokens, or for as many.
            num_tokens: Computed when the step is done, those in `found` included.
            found: What `look_up` has just found, for a request that holds no blocks.

        Returns:
            False: there are not enough blocks, and nothing has changed.
        """
        pool = self.pool
        wanted = request.layout.blocks_for(num_tokens) - len(request.blocks) - len(found)
        num_idle = sum(block.ref_cnt == 0 for block in found)
        if wanted + num_idle > pool.get_num_free_blocks():
            return False
        if found:
            pool.touch(found)
            request.blocks += found
            request.num_indexed = len(found)
        if wanted:
            request.blocks += pool.get_new_blocks(wanted)
        num_full = min(request.layout.full_blocks(num_tokens), len(request.keys))
        if num_full > request.num_indexed:
            pool.cache_full_blocks(
                PoolRequest(request.keys),
                request.blocks,
                request.num_indexed,
                num_full,
                POOL_BLOCK_SIZE,
                _GROUP_ID,
            )
            request.num_indexed = num_full
        return True

    def free(self, request: TimedRequest) -> None:
        """Gives all blocks of a request back, tail first."""
        self.pool.free_blocks(reversed(request.blocks))
        request.blocks = []
        request.num_indexed = 0

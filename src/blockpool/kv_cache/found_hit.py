"""`FoundHit`: what the last look-up found, so that nobody has to compare it block by block while nothing changed."""

from __future__ import annotations

from typing import final

from blockpool.core.block_map import BlockHashToBlockMap
from blockpool.core.pool import BlockPool
from blockpool.kv_cache.blocks import KVCacheBlocks
from blockpool.kv_cache.types import RequestArg


@final
class FoundHit:
    """The result of a look-up, as it was returned, and the state of the pool then.

    A scheduler passes a hit on at once. As long as no block has lost its hash since, all of the hit holds what was
    found. Blocks are the larger part of what a look-up touches; here none is.

    Args:
        block_hashes: What was looked up.
        blocks: What was found. It cannot be changed from outside: its blocks stand in tuples.
        num_tokens: In them.
        pool: Where.
    """

    __slots__ = ("_blocks", "_groups", "_hashes", "_index", "_num_evictions", "_num_tokens")

    def __init__(
        self, block_hashes: list[bytes], blocks: KVCacheBlocks, num_tokens: int, pool: BlockPool
    ) -> None:
        self._blocks: KVCacheBlocks = blocks
        self._groups: object = blocks.blocks
        self._num_tokens: int = num_tokens
        self._hashes: object = block_hashes[: num_tokens // pool.hash_block_size]
        self._num_evictions: int = pool.num_evictions
        self._index: BlockHashToBlockMap = pool.cached_block_hash_to_block

    def is_still(self, request: RequestArg, blocks: KVCacheBlocks, num_tokens: int, pool: BlockPool) -> bool:
        """Whether this comes back, unchanged and for the same hashes, and the pool has it still. O(hits).

        No, too, when the hashes cannot be read or compared: then `require_hits` looks at them one by one, and tells.
        """
        if not (
            blocks is self._blocks
            and blocks.blocks is self._groups
            and num_tokens == self._num_tokens
            and pool.num_evictions == self._num_evictions
            and pool.cached_block_hash_to_block is self._index
        ):
            return False
        try:
            hashes = request.block_hashes
            return isinstance(hashes, list) and hashes[: num_tokens // pool.hash_block_size] == self._hashes
        except (AttributeError, ValueError):  # a comparison of arrays, say, is no truth value
            return False

"""Runs of blocks that all groups have, in as few calls of the pool as it takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from blockpool.core.block import KVCacheBlock
from blockpool.core.pool import BlockPool

FIRST_PIECE: Final = 32


def find_run(
    pool: BlockPool, block_hashes: Sequence[bytes], kv_cache_group_ids: list[int], start: int, stop: int
) -> tuple[list[KVCacheBlock], ...]:
    """Blocks start, start + 1, … that all the groups have, up to the first miss or `stop`.

    A list is searched in place or from a slice. What derives its hashes when asked is asked for pieces that double in
    size: a prompt that misses early costs little.

    Returns:
        One list per group, all of the same length.
    """
    if isinstance(block_hashes, list):
        if start == 0:
            return pool.find_longest_prefix(block_hashes, kv_cache_group_ids, stop)
        return pool.find_longest_prefix(block_hashes[start:stop], kv_cache_group_ids)
    found: list[list[KVCacheBlock]] = [[] for _ in kv_cache_group_ids]
    size = FIRST_PIECE
    while start < stop:
        end = min(start + size, stop)
        piece = pool.find_longest_prefix(block_hashes[start:end], kv_cache_group_ids)
        for blocks, more in zip(found, piece, strict=True):
            blocks.extend(more)
        if len(piece[0]) < end - start:
            break
        start = end
        size *= 2
    return tuple(found)

"""The look-up of vLLM 0.32's `FullAttentionManager`: a whole prompt in one call of the pool."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vllm.v1.core.kv_cache_utils import resolve_block_hashes

Hit = tuple[tuple[list[Any], ...], int]


def make_find_longest_cache_hit(own: Callable[..., Hit]) -> Callable[..., Hit]:
    """The look-up in vLLM's place.

    Args:
        own: vLLM's, for a pool that has no `find_longest_prefix`, and for hits that may end within a block.
    """

    def find_longest_cache_hit(
        cls: Any,
        block_hashes: Any,
        max_length: int,
        kv_cache_group_ids: list[int],
        block_pool: Any,
        kv_cache_spec: Any,
        drop_eagle_block: bool,
        alignment_tokens: int,
        dcp_world_size: int = 1,
        pcp_world_size: int = 1,
    ) -> Hit:
        find = getattr(block_pool, "find_longest_prefix", None)
        block_size = kv_cache_spec.block_size * max(dcp_world_size, 1)
        within_blocks = alignment_tokens < block_size and block_size % alignment_tokens == 0
        if find is None or within_blocks or not kv_cache_group_ids:
            return own(
                cls,
                block_hashes,
                max_length,
                kv_cache_group_ids,
                block_pool,
                kv_cache_spec,
                drop_eagle_block,
                alignment_tokens,
                dcp_world_size,
                pcp_world_size,
            )
        hashes = resolve_block_hashes(block_hashes, block_pool.hash_block_size, block_size)
        found: tuple[list[Any], ...] = find(hashes, kv_cache_group_ids, max_length // block_size)
        length = len(found[0]) * block_size
        if drop_eagle_block and length:
            length -= min(alignment_tokens, block_size)
        length -= length % alignment_tokens
        for blocks in found:
            del blocks[-(-length // block_size) :]
        return found, length

    return find_longest_cache_hit

"""The look-up of vLLM 0.16's `FullAttentionManager`: a whole prompt in one call of the pool."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vllm.v1.kv_cache_interface import ChunkedLocalAttentionSpec, FullAttentionSpec

from blockpool.core.block import KVCacheBlock

Hit = tuple[list[KVCacheBlock], ...]


def make_find_longest_cache_hit(own: Callable[..., Hit]) -> Callable[..., Hit]:
    """The look-up in vLLM's place.

    Args:
        own: vLLM's, for a pool that has no `find_longest_prefix`.
    """

    def find_longest_cache_hit(
        cls: Any,
        block_hashes: Any,
        max_length: int,
        kv_cache_group_ids: list[int],
        block_pool: Any,
        kv_cache_spec: Any,
        use_eagle: bool,
        alignment_tokens: int,
        dcp_world_size: int = 1,
        pcp_world_size: int = 1,
    ) -> Hit:
        find = getattr(block_pool, "find_longest_prefix", None)
        if find is None or not kv_cache_group_ids:
            return own(
                cls,
                block_hashes,
                max_length,
                kv_cache_group_ids,
                block_pool,
                kv_cache_spec,
                use_eagle,
                alignment_tokens,
                dcp_world_size,
                pcp_world_size,
            )
        assert isinstance(kv_cache_spec, (FullAttentionSpec, ChunkedLocalAttentionSpec))
        block_size = kv_cache_spec.block_size * dcp_world_size * pcp_world_size
        hashes = block_hashes if isinstance(block_hashes, list) else iter(block_hashes)
        found: Hit = find(hashes, kv_cache_group_ids, max(max_length // block_size, 0))
        length = len(found[0])
        if use_eagle and length:
            length -= 1
        if block_size != alignment_tokens:
            while length * block_size % alignment_tokens:
                length -= 1
        if length < len(found[0]):
            for blocks in found:
                del blocks[length:]
        return found

    return find_longest_cache_hit

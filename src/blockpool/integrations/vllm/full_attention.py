"""The look-up of vLLM's `FullAttentionManager`: a whole prompt in one call of the pool. For both lines."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from vllm.v1.kv_cache_interface import ChunkedLocalAttentionSpec, FullAttentionSpec

Blocks = tuple[list[Any], ...]
"""One list per KV cache group, all of one length."""


def make_find_longest_cache_hit(own: Callable[..., Any], hit: Callable[..., Any]) -> Callable[..., Any]:
    """The look-up in vLLM's place.

    Args:
        own: vLLM's. It gets what ours is not made for: a pool that has no `find_longest_prefix`, no group at all, a
            spec of another kind, and whatever `hit` leaves to it.
        hit: `hit_0_16` or `hit_0_32`, with vLLM's arguments in vLLM's order.
    """

    @wraps(own)
    def find_longest_cache_hit(
        cls: Any,
        block_hashes: Any,
        max_length: int,
        kv_cache_group_ids: list[int],
        block_pool: Any,
        kv_cache_spec: Any,
        *rest: Any,
        **named: Any,
    ) -> Any:
        asked = (block_hashes, max_length, kv_cache_group_ids, block_pool, kv_cache_spec)
        fitting = isinstance(kv_cache_spec, (FullAttentionSpec, ChunkedLocalAttentionSpec))
        if fitting and kv_cache_group_ids and hasattr(block_pool, "find_longest_prefix"):
            found = hit(*asked, *rest, **named)
            if found is not None:
                return found
        return own(cls, *asked, *rest, **named)

    return find_longest_cache_hit


def hit_0_16(
    block_hashes: Any,
    max_length: int,
    kv_cache_group_ids: list[int],
    block_pool: Any,
    kv_cache_spec: Any,
    use_eagle: bool,
    alignment_tokens: int,
    dcp_world_size: int = 1,
    pcp_world_size: int = 1,
) -> Blocks:
    """Whole blocks, as many as end at a multiple of the alignment, one less for EAGLE before that is looked at."""
    size = kv_cache_spec.block_size * dcp_world_size * pcp_world_size
    hashes = block_hashes if isinstance(block_hashes, list) else iter(block_hashes)
    found: Blocks = block_pool.find_longest_prefix(hashes, kv_cache_group_ids, max(max_length // size, 0))
    kept = len(found[0])
    if use_eagle and kept:
        kept -= 1
    while kept * size % alignment_tokens:
        kept -= 1
    return _shortened(found, kept)


def hit_0_32(
    block_hashes: Any,
    max_length: int,
    kv_cache_group_ids: list[int],
    block_pool: Any,
    kv_cache_spec: Any,
    drop_eagle_block: bool,
    alignment_tokens: int,
    dcp_world_size: int = 1,
    pcp_world_size: int = 1,
) -> tuple[Blocks, int] | None:
    """The blocks and the tokens of them that count; None for hits that may end within a block, which vLLM looks for."""
    size = kv_cache_spec.block_size * max(dcp_world_size, 1)
    if alignment_tokens < size and size % alignment_tokens == 0:
        return None
    found: Blocks = block_pool.find_longest_prefix(block_hashes, kv_cache_group_ids, max_length // size, size)
    num_tokens = len(found[0]) * size
    if drop_eagle_block and num_tokens:
        num_tokens -= min(size, alignment_tokens)
    num_tokens = num_tokens // alignment_tokens * alignment_tokens
    return _shortened(found, -(-num_tokens // size)), num_tokens


def _shortened(found: Blocks, num_blocks: int) -> Blocks:
    if num_blocks < len(found[0]):
        for blocks in found:
            del blocks[num_blocks:]
    return found

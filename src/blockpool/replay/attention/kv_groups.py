"""KV cache groups of a description: their specs for the manager, and the blocks that a request needs in them."""

from __future__ import annotations

from collections.abc import Sequence

from blockpool.kv_cache.config import KVCacheGroupSpec
from blockpool.kv_cache.specs import (
    ChunkedLocalAttentionSpec,
    FullAttentionSpec,
    KVCacheSpec,
    MambaSpec,
    SlidingWindowSpec,
)
from blockpool.replay.attention.grammar import ALIGNED_MAMBA, CHUNKED, FULL, MAMBA, SLIDING, AttentionPart


def kv_cache_groups(parts: Sequence[AttentionPart], block_size: int) -> list[KVCacheGroupSpec]:
    """The groups, in the order of the parts; all with blocks of `block_size` tokens."""
    groups: list[KVCacheGroupSpec] = []
    for part in parts:
        spec = _spec(part, block_size)
        groups += [KVCacheGroupSpec([], spec) for _ in range(part.num_groups)]
    return groups


def _spec(part: AttentionPart, block_size: int) -> KVCacheSpec:
    # Bytes are of no interest here: the pool counts blocks.
    if part.kind in (MAMBA, ALIGNED_MAMBA):
        mode = "align" if part.kind == ALIGNED_MAMBA else "all"
        return MambaSpec(block_size, ((1,),), ("float32",), mamba_cache_mode=mode)
    if part.kind == SLIDING:
        return SlidingWindowSpec(
            block_size, num_kv_heads=1, head_size=1, dtype="bfloat16", sliding_window=part.tokens
        )
    if part.kind == CHUNKED:
        return ChunkedLocalAttentionSpec(
            block_size, num_kv_heads=1, head_size=1, dtype="bfloat16", attention_chunk_size=part.tokens
        )
    assert part.kind == FULL
    return FullAttentionSpec(block_size, num_kv_heads=1, head_size=1, dtype="bfloat16")


def blocks_needed(
    parts: Sequence[AttentionPart], num_tokens: int, *, block_size: int, step_tokens: int
) -> int:
    """Blocks with which a request can be computed to its end, whatever it finds in the cache.

    That is what it holds at its worst moment, when a step computes as many tokens as it can: the blocks of the step,
    those before it that attention still looks at, and one because they rarely begin where a block does.

    Args:
        parts: The groups.
        num_tokens: All tokens of the request that are computed.
        block_size: Of all groups.
        step_tokens: The most that one step computes.
    """
    return sum(part.num_groups * _needed(part, num_tokens, block_size, step_tokens) for part in parts)


def _needed(part: AttentionPart, num_tokens: int, block_size: int, step_tokens: int) -> int:
    most = -(-num_tokens // block_size)
    if part.kind == FULL:
        return most
    if part.kind == ALIGNED_MAMBA:
        return min(most, 2)  # the state that a step starts from, and the one at its end
    looks_back = 1 if part.kind == MAMBA else part.tokens - 1
    return min(most, -(-(looks_back + step_tokens) // block_size) + 1)

"""What a hit is, by definition: try every length from long to short and ask for each token that will be looked at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import lcm

from blockpool.kv_cache import (
    ChunkedLocalAttentionSpec,
    FullAttentionSpec,
    KVCacheSpec,
    MambaSpec,
    SlidingWindowSpec,
)

Has = Callable[[int, int], bool]
"""(group, block) -> whether it is cached."""


def looked_at(spec: KVCacheSpec, num_tokens: int) -> set[int]:
    """The blocks with a token that the token after `num_tokens` computed ones attends to."""
    if isinstance(spec, FullAttentionSpec):
        first = 0
    elif isinstance(spec, SlidingWindowSpec):
        first = max(num_tokens + 1 - spec.sliding_window, 0)
    elif isinstance(spec, ChunkedLocalAttentionSpec):
        first = num_tokens // spec.attention_chunk_size * spec.attention_chunk_size
    else:
        assert isinstance(spec, MambaSpec)
        first = num_tokens - 1
    return {token // spec.block_size for token in range(first, num_tokens)}


def needed(spec: KVCacheSpec, num_tokens: int, use_eagle: bool) -> set[int]:
    """The blocks that a hit of so many tokens needs: with EAGLE also those of a hit one block longer."""
    size = spec.block_size
    blocks = looked_at(spec, num_tokens)
    if isinstance(spec, SlidingWindowSpec) and not use_eagle:
        blocks = blocks | {num_tokens // size - 1}  # a window of one token: one block all the same
    if use_eagle and not isinstance(spec, MambaSpec):
        blocks = blocks | looked_at(spec, num_tokens + size)
        if isinstance(spec, SlidingWindowSpec):
            blocks = blocks | {num_tokens // size}
    return blocks


def longest_hit(specs: Sequence[KVCacheSpec], has: Has, max_length: int, use_eagle: bool) -> int:
    """The tokens of the longest hit that all groups accept."""
    step = lcm(*[spec.block_size for spec in specs])
    length = _longest(specs, has, max_length, use_eagle, step)
    if use_eagle and all(isinstance(spec, MambaSpec) for spec in specs) and length > 0:
        return _longest(specs, has, length - 1, use_eagle, step)
    return length


def _longest(specs: Sequence[KVCacheSpec], has: Has, max_length: int, use_eagle: bool, step: int) -> int:
    for length in range(max_length // step * step, 0, -step):
        if all(_accepts(spec, group, has, length, max_length, use_eagle) for group, spec in enumerate(specs)):
            return length
    return 0


def _accepts(spec: KVCacheSpec, group: int, has: Has, length: int, max_length: int, use_eagle: bool) -> bool:
    wants_next = use_eagle and not isinstance(spec, MambaSpec)
    if wants_next and length + spec.block_size > max_length:
        return False
    return all(has(group, block) for block in needed(spec, length, use_eagle))

"""How many blocks a request can hold at once: for whoever sizes a pool, or must refuse what can never fit."""

from __future__ import annotations

from math import gcd

from blockpool.core.arguments import as_count, as_size
from blockpool.core.types import IntArg
from blockpool.errors import ArgumentError
from blockpool.kv_cache.config import KVCacheConfig
from blockpool.kv_cache.specs import (
    ChunkedLocalAttentionSpec,
    CrossAttentionSpec,
    KVCacheSpec,
    MambaSpec,
    SlidingWindowSpec,
)


def max_blocks_per_request(
    kv_cache_config: KVCacheConfig,
    num_tokens: IntArg,
    max_num_batched_tokens: IntArg,
    *,
    num_lookahead_tokens: IntArg = 0,
    num_encoder_tokens: IntArg = 0,
    max_model_len: IntArg | None = None,
    context_parallel_size: IntArg = 1,
) -> int:
    """Blocks that one request holds at most at once, in all groups, however it is cut into steps.

    A request that needs no more than the pool has can always run when it is alone; with one block less
    `allocate_slots` may return None forever. The null block and those of sinks come on top. In Mamba's mode "align" it
    holds as long as a step has fewer drafts than a block has tokens. O(groups).

    Args:
        kv_cache_config: The groups; its `num_blocks` is not read.
        num_tokens: Most tokens that the request will ever have, output and drafts included.
        max_num_batched_tokens: Most tokens of one step of it, drafts included.
        num_lookahead_tokens: Slots behind them.
        num_encoder_tokens: Tokens that cross attention looks at.
        max_model_len: Tokens beyond which there are no slots; None: there are always.
        context_parallel_size: Ranks among which the tokens of a block are dealt out.

    Raises:
        ArgumentError: For a wrong type.
        ConfigError: For a number out of range.
    """
    if not isinstance(kv_cache_config, KVCacheConfig):
        raise ArgumentError("kv_cache_config", kv_cache_config, "a KVCacheConfig is needed")
    length = as_size("num_tokens", num_tokens)
    step = as_size("max_num_batched_tokens", max_num_batched_tokens)
    num_lookahead = as_count("num_lookahead_tokens", num_lookahead_tokens)
    step += num_lookahead
    length += num_lookahead
    if max_model_len is not None:
        length = min(length, as_size("max_model_len", max_model_len))
    num_encoder = as_count("num_encoder_tokens", num_encoder_tokens)
    num_ranks = as_size("context_parallel_size", context_parallel_size)
    total = 0
    for group in kv_cache_config.kv_cache_groups:
        spec = group.kv_cache_spec
        size = spec.block_size * num_ranks
        if isinstance(spec, CrossAttentionSpec):
            total += _cdiv(num_encoder, size)
        else:
            total += _most_of_group(spec, size, length, step)
    return total


def _most_of_group(spec: KVCacheSpec, size: int, length: int, step: int) -> int:
    """The blocks of one group, for a request of so many tokens in steps of so many slots."""
    whole = _cdiv(length, size)
    if isinstance(spec, SlidingWindowSpec):
        return min(whole, _touched(spec.sliding_window - 1 + step, size, 1))
    if isinstance(spec, ChunkedLocalAttentionSpec):
        chunk = spec.attention_chunk_size
        return min(whole, _touched(chunk - 1 + step, size, chunk))
    if isinstance(spec, MambaSpec):
        # The state that the step starts from; in mode "align" one behind it, else one per block of the step.
        num_states = 2 if spec.mamba_cache_mode == "align" else _touched(1 + step, size, 1)
        return min(whole, num_states) + spec.num_speculative_blocks
    return whole


def _touched(span: int, size: int, start: int) -> int:
    """The most blocks that so many tokens in a row lie in, when they can begin at any multiple of `start`."""
    return _cdiv(span + size - gcd(size, start), size)


def _cdiv(number: int, divisor: int) -> int:
    return -(-number // divisor)

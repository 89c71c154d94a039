"""The KV cache as one tensor of blocks, and attention that reads it through block tables."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from blockpool.demo.arithmetic import Floats, Integers, ordered_sum, softmax_weights


class PagedKVCache:
    """Keys and values by block: the memory that the pool keeps the books of.

    With several KV cache groups a block belongs to one of them at a time, and layer n of *every* group keeps its keys
    and values in tensor n: that is how groups share one pool. A block is all NaN until somebody writes to it, so that
    whoever reads a slot that nobody wrote for him gets NaN and no plausible number.

    Args:
        num_tensors: Layers of the largest group.
        num_blocks: Blocks of the pool, the null block included.
        block_size: Slots (tokens) per block.
        num_kv_heads: Heads of keys and values.
        head_size: Numbers per head.
    """

    def __init__(
        self, num_tensors: int, num_blocks: int, block_size: int, num_kv_heads: int, head_size: int
    ) -> None:
        self.block_size = block_size
        shape = (num_tensors, num_blocks, block_size, num_kv_heads, head_size)
        self.keys = np.full(shape, np.nan, dtype=np.float32)
        self.values = np.full(shape, np.nan, dtype=np.float32)

    def write(self, tensor: int, slots: Integers, keys: Floats, values: Floats) -> None:
        """Puts new tokens into their slots.

        Args:
            tensor: Which one.
            slots: Of each token: block id * block size + offset in the block; no slot twice, none of the null block.
            keys: [tokens, KV heads, head size].
            values: As keys.
        """
        blocks, offsets = np.divmod(slots, self.block_size)
        self.keys[tensor, blocks, offsets] = keys
        self.values[tensor, blocks, offsets] = values

    def poison(self, block_ids: Iterable[int]) -> None:
        """Makes blocks unreadable, in all tensors: they have a new owner, or none."""
        ids = list(block_ids)
        self.keys[:, ids] = np.nan
        self.values[:, ids] = np.nan


def paged_attention(
    cache: PagedKVCache,
    tensor: int,
    queries: Floats,
    positions: Integers,
    block_tables: Integers,
    window: int | None,
) -> Floats:
    """Causal attention of some tokens to what their requests have in the cache, themselves included.

    Args:
        cache: Holds the keys and values of these tokens, too, and of all before them that they see.
        tensor: Which one of its tensors.
        queries: [tokens, heads, head size]; heads is a multiple of the KV heads.
        positions: [tokens], of each in its request.
        block_tables: [tokens, blocks], of each token's request; padded with 0, the null block, which also stands for
            what has left the window. Neither is looked at.
        window: How many tokens each sees, itself included; None for all.

    Returns:
        [tokens, heads, head size].
    """
    num_tokens, num_heads, head_size = queries.shape
    num_kv_heads = cache.keys.shape[-2]
    length = block_tables.shape[1] * cache.block_size
    key_positions = np.arange(length)[None, :]
    seen = key_positions <= positions[:, None]
    if window is not None:
        seen &= key_positions > positions[:, None] - window
    # Not seen is 0 instead of what stands there: slots of a block's last owner, or NaN.
    context = (num_tokens, length, num_kv_heads, 1, head_size)
    mask = seen[:, :, None, None, None]
    keys = np.where(mask, cache.keys[tensor, block_tables].reshape(context), np.float32(0.0))
    values = np.where(mask, cache.values[tensor, block_tables].reshape(context), np.float32(0.0))
    grouped = queries.reshape(num_tokens, 1, num_kv_heads, num_heads // num_kv_heads, head_size)
    scores = ordered_sum(grouped * keys, axis=4) / np.sqrt(np.float32(head_size))
    weights = softmax_weights(scores, seen[:, :, None, None], axis=1)
    return ordered_sum(weights[..., None] * values, axis=1).reshape(num_tokens, num_heads, head_size)

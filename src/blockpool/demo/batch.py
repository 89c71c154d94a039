"""From the chunks of a step to the arrays that the model computes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from blockpool.demo.arithmetic import Integers
from blockpool.demo.model import Batch
from blockpool.demo.scheduler import Chunk
from blockpool.kv_cache import KVCacheManager


def make_batch(chunks: Sequence[Chunk], manager: KVCacheManager, block_size: int) -> Batch:
    """Lays the tokens of all chunks into one row, and looks up where each goes.

    A token at position p of its request goes into slot `block_table[p // block_size] * block_size + p % block_size`.

    Args:
        chunks: At least one.
        manager: Has the block tables.
        block_size: Tokens per block.
    """
    lengths = [chunk.stop - chunk.start for chunk in chunks]
    positions = np.concatenate([np.arange(chunk.start, chunk.stop) for chunk in chunks])
    tokens = [token for chunk in chunks for token in chunk.request.all_token_ids[chunk.start : chunk.stop]]
    tables = [
        np.repeat(_pad(block_ids), lengths, axis=0)
        for block_ids in zip(
            *(manager.get_block_ids(chunk.request.request_id) for chunk in chunks), strict=True
        )
    ]
    rows = np.arange(len(positions))
    blocks, offsets = np.divmod(positions, block_size)
    ends = np.cumsum(lengths)
    samples = [chunk.stop == chunk.request.num_tokens for chunk in chunks]
    return Batch(
        token_ids=np.array(tokens),
        positions=positions,
        slots=tuple(table[rows, blocks] * block_size + offsets for table in tables),
        block_tables=tuple(tables),
        sampled_rows=ends[samples] - 1,
    )


def _pad(block_ids: Sequence[Sequence[int]]) -> Integers:
    """Block tables of one length, padded with the null block: [chunks, blocks]."""
    table = np.zeros((len(block_ids), max(map(len, block_ids))), dtype=np.int64)
    for row, ids in zip(table, block_ids, strict=True):
        row[: len(ids)] = ids
    return table

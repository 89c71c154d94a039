"""Attention through block tables against attention over plain rows; what is poisoned is never read."""

from __future__ import annotations

import pytest

pytest.importorskip("numpy", reason="the extra demo is not installed")

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from blockpool.demo.arithmetic import Floats
from blockpool.demo.paged_attention import PagedKVCache, paged_attention

BLOCK_SIZE, KV_HEADS, HEADS, HEAD_SIZE = 4, 2, 4, 6


def plain_attention(queries: Floats, keys: Floats, values: Floats, window: int | None) -> Floats:
    """Of the last tokens of one sequence, token by token and head by head."""
    mixed = np.zeros(queries.shape)
    first = len(keys) - len(queries)
    for token in range(len(queries)):
        stop = first + token + 1
        start = 0 if window is None else max(0, stop - window)
        for head in range(HEADS):
            own = head // (HEADS // KV_HEADS)
            scores = keys[start:stop, own].astype(np.float64) @ queries[token, head] / np.sqrt(HEAD_SIZE)
            weights = np.exp(scores - scores.max())
            mixed[token, head] = weights / weights.sum() @ values[start:stop, own]
    return mixed


def written(
    seed: int, length: int, block_ids: list[int], num_blocks: int
) -> tuple[PagedKVCache, Floats, Floats]:
    """A cache that holds one sequence in the given blocks, and NaN elsewhere; its keys and values as rows."""
    random = np.random.default_rng(seed)
    keys, values = random.standard_normal((2, length, KV_HEADS, HEAD_SIZE)).astype(np.float32)
    cache = PagedKVCache(2, num_blocks, BLOCK_SIZE, KV_HEADS, HEAD_SIZE)
    positions = np.arange(length)
    slots = np.array(block_ids)[positions // BLOCK_SIZE] * BLOCK_SIZE + positions % BLOCK_SIZE
    cache.write(1, slots, keys, values)
    return cache, keys, values


def make_queries(seed: int, length: int) -> Floats:
    return np.random.default_rng(seed).standard_normal((length, HEADS, HEAD_SIZE)).astype(np.float32)


@given(
    seed=st.integers(0, 2**32 - 1),
    length=st.integers(1, 23),
    window=st.none() | st.integers(1, 24),
    shuffled=st.permutations(range(1, 9)),
    data=st.data(),
)
def test_pages_change_nothing(
    seed: int, length: int, window: int | None, shuffled: list[int], data: st.DataObject
) -> None:
    """Wherever the blocks lie, however long the table is padded, and whatever has left the window."""
    block_ids = shuffled[: -(-length // BLOCK_SIZE)]
    cache, keys, values = written(seed, length, block_ids, num_blocks=9)
    num_queries = data.draw(st.integers(1, length))
    queries = make_queries(seed + 1, num_queries)
    positions = np.arange(length - num_queries, length)
    skipped = 0 if window is None else max(0, length - num_queries - window + 1) // BLOCK_SIZE
    table = [0] * skipped + block_ids[skipped:]
    padding = data.draw(st.integers(0, 3))
    tables = np.array([table + [0] * padding] * num_queries)
    mixed = paged_attention(cache, 1, queries, positions, tables, window)
    np.testing.assert_allclose(mixed, plain_attention(queries, keys, values, window), rtol=1e-4, atol=1e-5)

    other, *_ = written(seed, length, list(range(1, 1 + len(block_ids))), num_blocks=9)
    straight = np.array([range(1, 1 + len(block_ids))])
    for row in range(num_queries):
        alone = paged_attention(other, 1, queries[row : row + 1], positions[row : row + 1], straight, window)
        assert alone.tobytes() == mixed[row].tobytes(), "alone and elsewhere, it has the same bits"


def test_a_poisoned_block_spoils_whoever_sees_it_and_nobody_else() -> None:
    cache, *_ = written(0, 12, [3, 5, 2], num_blocks=6)
    queries, tables = make_queries(1, 12), np.array([[3, 5, 2]] * 12)
    positions = np.arange(12)
    cache.poison([5])
    spoilt = np.isnan(paged_attention(cache, 1, queries, positions, tables, None)).any(axis=(1, 2))
    assert spoilt.tolist() == [False] * 4 + [True] * 8
    spoilt = np.isnan(paged_attention(cache, 1, queries, positions, tables, 3)).any(axis=(1, 2))
    assert spoilt.tolist() == [False] * 4 + [True] * 6 + [False] * 2


def test_tensors_are_apart_and_fresh_blocks_are_unreadable() -> None:
    cache, *_ = written(0, 4, [1], num_blocks=3)
    assert np.isnan(cache.keys[0]).all()
    assert np.isnan(cache.values[0]).all()
    assert np.isnan(cache.keys[1, [0, 2]]).all()
    assert not np.isnan(cache.keys[1, 1]).any()
    cache.poison([])
    assert not np.isnan(cache.values[1, 1]).any()

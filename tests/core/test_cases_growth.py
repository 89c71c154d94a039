"""Cases 12 and 17: work that must not grow with the pool, or only in proportion to the tokens.

The interpreted build is measured by counting lines that run: the same on every machine, and exact but for the steps
of a search in the packed index. Both builds are measured in processor time of the thread, as the best of many rounds
and with so wide a margin that only another order of growth can break it: a step that is linear in the pool would be
100 times slower, not 8.
"""

import gc
import random
import sys
import time
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import pytest

import blockpool
from blockpool import HASH_ALGORITHMS, BlockHasher, BlockPool
from blockpool.core import block_map

from .support import FakeRequest, chain

SIZES = (1_000, 10_000, 100_000)
BATCH = 16
interpreted_only = pytest.mark.skipif(
    blockpool.COMPILED, reason="compiled functions run no traceable lines; processor time covers this build"
)


def hash_of(number: int) -> bytes:
    """One that differs in its last bytes, as digests do."""
    return number.to_bytes(32, "big")


def full_pool(size: int) -> BlockPool:
    """Every block of it idle and cached, each under a hash of its own."""
    pool = BlockPool(size + 1, True, 16)
    blocks = pool.get_new_blocks(size)
    request = FakeRequest([hash_of(i) for i in range(size)])
    pool.cache_full_blocks(request, blocks, 0, size, 16, 0)
    pool.free_blocks(reversed(blocks))
    assert tuple(pool.occupancy()) == (0, size, 0)
    return pool


def lines_run(call: Callable[[], object]) -> int:
    """How many lines of Python the call runs; those that others run at a collection of garbage are not of it."""
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        if event == "line":
            count += 1
        return trace

    before = sys.gettrace()
    gc.disable()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
        gc.enable()
    return count


def best_time(call: Callable[[], object], rounds: int) -> int:
    """Nanoseconds of this thread's processor time; interruptions only add to it, so the best is right."""
    best = sys.maxsize
    for _ in range(rounds):
        start = time.thread_time_ns()
        call()
        best = min(best, time.thread_time_ns() - start)
    return max(best, 1)


def assert_equal_lines(counts: list[int]) -> None:
    """To the line; searches in the packed index take a step more or less, by the luck of the seed."""
    if block_map.PACKED:
        assert max(counts) < 4 * min(counts)
    else:
        assert counts == [counts[0]] * len(counts)


@interpreted_only
def test_case_12_the_lines_of_an_eviction_do_not_grow_with_the_pool() -> None:
    counts = []
    for size in SIZES:
        pool = full_pool(size)
        counts.append(lines_run(lambda pool=pool: pool.get_new_blocks(BATCH)))
        assert pool.num_evictions == BATCH
    assert counts[0] > BATCH
    assert_equal_lines(counts)


def test_case_12_the_time_of_an_eviction_does_not_grow_with_the_pool() -> None:
    times = []
    for size in SIZES:
        pool = full_pool(size)
        times.append(best_time(lambda pool=pool: pool.get_new_blocks(BATCH), 50))
        assert pool.num_evictions == 50 * BATCH
    assert max(times) < 8 * times[0]


@interpreted_only
def test_freeing_touching_and_looking_up_do_not_grow_with_the_pool_either() -> None:
    counts = []
    for size in SIZES:
        pool = full_pool(size)
        hashes = [hash_of(i) for i in range(size // 2, size // 2 + BATCH)]
        found = pool.find_longest_prefix(hashes, [0])[0]
        assert len(found) == BATCH
        counts.append(
            [
                lines_run(lambda pool=pool, hashes=hashes: pool.find_longest_prefix(hashes, [0])),
                lines_run(lambda pool=pool, found=found: pool.touch(found)),
                lines_run(lambda pool=pool, found=found: pool.free_blocks(found)),
                lines_run(lambda pool=pool, found=found: pool.evict_blocks([found[0].block_id])),
                lines_run(lambda pool=pool: pool.occupancy()),
                lines_run(lambda pool=pool: pool.get_usage()),
            ]
        )
    for counts_of_one_call in zip(*counts, strict=True):
        assert_equal_lines(list(counts_of_one_call))


def test_hashes_that_share_all_but_a_few_bytes_are_indexed_as_fast_as_others() -> None:
    """In one call, too: whatever the table reads of a hash first, somebody's hashes may have it in common."""
    size = 20_000
    times = []
    for place in (0, 8, 16, 24, None):
        source = random.Random(1)
        if place is None:
            hashes = [source.randbytes(32) for _ in range(size)]
        else:
            hashes = [bytes(place) + i.to_bytes(8, "little") + bytes(24 - place) for i in range(size)]
        pool = BlockPool(size + 1, True, 16)
        blocks = pool.get_new_blocks(size)
        request = FakeRequest(hashes)
        times.append(best_time(partial(pool.cache_full_blocks, request, blocks, 0, size, 16, 0), 1))
        assert len(pool.find_longest_prefix(hashes, [0])[0]) == size
    assert max(times) < 8 * times[-1]


def grow(hasher: BlockHasher, num_tokens: int) -> list[bytes]:
    """A request that grows by one block at a time, as decoding does."""
    hashes: list[bytes] = []
    for start in range(0, num_tokens, hasher.block_size):
        parent = hashes[-1] if hashes else None
        hashes += hasher.hash_tokens(range(start, start + hasher.block_size), parent)
    return hashes


@interpreted_only
@pytest.mark.parametrize("algorithm", HASH_ALGORITHMS)
def test_case_17_the_lines_of_growing_hashes_are_linear(algorithm: str) -> None:
    hasher = BlockHasher(algorithm, 16, "0")
    grow(hasher, 16_000)  # fills whatever caches there are
    small, large = (lines_run(lambda n=n: grow(hasher, n)) for n in (1_600, 16_000))
    assert large <= 10 * small + 100
    at_once, tenfold = (lines_run(lambda n=n: hasher.hash_tokens(range(n))) for n in (1_600, 16_000))
    assert tenfold <= 10 * at_once + 100


@pytest.mark.parametrize("algorithm", HASH_ALGORITHMS)
def test_case_17_the_time_of_growing_hashes_is_linear(algorithm: str) -> None:
    """100 times the tokens take 100 times the time; were it quadratic, it would be 10,000 times."""
    hasher = BlockHasher(algorithm, 16, "0")
    grow(hasher, 100_000)
    small, large = (best_time(lambda n=n: grow(hasher, n), 3) for n in (1_000, 100_000))
    assert large < 800 * small
    assert grow(hasher, 10_000) == hasher.hash_tokens(range(10_000))


def test_a_long_prompt_is_found_in_one_call() -> None:
    """Case 12's sibling for look-ups: the time of a hit grows with the hit, not with the pool."""
    hashes = chain(range(64))
    times = []
    for size in (1_000, 100_000):
        pool = full_pool(size)
        blocks = pool.get_new_blocks(64)
        pool.cache_full_blocks(FakeRequest(hashes), blocks, 0, 64, 16, 0)
        times.append(best_time(lambda pool=pool: pool.find_longest_prefix(hashes, [0]), 50))
        assert pool.find_longest_prefix(hashes, [0]) == (blocks,)
    assert times[1] < 8 * times[0]

"""`get_new_blocks(16)` when every block that it takes must be evicted, in a large and a small pool.

The cost per call must not grow with the pool. Each round empties a stretch of the free queue in
calls of 16, timed; then, untimed, the blocks are indexed under new hashes and freed. Before each
round the processor's near caches are swept, as an engine's other work between two steps does:
otherwise the small pool, and only that, would be measured out of the first-level cache.
"""

from __future__ import annotations

import random

from benchmarks.measure import Row, Size, alternate, clock, collector_off, require_equal, smaller_row
from benchmarks.peer import PeerRequest
from blockpool import BlockPool, KVCacheBlock

BLOCK_SIZE = 16
TAKEN_PER_CALL = 16
SWEPT_BYTES = 32 << 20


class Cycle:
    """A pool whose free blocks are all indexed, and the round that keeps it so."""

    def __init__(self, num_blocks: int, calls: int) -> None:
        self.pool = BlockPool(num_blocks, True, BLOCK_SIZE)
        self.calls = calls
        self.source = random.Random(num_blocks)
        self.sweep = bytearray(SWEPT_BYTES)
        per_round = calls * TAKEN_PER_CALL
        for _ in range(num_blocks // per_round + 2):
            self.round(0)
        require_equal("idle indexed blocks", self.pool.occupancy().cached_idle, num_blocks - 1)

    def round(self, _: int) -> float:
        """Seconds per call."""
        pool, calls = self.pool, self.calls
        taken: list[list[KVCacheBlock]] = []
        get_new_blocks = pool.get_new_blocks

        self.sweep.count(1)
        start = clock()
        for _ in range(calls):
            taken.append(get_new_blocks(TAKEN_PER_CALL))
        elapsed = clock() - start
        for blocks in taken:
            hashes = [self.source.randbytes(32) for _ in blocks]
            request = PeerRequest("r", [], hashes)
            pool.cache_full_blocks(request, blocks, 0, len(blocks), BLOCK_SIZE, 0)
            pool.free_blocks(reversed(blocks))
        return elapsed / calls


def measure(size: Size, at_most: float | None) -> Row:
    """One row: µs per call, large pool against small."""
    calls = (size.small_pool_blocks - 1) // TAKEN_PER_CALL
    small, large = Cycle(size.small_pool_blocks, calls), Cycle(size.large_pool_blocks, calls)
    with collector_off():
        large_times, small_times = alternate(size.allocation_rounds, large.round, small.round)
    return smaller_row(
        "allocate",
        f"get_new_blocks({TAKEN_PER_CALL}) evicting, pool of {size.large_pool_blocks:,} blocks",
        "µs",
        [elapsed * 1e6 for elapsed in large_times],
        [elapsed * 1e6 for elapsed in small_times],
        at_most=at_most,
        against=f"pool of {size.small_pool_blocks:,}",
    )

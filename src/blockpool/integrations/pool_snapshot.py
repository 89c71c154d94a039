"""`PoolSnapshot`: all numbers of one pool at one moment. Immutable: any thread may read it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from blockpool.core.occupancy import Occupancy
from blockpool.integrations.bucket_counts import BucketCounts

if TYPE_CHECKING:  # the events layer needs its extra, and a pool without a publisher does not
    from blockpool.events.publisher import PublisherStats


class PrefixCacheTotals(NamedTuple):
    """`PrefixCacheStats`, summed up since the metrics were made.

    Attributes:
        requests: Requests admitted for the first time.
        queries: Their tokens.
        hits: How many of these were found.
        preempted_requests: Requests admitted again after a preemption.
        preempted_queries: Their tokens.
        preempted_hits: How many of these were found.
    """

    requests: int
    queries: int
    hits: int
    preempted_requests: int
    preempted_queries: int
    preempted_hits: int


class Residency(NamedTuple):
    """How long sampled blocks lived, in seconds; see `KVCacheEvictionEvent`.

    Attributes:
        lifetime: From allocation to the end.
        idle: From the last use to the end.
        reuse_gap: Between uses.
    """

    lifetime: BucketCounts
    idle: BucketCounts
    reuse_gap: BucketCounts


class PoolSnapshot(NamedTuple):
    """All numbers of one pool at one moment.

    Attributes:
        num_updates: Snapshots taken so far, this one included.
        usage: Share of the usable blocks that requests hold, 0 … 1. Cached idle blocks are not held.
        occupancy: Where the blocks are.
        num_evictions: Blocks dropped from the index so far.
        num_hashes: Keys in the index.
        num_duplicates: Blocks beside another one with the same key.
        prefix_cache: What was asked and found; None so long as nobody tells.
        evicted: Sampled blocks that were evicted; None without a `KVCacheMetricsCollector`.
        recycled: Sampled blocks that were handed out again without ever having been indexed; None likewise.
        publisher: Counts of the event publisher; None without one.
    """

    num_updates: int
    usage: float
    occupancy: Occupancy
    num_evictions: int
    num_hashes: int
    num_duplicates: int
    prefix_cache: PrefixCacheTotals | None
    evicted: Residency | None
    recycled: Residency | None
    publisher: PublisherStats | None

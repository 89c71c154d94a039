"""`PoolMetrics`: takes snapshots of a pool's numbers in the engine's thread, for others to read. Needs no extra."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, final

from blockpool.core.arguments import as_bool, as_count, require_attributes
from blockpool.core.metrics import KVCacheEvictionEvent, KVCacheMetricsCollector
from blockpool.core.pool import BlockPool
from blockpool.errors import ArgumentError, ConfigError
from blockpool.integrations.bucket_counts import RESIDENCY_BUCKETS, Histogram
from blockpool.integrations.pool_snapshot import PoolSnapshot, PrefixCacheTotals, Residency
from blockpool.kv_cache.manager import KVCacheManager
from blockpool.kv_cache.prefix_cache_stats import PrefixCacheStats

if TYPE_CHECKING:
    from blockpool.events.publisher import EventPublisher

_COUNTS = PrefixCacheTotals._fields


@final
class PoolMetrics:
    """The numbers of one pool, as of the last `update`.

    The engine's thread calls `update` and `record`; any thread reads `snapshot`, which is replaced and never changed.
    So a reader never meets the pool, and never sees half a step. Make one of them per pool: what the pool's collector
    and the manager hand over is gone from there.

    Args:
        source: The pool; or a manager, of which its pool and its prefix cache statistics are taken.
        publisher: Whose counts are shown as well.

    Attributes:
        snapshot: The numbers as of the last `update`; at first as of the construction.

    Raises:
        ArgumentError: For an argument of the wrong type.
    """

    def __init__(self, source: BlockPool | KVCacheManager, publisher: EventPublisher | None = None) -> None:
        self._manager: KVCacheManager | None = None
        if isinstance(source, KVCacheManager):
            self._manager = source
            self._pool: BlockPool = source.block_pool
        elif isinstance(source, BlockPool):
            self._pool = source
        else:
            raise ArgumentError("source", source, "a BlockPool or a KVCacheManager is needed")
        require_attributes("publisher", publisher, ("stats",))
        self._publisher = publisher
        self._num_updates = 0
        self._counted: PrefixCacheStats | None = None
        if self._manager is not None and self._manager.log_stats:
            self._counted = PrefixCacheStats()
        self._evicted: _ResidencyHistograms | None = None
        self._recycled: _ResidencyHistograms | None = None
        self.snapshot: PoolSnapshot = self._take()

    def record(self, num_tokens: int, num_hits: int, preempted: bool = False) -> None:
        """Counts one admission, in an engine without a manager, or with one that keeps no statistics. O(1).

        Args:
            num_tokens: Tokens of the request, 0 or more.
            num_hits: How many of them were found, at most all.
            preempted: Whether it was admitted before. It counts apart: it finds what it left.

        Raises:
            ArgumentError: For a wrong type.
            ConfigError: For a number out of range.
        """
        tokens, hits = as_count("num_tokens", num_tokens), as_count("num_hits", num_hits)
        if hits > tokens:
            raise ConfigError("num_hits", hits, f"there are {tokens} tokens")
        again = as_bool("preempted", preempted)
        if self._counted is None:
            self._counted = PrefixCacheStats()
        self._counted.record(tokens, hits, again)

    def update(self, prefix_cache_stats: PrefixCacheStats | None = None) -> None:
        """Takes a new snapshot: once per engine step, between calls of the pool. O(1) and what was drained.

        Drains the pool's `KVCacheMetricsCollector`, and the statistics of the manager.

        Args:
            prefix_cache_stats: What the engine took from its manager itself since the last call, to be counted, too.

        Raises:
            ArgumentError: For a wrong type.
            ConfigError: For negative counts, and for more hits than queries. Nothing has changed.
        """
        if prefix_cache_stats is not None:
            _require_counts(prefix_cache_stats)
            self._add(prefix_cache_stats)
        if self._manager is not None:
            taken = self._manager.make_prefix_cache_stats()
            if taken is not None:
                self._add(taken)
        self.snapshot = self._take()

    def _take(self) -> PoolSnapshot:
        """Reads everything; the one place that touches the pool."""
        pool, counted = self._pool, self._counted
        self._drain(pool.metrics_collector)
        index = pool.cached_block_hash_to_block
        self._num_updates += 1
        return PoolSnapshot(
            num_updates=self._num_updates,
            usage=pool.get_usage(),
            occupancy=pool.occupancy(),
            num_evictions=pool.num_evictions,
            num_hashes=len(index),
            num_duplicates=index.num_duplicates(),
            prefix_cache=None
            if counted is None
            else PrefixCacheTotals(*[getattr(counted, n) for n in _COUNTS]),
            evicted=None if self._evicted is None else self._evicted.counts,
            recycled=None if self._recycled is None else self._recycled.counts,
            publisher=None if self._publisher is None else self._publisher.stats(),
        )

    def _drain(self, collector: object) -> None:
        if not isinstance(collector, KVCacheMetricsCollector):
            return
        if self._evicted is None or self._recycled is None:
            self._evicted, self._recycled = _ResidencyHistograms(), _ResidencyHistograms()
        self._evicted.observe(collector.drain_events())
        self._recycled.observe(collector.drain_recycled())

    def _add(self, stats: PrefixCacheStats) -> None:
        if self._counted is None:
            self._counted = PrefixCacheStats()
        for name in _COUNTS:
            setattr(self._counted, name, getattr(self._counted, name) + getattr(stats, name))


@final
class _ResidencyHistograms:
    """Three histograms, and what they counted; that is made anew only when something came."""

    __slots__ = ("_gap", "_idle", "_lifetime", "counts")

    def __init__(self) -> None:
        self._lifetime = Histogram(RESIDENCY_BUCKETS)
        self._idle = Histogram(RESIDENCY_BUCKETS)
        self._gap = Histogram(RESIDENCY_BUCKETS)
        self.counts = self._counts()

    def observe(self, events: Iterable[KVCacheEvictionEvent]) -> None:
        """Counts blocks whose time has ended."""
        some = False
        for event in events:
            some = True
            self._lifetime.observe(event.lifetime_seconds)
            self._idle.observe(event.idle_seconds)
            for gap in event.reuse_gaps_seconds:
                self._gap.observe(gap)
        if some:
            self.counts = self._counts()

    def _counts(self) -> Residency:
        return Residency(self._lifetime.counts(), self._idle.counts(), self._gap.counts())


def _require_counts(stats: object) -> None:
    """Counters never go down: an engine's own statistics are looked at before they are added."""
    if not isinstance(stats, PrefixCacheStats):
        raise ArgumentError("prefix_cache_stats", stats, "PrefixCacheStats are needed")
    for name in _COUNTS:
        as_count(f"prefix_cache_stats.{name}", getattr(stats, name))
    for queries, hits in ((stats.queries, stats.hits), (stats.preempted_queries, stats.preempted_hits)):
        if hits > queries:
            raise ConfigError("prefix_cache_stats", stats, "it has more hits than queries")

"""`PoolMisses`: explains the misses of one pool, whoever plays requests on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from blockpool.core.block import KVCacheBlock
from blockpool.core.block_hash import get_block_hash
from blockpool.core.types import MetricsCollector
from blockpool.replay.curves.stack_distance import StackPass
from blockpool.replay.keys import KeyMaker
from blockpool.replay.misses.attribution import MissAttribution
from blockpool.replay.misses.miss_report import MissReport
from blockpool.replay.misses.miss_sums import MissSums, RequestPlace
from blockpool.replay.misses.reasons import EVICTED, Eviction, RequestMisses
from blockpool.replay.misses.tags import TagReader
from blockpool.replay.residency import ResidencyClock
from blockpool.replay.rules import RequestPlan
from blockpool.replay.settings import TRACE_RULES, ReplaySettings
from blockpool.trace.request import TraceRequest


class EvictionListener:
    """A metrics collector that passes everything on, and besides tells the keys of evicted blocks."""

    def __init__(self, collector: MetricsCollector, on_evicted: Callable[[Any], None]) -> None:
        self._on_evicted = on_evicted
        self._collector = collector
        self.on_block_allocated = collector.on_block_allocated
        self.on_block_accessed = collector.on_block_accessed
        self.reset = collector.reset

    def on_block_evicted(self, block: KVCacheBlock) -> None:
        """A block is about to lose its hash, if it has one."""
        key = block.block_hash
        if key is not None:
            self._on_evicted(get_block_hash(key))
        self._collector.on_block_evicted(block)


class PoolMisses:
    """Takes each request once: `begin`, then `note_refused`, or `note_looked_up` before it takes blocks.

    Then `note_indexed` tells of its blocks, at once or as they are indexed. An eviction is put down to the request that
    began last: how many requests ago it was counts those that began since.

    Memory: O(distinct blocks), for what is known and for the stack distances.
    """

    def __init__(
        self,
        blocks: int,
        settings: ReplaySettings,
        key_maker: KeyMaker,
        clock: ResidencyClock,
        *,
        overlapping: bool = False,
    ) -> None:
        """Nothing is known.

        Args:
            blocks: Usable blocks of the pool.
            settings: Rules, order of recycling and tag.
            key_maker: The one that makes the keys of the plans.
            clock: When things happen.
            overlapping: Requests hold blocks side by side, so there are no stack distances, and nobody can say by how
                many blocks the pool is too small.
        """
        self._blocks = blocks
        self._clock = clock
        self._attribution = MissAttribution(settings.rules, key_maker)
        # None, too, once an id has followed another block than before: distances are no longer defined then.
        self._distances = None if overlapping else StackPass(settings.reuse_uncached_first)
        self._tags = TagReader(settings.tag)
        self._indexes_partial_blocks = settings.rules == TRACE_RULES
        self._has_block_ids = False
        self._place = RequestPlace(0, None, 0.0, None)
        self.restart()

    def restart(self) -> None:
        """Begins to count anew; what is known stays known."""
        self._sums = MissSums()

    def begin(self, request: TraceRequest, number: int, line: int | None) -> None:
        """A request comes; see `RequestPlace`."""
        self._place = RequestPlace(number, line, self._seconds(), self._tags.of(request))
        self._has_block_ids = self._has_block_ids or request.token_ids is None

    def note_refused(self, request: TraceRequest, num_blocks: int) -> None:
        """It needs `num_blocks`, more than the pool has."""
        misses = self._attribution.explain_refused(request)
        self._sums.add(request, self._place, misses, [num_blocks - self._blocks])

    def note_looked_up(
        self, request: TraceRequest, plan: RequestPlan, num_hits: int, is_resident: Callable[[Any], bool]
    ) -> None:
        """It was looked up and has taken nothing yet; see `MissAttribution.explain`."""
        misses = self._attribution.explain(request, plan, num_hits, is_resident)
        self._sums.add(request, self._place, misses, self._blocks_too_few(plan, misses))

    def note_eviction(self, key: Any) -> None:
        """A block lost its key to make room."""
        self._attribution.note_eviction(key, Eviction(self._place.number, self._seconds()))

    def note_indexed(
        self, request: TraceRequest, plan: RequestPlan, first: int = 0, stop: int | None = None
    ) -> None:
        """Blocks of a request are indexed; see `MissAttribution.note_indexed`. All at once unless overlapping."""
        self._attribution.note_indexed(request, plan, first, stop)
        if self._distances is not None:
            num_nameless = plan.num_blocks - len(plan.keys)
            # Tokens are for hits that are counted, and none are here.
            if self._distances.play(plan.keys, plan.max_hit_blocks, [], num_nameless, False) >= 0:
                self._distances = None

    def report(self) -> MissReport:
        """What has been counted since the last `restart`.

        Raises:
            ConfigError: No request has the tag that was asked for.
        """
        return self._sums.report(
            tag=self._tags.name(),
            has_times=self._clock.unit == "seconds",
            differs_is_bound=self._has_block_ids and self._indexes_partial_blocks,
        )

    def _seconds(self) -> float:
        return self._clock() / 1e9

    def _blocks_too_few(self, plan: RequestPlan, misses: RequestMisses) -> list[int] | None:
        """For each block that was evicted, in order."""
        if self._distances is None or not misses.evictions:
            return None
        places: list[int] = []
        for run in misses.runs:
            if run.reason == EVICTED:
                places += range(run.first, run.stop)
        needed = self._distances.blocks_needed(plan.keys, places, self._blocks)
        return [size - self._blocks for size in needed] or None

"""`TimedStatistics`: counts what a scheduler does, over the window."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from blockpool.core.pool import BlockPool
from blockpool.core.types import MetricsCollector
from blockpool.replay.histogram import histogram
from blockpool.replay.keys import KeyMaker
from blockpool.replay.misses.pool_misses import EvictionListener, PoolMisses
from blockpool.replay.quantiles import QuantileSketch
from blockpool.replay.residency import ResidencyMeter, quantiles_of
from blockpool.replay.result import WindowCounts
from blockpool.replay.settings import ReplaySettings
from blockpool.replay.timed.time_weighted import TimeWeighted
from blockpool.replay.timed.timed_block_map import TimedBlockMapSampler
from blockpool.replay.timed.timed_request import TimedRequest
from blockpool.replay.timed.timed_result import PreemptionCounts, TimedPictures, TimedResult
from blockpool.replay.timed.timed_settings import NS_PER_SECOND


class EngineClock:
    """The engine's time, for the metrics collector.

    Attributes:
        now_ns: Nanoseconds.
        unit: What one second of this clock stands for.
    """

    __slots__ = ("now_ns", "unit")

    def __init__(self) -> None:
        self.now_ns = 0
        self.unit = "seconds"

    def __call__(self) -> int:
        """The time."""
        return self.now_ns


class TimedStatistics:
    """Each request counts once, when it is first admitted; its later admissions count apart.

    Attributes:
        clock: The scheduler moves it.
        collector: What the pool calls.
        misses: Why blocks missed; None unless the settings say `explain`. Whoever indexes blocks tells it.
        block_map: Where blocks are over time; None unless pictures are wanted. Whoever moves blocks tells it.
        counts: Requests and their hits.
        preemption: Preemptions and what came of them.
        over_time: Occupancy and running requests.
        steps: Steps of the engine.
    """

    def __init__(
        self,
        blocks: int,
        settings: ReplaySettings,
        first_measured: int,
        key_maker: KeyMaker,
        *,
        pictures: bool = False,
    ) -> None:
        """Starts at time 0.

        Args:
            blocks: Usable blocks of the pool.
            settings: Says how many of them are followed for residency, and whether misses are explained.
            first_measured: Number of the first request of the window, from 0.
            key_maker: The one that makes the keys of the requests.
            pictures: Collect what only a report draws, too.
        """
        self.clock = EngineClock()
        self._blocks = blocks
        self._first_measured = first_measured
        self._residency = ResidencyMeter(settings.sample_rate_for(blocks), self.clock)
        self.collector: MetricsCollector = self._residency.collector
        self.misses: PoolMisses | None = None
        if settings.explain:
            self.misses = PoolMisses(blocks, settings, key_maker, self.clock, overlapping=True)
            self.collector = EvictionListener(self.collector, self.misses.note_eviction)
        self.block_map = TimedBlockMapSampler(blocks) if pictures else None
        self._played_requests = 0
        self._played_blocks = 0
        self._latest = 0
        self._restart(0, 0)

    def arrived(self, number: int, now_ns: int, pool: BlockPool) -> None:
        """A request has come to the head of the queue. Starts counting anew with the first one of the window.

        Args:
            number: Of the request in the trace, from 0.
            now_ns: Nanoseconds of the engine's clock.
            pool: As it is.
        """
        self._latest = number
        if number == self._first_measured:
            self._restart(now_ns, pool.num_evictions)
        self.counts.requests += 1

    def refused(self, timed: TimedRequest) -> None:
        """It needs more blocks than the pool has."""
        counts = self.counts
        counts.refused += 1
        counts.largest_refused_blocks = max(counts.largest_refused_blocks, timed.num_blocks)
        if self.misses is not None:
            self.misses.begin(timed.request, timed.number, timed.line)
            self.misses.note_refused(timed.request, timed.num_blocks)

    def admitted(self, timed: TimedRequest, num_hits: int, is_resident: Callable[[Any], bool]) -> None:
        """A request is to run, for the first time or again, and takes its blocks next.

        Args:
            timed: The request.
            num_hits: Blocks found in the cache.
            is_resident: Whether the pool has a block under a key.
        """
        if timed.was_admitted:
            self.preemption.resumed += 1
            self.preemption.resumed_tokens += timed.prefill_target
            self.preemption.resumed_hit_tokens += timed.layout.tokens_in(num_hits)
            return
        request, counts = timed.request, self.counts
        counts.prompt_tokens += request.prompt_tokens
        counts.hit_tokens += request.tokens_in_first(num_hits)
        counts.prompt_blocks += request.num_prompt_blocks
        counts.hit_blocks += num_hits
        self._queueing.add((self.clock.now_ns - timed.arrival_ns) / NS_PER_SECOND)
        self._played_requests += 1
        self._played_blocks += timed.num_blocks
        if self.misses is not None:
            self.misses.begin(request, timed.number, timed.line)
            self.misses.note_looked_up(request, timed.plan, num_hits, is_resident)

    def computed(self, timed: TimedRequest, stop: int) -> None:
        """The tokens of a prefill after `timed.computed` up to `stop` are computed in this step."""
        if timed.computed < timed.most_computed:
            self.preemption.recomputed_tokens += min(stop, timed.most_computed) - timed.computed

    def first_token(self, timed: TimedRequest) -> None:
        """A request has generated its first token."""
        if timed.number >= self._first_measured:
            self._first_token.add((self.clock.now_ns - timed.arrival_ns) / NS_PER_SECOND)

    def held(self, duration_ns: int, pool: BlockPool, running: int) -> None:
        """The state of the pool holds for some time from now on.

        Args:
            duration_ns: Nanoseconds.
            pool: As it is.
            running: Requests that hold blocks.
        """
        now_ns = self.clock.now_ns
        self.over_time.hold(now_ns, duration_ns, pool.occupancy(), running, self._latest)
        if self.block_map is not None:
            self.block_map.hold(now_ns, duration_ns, self._latest)

    def step_done(self, pool: BlockPool) -> None:
        """The pool has been changed by a step."""
        self.steps += 1
        self.counts.evictions = pool.num_evictions - self._evictions_before
        self._residency.collect()

    def result(
        self, sequential: WindowCounts, seconds: float, trace_format: str | None = None, bad_lines: int = 0
    ) -> TimedResult:
        """What has been counted; see `TimedResult`.

        Args:
            sequential: Of the same requests one after the other.
            seconds: Wall time.
            trace_format: Of the trace the requests came from; None without a file.
            bad_lines: Lines of it that were skipped.
        """
        over_time = self.over_time
        return TimedResult(
            blocks=self._blocks,
            counts=self.counts,
            sequential=sequential,
            preemption=self.preemption,
            queueing=quantiles_of(self._queueing),
            first_token=quantiles_of(self._first_token),
            running_mean=over_time.mean_running,
            running_max=over_time.max_running,
            makespan=over_time.seconds,
            steps=self.steps,
            occupancy_means=over_time.means(),
            occupancy_points=tuple(over_time.points),
            occupancy_interval_ms=over_time.interval_ns / 1_000_000,
            residency=self._residency.result(),
            trace_format=trace_format,
            bad_lines=bad_lines,
            played_requests=self._played_requests,
            played_blocks=self._played_blocks,
            seconds=seconds,
            misses=None if self.misses is None else self.misses.report(),
            pictures=self._pictures(),
        )

    def _pictures(self) -> TimedPictures | None:
        if self.block_map is None:
            return None
        return TimedPictures(
            self.block_map.result(),
            self._residency.histograms(),
            histogram(self._queueing),
            histogram(self._first_token),
        )

    def _restart(self, now_ns: int, num_evictions: int) -> None:
        self.counts = WindowCounts()
        self.preemption = PreemptionCounts()
        self.over_time = TimeWeighted(now_ns)
        self.steps = 0
        self._queueing = QuantileSketch()
        self._first_token = QuantileSketch()
        self._evictions_before = num_evictions
        self._residency.restart()
        if self.misses is not None:
            self.misses.restart()
        if self.block_map is not None:
            self.block_map.restart(now_ns)

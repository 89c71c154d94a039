"""`TimedStatistics`: counts what a scheduler does, over the window."""

from __future__ import annotations

from blockpool.core.pool import BlockPool
from blockpool.replay.quantiles import QuantileSketch
from blockpool.replay.residency import ResidencyMeter, quantiles_of
from blockpool.replay.result import WindowCounts
from blockpool.replay.settings import ReplaySettings
from blockpool.replay.timed.time_weighted import TimeWeighted
from blockpool.replay.timed.timed_request import TimedRequest
from blockpool.replay.timed.timed_result import PreemptionCounts, TimedResult
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
        counts: Requests and their hits.
        preemption: Preemptions and what came of them.
        over_time: Occupancy and running requests.
        steps: Steps of the engine.
    """

    def __init__(self, blocks: int, settings: ReplaySettings, first_measured: int) -> None:
        """Starts at time 0.

        Args:
            blocks: Usable blocks of the pool.
            settings: Says how many of them are followed for residency.
            first_measured: Number of the first request of the window, from 0.
        """
        self.clock = EngineClock()
        self._blocks = blocks
        self._first_measured = first_measured
        self._residency = ResidencyMeter(settings.sample_rate_for(blocks), self.clock)
        self.collector = self._residency.collector
        self._played_requests = 0
        self._played_blocks = 0
        self._latest = 0
        self._restart(0, 0)

    def arrived(self, number: int, now_ns: int, pool: BlockPool) -> None:
        """A request has come to the head of the queue. Starts counting anew with the first one of the window."""
        self._latest = number
        if number == self._first_measured:
            self._restart(now_ns, pool.num_evictions)
        self.counts.requests += 1

    def refused(self, num_blocks: int) -> None:
        """It needs more blocks than the pool has."""
        counts = self.counts
        counts.refused += 1
        counts.largest_refused_blocks = max(counts.largest_refused_blocks, num_blocks)

    def admitted(self, timed: TimedRequest, num_hits: int) -> None:
        """A request runs, with so many blocks found in the cache: for the first time or again."""
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

    def computed(self, timed: TimedRequest, stop: int) -> None:
        """The tokens of a prefill after `timed.computed` up to `stop` are computed in this step."""
        if timed.computed < timed.most_computed:
            self.preemption.recomputed_tokens += min(stop, timed.most_computed) - timed.computed

    def first_token(self, timed: TimedRequest) -> None:
        """A request has generated its first token."""
        if timed.number >= self._first_measured:
            self._first_token.add((self.clock.now_ns - timed.arrival_ns) / NS_PER_SECOND)

    def held(self, duration_ns: int, pool: BlockPool, running: int) -> None:
        """The state of the pool holds for some time from now on."""
        self.over_time.hold(self.clock.now_ns, duration_ns, pool.occupancy(), running, self._latest)

    def step_done(self, pool: BlockPool) -> None:
        """The pool has been changed by a step."""
        self.steps += 1
        self.counts.evictions = pool.num_evictions - self._evictions_before
        self._residency.collect()

    def result(
        self, sequential: WindowCounts, seconds: float, trace_format: str | None = None, bad_lines: int = 0
    ) -> TimedResult:
        """What has been counted; see `TimedResult`."""
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

"""`TimedResult`: what one timed replay of one pool size has to say."""

from __future__ import annotations

from dataclasses import dataclass

from blockpool.replay.histogram import Histogram
from blockpool.replay.misses.miss_report import MissReport
from blockpool.replay.occupancy import OccupancyMeans, OccupancyPoint
from blockpool.replay.residency import Quantiles, Residency
from blockpool.replay.result import ReplayPictures, WindowCounts


@dataclass(slots=True)
class PreemptionCounts:
    """Requests that were pushed out while they ran, and what it cost. Counted over the time of the window.

    Attributes:
        preemptions: How often a running request lost its blocks.
        resumed: How often one was admitted again.
        resumed_tokens: Tokens, prompt and generated, that those looked up.
        resumed_hit_tokens: Those found in the cache; in no other count of hits.
        recomputed_tokens: Tokens that were computed though they had been before, because the cache had lost them.
    """

    preemptions: int = 0
    resumed: int = 0
    resumed_tokens: int = 0
    resumed_hit_tokens: int = 0
    recomputed_tokens: int = 0


@dataclass(frozen=True, slots=True)
class TimedPictures(ReplayPictures):
    """What only a report draws.

    Attributes:
        queueing: Histogram of the seconds from arrival to first admission.
        first_token: Histogram of those from arrival to the first generated token.
    """

    queueing: Histogram
    first_token: Histogram


@dataclass(frozen=True, slots=True)
class TimedResult:
    """One timed replay. Times are of the engine's clock, in which arrivals stand where `speed` has put them.

    Attributes:
        blocks: Usable blocks of the pool; the null block comes on top.
        counts: Counts over the window; hits are those of first admissions only.
        sequential: What `replay` counts of the same requests in a pool of the same size: one after the other, so that
            none holds blocks while another runs.
        preemption: Preemptions, and what the preempted found again.
        queueing: Seconds from arrival to first admission.
        first_token: Seconds from arrival to the first generated token.
        running_mean: Requests that ran, on average over time.
        running_max: The most that ran at a time.
        makespan: Seconds from the first arrival of the window until all requests have come and gone.
        steps: Steps of the engine in the window.
        occupancy_means: Over the makespan, weighted by time; None when no time passed.
        occupancy_points: The state of the pool every `occupancy_interval_ms`, at most 256.
        occupancy_interval_ms: Milliseconds from one point to the next.
        residency: Of blocks evicted in the window.
        trace_format: "mooncake", "kvcache-simulator", "token-ids"; None when the requests came from Python.
        bad_lines: Lines of the trace that were skipped.
        played_requests: Requests played, warm-up included, refused ones not.
        played_blocks: Blocks that they held at their ends.
        seconds: Wall time of it all: reading, hashing, scheduling and the pool.
        misses: Why blocks missed at first admissions; None unless the settings say `explain`.
        pictures: What only a report draws; None unless it was asked for.
    """

    blocks: int
    counts: WindowCounts
    sequential: WindowCounts
    preemption: PreemptionCounts
    queueing: Quantiles
    first_token: Quantiles
    running_mean: float
    running_max: int
    makespan: float
    steps: int
    occupancy_means: OccupancyMeans | None
    occupancy_points: tuple[OccupancyPoint, ...]
    occupancy_interval_ms: float
    residency: Residency
    trace_format: str | None
    bad_lines: int
    played_requests: int
    played_blocks: int
    seconds: float
    misses: MissReport | None = None
    pictures: TimedPictures | None = None

    @property
    def requests_per_second(self) -> float:
        """Requests played per second of wall time; 0 when the clock did not move."""
        return self.played_requests / self.seconds if self.seconds > 0 else 0.0

    @property
    def blocks_per_second(self) -> float:
        """Blocks held per second of wall time; 0 when the clock did not move."""
        return self.played_blocks / self.seconds if self.seconds > 0 else 0.0

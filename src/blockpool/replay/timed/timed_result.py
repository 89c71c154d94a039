"""`TimedResult`: what one timed replay of one pool size has to say."""

from __future__ import annotations

from dataclasses import dataclass

from blockpool.replay.histogram import Histogram
from blockpool.replay.residency import Quantiles
from blockpool.replay.result import PoolResult, ReplayPictures, WindowCounts


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


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedResult(PoolResult):
    """One timed replay; `PoolResult` has the fields of every replay.

    Times are of the engine's clock, in which arrivals stand where `speed` has put them. Occupancy is weighted by time:
    means over the makespan, points every `occupancy_interval_ms`.

    Attributes:
        sequential: What `replay` counts of the same requests in a pool of the same size: one after the other, so that
            none holds blocks while another runs.
        preemption: Preemptions, and what the preempted found again.
        queueing: Seconds from arrival to first admission.
        first_token: Seconds from arrival to the first generated token.
        running_mean: Requests that ran, on average over time.
        running_max: The most that ran at a time.
        makespan: Seconds from the first arrival of the window until all requests have come and gone.
        steps: Steps of the engine in the window.
        occupancy_interval_ms: Milliseconds from one point to the next.
    """

    sequential: WindowCounts
    preemption: PreemptionCounts
    queueing: Quantiles
    first_token: Quantiles
    running_mean: float
    running_max: int
    makespan: float
    steps: int
    occupancy_interval_ms: float
    pictures: TimedPictures | None = None

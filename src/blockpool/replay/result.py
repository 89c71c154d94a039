"""`ReplayResult`: what one replay of one pool size has to say, and what it shares with a timed one."""

from __future__ import annotations

from dataclasses import dataclass

from blockpool.replay.block_map import BlockMap
from blockpool.replay.histogram import ResidencyHistograms
from blockpool.replay.hit_rates import HitRates
from blockpool.replay.misses.miss_report import MissReport
from blockpool.replay.occupancy import OccupancyMeans, OccupancyPoint
from blockpool.replay.residency import Residency


@dataclass(slots=True)
class WindowCounts(HitRates):
    """Counted over the requests of the window.

    Refused requests are in `requests`, `refused` and `largest_refused_blocks` only.

    Attributes:
        requests: Requests of the window, refused ones included.
        refused: Requests that need more blocks than the pool has.
        largest_refused_blocks: Blocks that the largest of them needs; 0 when none was refused.
        prompt_tokens: Prompt tokens of the requests that were played.
        hit_tokens: Those found in the cache.
        prompt_blocks: Prompt blocks of the requests that were played, partial ones included.
        hit_blocks: Those found in the cache.
        evictions: Blocks whose content was dropped from the cache to make room.
    """

    requests: int = 0
    refused: int = 0
    largest_refused_blocks: int = 0
    prompt_tokens: int = 0
    hit_tokens: int = 0
    prompt_blocks: int = 0
    hit_blocks: int = 0
    evictions: int = 0


@dataclass(frozen=True, slots=True)
class ReplayPictures:
    """What only a report draws.

    Attributes:
        block_map: Where blocks were in use, idle or blank, over time.
        histograms: Of the residency.
    """

    block_map: BlockMap
    histograms: ResidencyHistograms


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolResult:
    """What a replay of one pool size has to say, in whatever way it was played.

    Attributes:
        blocks: Usable blocks of the pool; the null block comes on top.
        counts: Counts over the window; with requests side by side, hits are those of first admissions only.
        occupancy_means: Over the window, None when nothing was held; the way of playing says what is averaged.
        occupancy_points: The state of the pool over the window, evenly spread, at most 256.
        residency: Of blocks evicted in the window.
        trace_format: "mooncake", "kvcache-simulator", "token-ids"; None when the requests came from Python.
        bad_lines: Lines of the trace that were skipped.
        played_requests: Requests played, warm-up included, refused ones not.
        played_blocks: Blocks that they held at their ends.
        seconds: Wall time of it all: reading, hashing, scheduling and the pool.
        misses: Why blocks missed; None unless the settings say `explain`.
        pictures: What only a report draws; None unless it was asked for.
    """

    blocks: int
    counts: WindowCounts
    occupancy_means: OccupancyMeans | None
    occupancy_points: tuple[OccupancyPoint, ...]
    residency: Residency
    trace_format: str | None
    bad_lines: int
    played_requests: int
    played_blocks: int
    seconds: float
    misses: MissReport | None = None
    pictures: ReplayPictures | None = None

    @property
    def requests_per_second(self) -> float:
        """Requests played per second of wall time; 0 when the clock did not move."""
        return self.played_requests / self.seconds if self.seconds > 0 else 0.0

    @property
    def blocks_per_second(self) -> float:
        """Blocks held per second of wall time; 0 when the clock did not move."""
        return self.played_blocks / self.seconds if self.seconds > 0 else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayResult(PoolResult):
    """One replay, one request after the other; `PoolResult` has the fields of every replay.

    Occupancy is taken while a request is held: means over all requests that were played in the window, points of every
    `occupancy_stride`-th.

    Attributes:
        occupancy_stride: Requests from one point to the next.
    """

    occupancy_stride: int

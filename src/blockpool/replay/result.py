"""`ReplayResult`: what one replay of one pool size has to say."""

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


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """One replay.

    Attributes:
        blocks: Usable blocks of the pool; the null block comes on top.
        counts: Counts over the window.
        occupancy_means: Over all requests played in the window, taken while each was held; None without any.
        occupancy_points: The same over time, every `occupancy_stride`-th request, at most 256.
        occupancy_stride: Requests from one point to the next.
        residency: Of blocks evicted in the window.
        trace_format: "mooncake", "kvcache-simulator", "token-ids"; None when the requests came from Python.
        bad_lines: Lines of the trace that were skipped.
        played_requests: Requests played, warm-up included, refused ones not.
        played_blocks: Blocks that they held.
        seconds: Wall time of the loop over all requests: reading, hashing and the pool.
        misses: Why blocks missed; None unless the settings say `explain`.
        pictures: What only a report draws; None unless it was asked for.
    """

    blocks: int
    counts: WindowCounts
    occupancy_means: OccupancyMeans | None
    occupancy_points: tuple[OccupancyPoint, ...]
    occupancy_stride: int
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

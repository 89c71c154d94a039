"""`PoolRun`: one pool, the requests played on it, and what is counted meanwhile."""

from __future__ import annotations

from collections.abc import Iterable

from blockpool.core.block import KVCacheBlock
from blockpool.core.pool import BlockPool
from blockpool.core.types import MetricsCollector
from blockpool.replay.block_map import BlockMapSampler
from blockpool.replay.keys import KeyMaker
from blockpool.replay.misses.pool_misses import EvictionListener, PoolMisses
from blockpool.replay.occupancy import OccupancySeries
from blockpool.replay.residency import ResidencyMeter, TraceClock
from blockpool.replay.result import ReplayPictures, ReplayResult, WindowCounts
from blockpool.replay.rules import RequestPlan, plan_request
from blockpool.replay.settings import ReplaySettings, check_pool_blocks
from blockpool.trace.request import TraceRequest

_GROUP_ID = 0
_GROUP_IDS = [_GROUP_ID]
# The pool's block size matters for events only, which are off here; blocks of a trace may be of unequal size.
POOL_BLOCK_SIZE = 16


class PoolRequest:
    """What `BlockPool` reads of a request."""

    __slots__ = ("block_hashes",)

    request_id = ""  # for events only, which are off here
    all_token_ids: tuple[int, ...] = ()
    lora_request = None

    def __init__(self, block_hashes: list[bytes]) -> None:
        self.block_hashes = block_hashes


class PoolRun:
    """Plays requests one after the other on a cold pool; each is done before the next begins.

    Evictions can be looked at between two requests: `pool.num_evictions` is exact, residency is of sampled blocks.

    Attributes:
        pool: The pool, with `blocks` usable blocks and the null block.
        counts: What has been counted in the window.
    """

    def __init__(self, blocks: int, settings: ReplaySettings, *, pictures: bool = False) -> None:
        """Makes the pool.

        Args:
            blocks: Usable blocks, 1 … 100,000,000.
            settings: The window is the caller's business: `restart_window`.
            pictures: Collect what only a report draws, too.

        Raises:
            ConfigError: `blocks` is out of range.
        """
        check_pool_blocks(blocks)
        self._blocks = blocks
        self._settings = settings
        self._block_map = BlockMapSampler(blocks) if pictures else None
        self._clock = TraceClock()
        self._residency = ResidencyMeter(settings.sample_rate_for(blocks), self._clock)
        self._key_maker = KeyMaker(settings.hash_algorithm)
        self._requests_seen = 0
        self._played_requests = 0
        self._played_blocks = 0
        self._misses: PoolMisses | None = None
        collector: MetricsCollector = self._residency.collector
        if settings.explain:
            self._misses = PoolMisses(blocks, settings, self._key_maker, self._clock)
            collector = EvictionListener(collector, self._misses.note_eviction)
        self.pool = self._make_pool(collector)
        self.restart_window()

    def restart_window(self) -> None:
        """Starts counting anew, with the pool as it is."""
        self.counts = WindowCounts()
        self._occupancy = OccupancySeries()
        self._residency.restart()
        if self._misses is not None:
            self._misses.restart()
        if self._block_map is not None:
            self._block_map.restart()
        self._evictions_before = self.pool.num_evictions

    def play(self, request: TraceRequest, line: int | None = None) -> int | None:
        """Plays one request: look up, take the rest, index, give back tail first.

        A request that needs more blocks than the pool has is refused before anything is touched.

        Args:
            request: The request.
            line: Where it stands in its file, for the costliest misses.

        Returns:
            Blocks found in the cache, or None when the request was refused.

        Raises:
            ConfigError: Its timestamp comes before that of the request before; nothing has changed.
            InvariantError: With `check_every`, when the pool contradicts itself.
        """
        self._clock.advance(request.timestamp_ms)
        plan = self._plan(request)
        self.counts.requests += 1
        num_hits = None
        if self._misses is not None:
            self._misses.begin(request, self._requests_seen, line)
        if plan.num_blocks > self._blocks:
            self.counts.refused += 1
            self.counts.largest_refused_blocks = max(self.counts.largest_refused_blocks, plan.num_blocks)
            if self._misses is not None:
                self._misses.note_refused(request, plan.num_blocks)
        else:
            num_hits = self._play_plan(request, plan)
        self._requests_seen += 1
        check_every = self._settings.check_every
        if check_every and self._requests_seen % check_every == 0:
            self.pool.check_invariants()
        return num_hits

    def result(self, seconds: float, *, trace_format: str | None = None, bad_lines: int = 0) -> ReplayResult:
        """What has been counted.

        Args:
            seconds: Wall time that all `play` calls took, with whatever brought the requests.
            trace_format: Of the trace the requests came from.
            bad_lines: Lines of it that were skipped.

        Raises:
            ConfigError: No request has the field that the settings name as tag.
        """
        return ReplayResult(
            blocks=self._blocks,
            counts=self.counts,
            occupancy_means=self._occupancy.means(),
            occupancy_points=tuple(self._occupancy.points),
            occupancy_stride=self._occupancy.stride,
            residency=self._residency.result(),
            trace_format=trace_format,
            bad_lines=bad_lines,
            played_requests=self._played_requests,
            played_blocks=self._played_blocks,
            seconds=seconds,
            misses=None if self._misses is None else self._misses.report(),
            pictures=self._pictures(),
        )

    def _pictures(self) -> ReplayPictures | None:
        if self._block_map is None:
            return None
        return ReplayPictures(self._block_map.result(), self._residency.histograms())

    def _make_pool(self, collector: MetricsCollector) -> BlockPool:
        return BlockPool(
            self._blocks + 1,
            True,
            POOL_BLOCK_SIZE,
            metrics_collector=collector,
            reuse_uncached_first=self._settings.reuse_uncached_first,
        )

    def _plan(self, request: TraceRequest) -> RequestPlan:
        return plan_request(request, self._settings.rules, self._key_maker)

    def _is_resident(self, key: bytes) -> bool:
        return self.pool.get_cached_block(key, _GROUP_IDS) is not None

    def _index(
        self, request: TraceRequest, keys: list[bytes], blocks: list[KVCacheBlock], num_hits: int
    ) -> None:
        """Puts the full blocks that are new into the index."""
        pool_request = PoolRequest(keys)
        self.pool.cache_full_blocks(pool_request, blocks, num_hits, len(keys), POOL_BLOCK_SIZE, _GROUP_ID)

    def _play_plan(self, request: TraceRequest, plan: RequestPlan) -> int:
        pool = self.pool
        blocks: list[KVCacheBlock] = pool.find_longest_prefix(plan.keys, _GROUP_IDS, plan.max_hit_blocks)[0]
        num_hits = len(blocks)
        if self._misses is not None:
            self._misses.note_looked_up(request, plan, num_hits, self._is_resident)
        pool.touch(blocks)
        blocks = blocks + pool.get_new_blocks(plan.num_blocks - num_hits)
        self._index(request, plan.keys, blocks, num_hits)
        if self._misses is not None:
            self._misses.note_indexed(request, plan)
        self._note_held(request, blocks[num_hits:], blocks)
        pool.free_blocks(reversed(blocks))
        self._note_played(request, plan, num_hits)
        return num_hits

    def _note_held(
        self, request: TraceRequest, new_blocks: Iterable[KVCacheBlock], held: Iterable[KVCacheBlock]
    ) -> None:
        """Before a request gives its blocks back."""
        self._occupancy.add(self._requests_seen, request.timestamp_ms, self.pool.occupancy())
        if self._block_map is not None:
            self._block_map.add(self._requests_seen, request.timestamp_ms, new_blocks, held)

    def _note_played(self, request: TraceRequest, plan: RequestPlan, num_hits: int) -> None:
        """After it has given them back."""
        self._residency.collect()
        counts = self.counts
        counts.prompt_tokens += request.prompt_tokens
        counts.hit_tokens += request.tokens_in_first(num_hits)
        counts.prompt_blocks += request.num_prompt_blocks
        counts.hit_blocks += num_hits
        counts.evictions = self.pool.num_evictions - self._evictions_before
        self._played_requests += 1
        self._played_blocks += plan.num_blocks

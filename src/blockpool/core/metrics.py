"""How long blocks live, lie idle and wait for their next use, by sampling."""

from __future__ import annotations

import logging
import random as random_module
import time
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple, final

from blockpool.core.arguments import as_int, require_attributes
from blockpool.core.block import KVCacheBlock
from blockpool.core.types import FloatArg, MetricsCollector
from blockpool.errors import ArgumentError, ConfigError

logger = logging.getLogger("blockpool")

HISTORY_LENGTH: Final = 4
_HOOKS: Final = ("on_block_allocated", "on_block_accessed", "on_block_evicted", "reset")


class KVCacheEvictionEvent(NamedTuple):
    """The residency of one sampled block, told when it ends.

    Attributes:
        lifetime_seconds: From allocation to eviction.
        idle_seconds: From the last access (or the allocation) to eviction.
        reuse_gaps_seconds: Between the last accesses, oldest first; at most 3.
    """

    lifetime_seconds: float
    idle_seconds: float
    reuse_gaps_seconds: tuple[float, ...]


@final
class BlockMetricsState:
    """The times of one sampled block, in nanoseconds of the collector's clock.

    Attributes:
        birth_time_ns: When it was handed out.
        last_access_ns: When it was last found by a look-up; at first the birth.
        access_history: The last 4 times that it was found, oldest first.
    """

    def __init__(self, now_ns: int) -> None:
        self.birth_time_ns: int = now_ns
        self.last_access_ns: int = now_ns
        self.access_history: deque[int] = deque(maxlen=HISTORY_LENGTH)

    def record_access(self, now_ns: int) -> None:
        """Notes that the block was found."""
        self.last_access_ns = now_ns
        self.access_history.append(now_ns)

    def residency(self, now_ns: int) -> KVCacheEvictionEvent:
        """The account of a life that ends now."""
        times = list(self.access_history)
        gaps = [(times[i] - times[i - 1]) / 1e9 for i in range(1, len(times))]
        return KVCacheEvictionEvent(
            (now_ns - self.birth_time_ns) / 1e9,
            (now_ns - self.last_access_ns) / 1e9,
            tuple(gaps),
        )


@final
class KVCacheMetricsCollector:
    """Follows a random sample of the blocks that a pool hands out; the pool calls its hooks.

    Args:
        sample_rate: Share of allocations that are followed, in (0, 1].
        clock: Returns nanoseconds that never go back.
        random: Returns uniform numbers in [0, 1).

    Attributes:
        block_metrics: The blocks followed now, by block id.

    Raises:
        ArgumentError: If the rate is no number, or a source no function.
        ConfigError: If it is out of range.
    """

    def __init__(
        self,
        sample_rate: FloatArg = 0.01,
        *,
        clock: Callable[[], int] = time.monotonic_ns,
        random: Callable[[], float] = random_module.random,
    ) -> None:
        if not callable(clock):
            raise ArgumentError("clock", clock, "a function is needed")
        if not callable(random):
            raise ArgumentError("random", random, "a function is needed")
        self.sample_rate: float = _checked_rate(sample_rate)
        self.block_metrics: dict[int, BlockMetricsState] = {}
        self._clock: Callable[[], object] = clock
        self._random: Callable[[], object] = random
        self._evicted: list[KVCacheEvictionEvent] = []
        self._recycled: list[KVCacheEvictionEvent] = []

    def should_sample_block(self) -> bool:
        """Draws whether a block is followed."""
        drawn = self._random()
        if not isinstance(drawn, float):
            raise ArgumentError("random", drawn, "it must return a float in [0, 1)")
        return drawn < self.sample_rate

    def _now(self) -> int:
        return as_int("clock", self._clock())

    def on_block_allocated(self, block: KVCacheBlock) -> None:
        """A block was handed out: begins to follow it if the draw says so."""
        if self.should_sample_block():
            self.block_metrics[block.block_id] = BlockMetricsState(self._now())

    def on_block_accessed(self, block: KVCacheBlock) -> None:
        """A block was found by a look-up and taken."""
        state = self.block_metrics.get(block.block_id)
        if state is not None:
            state.record_access(self._now())

    def on_block_evicted(self, block: KVCacheBlock) -> None:
        """A block is about to lose its hash or to be handed out again: closes its account.

        One that has no hash, because it never was indexed, is no eviction and goes to `drain_recycled`.
        """
        state = self.block_metrics.pop(block.block_id, None)
        if state is not None:
            events = self._recycled if block._hash is None else self._evicted
            events.append(state.residency(self._now()))

    def reset(self) -> None:
        """Forgets everything, also what was not drained."""
        self.block_metrics.clear()
        self._evicted.clear()
        self._recycled.clear()

    def drain_events(self) -> list[KVCacheEvictionEvent]:
        """Hands over the accounts of evicted blocks, in order, and starts a new list."""
        events = self._evicted
        self._evicted = []
        return events

    def drain_recycled(self) -> list[KVCacheEvictionEvent]:
        """Hands over the accounts of blocks that were handed out again without ever having been indexed."""
        events = self._recycled
        self._recycled = []
        return events


def _checked_rate(rate: object) -> float:
    if isinstance(rate, bool) or not isinstance(rate, (int, float)):
        raise ArgumentError("sample_rate", rate, "a number is needed")
    if not 0.0 < rate <= 1.0:
        raise ConfigError("sample_rate", rate, "must be in (0, 1]")
    return float(rate)


def as_collector(value: MetricsCollector | None) -> MetricsCollector | None:
    """None, or an object that has all hooks.

    Raises:
        ArgumentError: If one is missing.
    """
    require_attributes("metrics_collector", value, _HOOKS)
    return value


def tell(hook: Callable[[KVCacheBlock], None], block: KVCacheBlock) -> None:
    """Calls a hook of a collector. A fault in it is logged: it must not leave the pool half changed."""
    try:
        hook(block)
    except Exception:
        logger.exception("a hook of the metrics collector failed for block %d", block.block_id)

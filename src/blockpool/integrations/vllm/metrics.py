"""Sampled residency, under the names of vLLM 0.16: our collector, whose reports are vLLM's. 0.32 keeps its own."""

from __future__ import annotations

import random
import time
from typing import Any

from vllm.v1.metrics.stats import KVCacheEvictionEvent

from blockpool.core import metrics
from blockpool.core.block import KVCacheBlock
from blockpool.errors import ConfigError


class BlockMetricsState:
    """The times of one sampled block, as vLLM keeps them."""

    def __init__(self) -> None:
        self._times = metrics.BlockMetricsState(time.monotonic_ns())

    @property
    def birth_time_ns(self) -> int:
        """When the block was handed out."""
        return self._times.birth_time_ns

    @property
    def last_access_ns(self) -> int:
        """When a look-up last found it."""
        return self._times.last_access_ns

    @last_access_ns.setter
    def last_access_ns(self, now_ns: int) -> None:
        self._times.last_access_ns = now_ns

    @property
    def access_history(self) -> Any:
        """The last 4 times that it was found."""
        return self._times.access_history

    def record_access(self) -> None:
        """Notes that it was found."""
        self._times.record_access(time.monotonic_ns())

    def get_lifetime_seconds(self) -> float:
        """From its allocation to now."""
        return self._times.residency(time.monotonic_ns()).lifetime_seconds

    def get_idle_time_seconds(self) -> float:
        """From its last access to now."""
        return self._times.residency(time.monotonic_ns()).idle_seconds

    def get_reuse_gaps_seconds(self) -> list[float]:
        """Between its last accesses."""
        return list(self._times.residency(time.monotonic_ns()).reuse_gaps_seconds)


class KVCacheMetricsCollector:
    """`blockpool.core.metrics.KVCacheMetricsCollector`, whose reports are vLLM's own, of both kinds together.

    Ours tells blocks that lost their hash from those that never had one. vLLM has one histogram for both, and its
    dashboards mean that: here both are told, as vLLM tells them.
    """

    def __init__(self, sample_rate: float = 0.01) -> None:
        try:
            self._inner = metrics.KVCacheMetricsCollector(
                sample_rate, clock=lambda: time.monotonic_ns(), random=lambda: random.random()
            )
        except ConfigError as error:
            raise AssertionError(str(error)) from error  # the kind that vLLM raises
        self.sample_rate = sample_rate

    def should_sample_block(self) -> bool:
        """Draws whether a block is followed."""
        return self._inner.should_sample_block()

    def on_block_allocated(self, block: KVCacheBlock) -> None:
        """A block was handed out."""
        self._inner.on_block_allocated(block)

    def on_block_accessed(self, block: KVCacheBlock) -> None:
        """A block was found by a look-up and taken."""
        self._inner.on_block_accessed(block)

    def on_block_evicted(self, block: KVCacheBlock) -> None:
        """A block is about to lose its hash or to be handed out again."""
        self._inner.on_block_evicted(block)

    def reset(self) -> None:
        """Forgets everything."""
        self._inner.reset()

    @property
    def block_metrics(self) -> dict[int, metrics.BlockMetricsState]:
        """The blocks followed now, by block id."""
        return self._inner.block_metrics

    def drain_events(self) -> list[Any]:
        """Hands over the reports and starts anew."""
        told = self._inner.drain_recycled() + self._inner.drain_events()
        return [KVCacheEvictionEvent(**report._asdict()) for report in told]

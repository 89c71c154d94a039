"""How long blocks stayed in the cache: the clock of a replay and the quantiles of what was seen."""

from __future__ import annotations

import random
from typing import NamedTuple, Protocol

from blockpool.core.metrics import KVCacheMetricsCollector
from blockpool.errors import ConfigError
from blockpool.replay.histogram import ResidencyHistograms, histogram
from blockpool.replay.quantiles import RELATIVE_ERROR, QuantileSketch
from blockpool.trace.time_order import TimeOrder

_SAMPLING_SEED = 0


class ResidencyClock(Protocol):
    """Nanoseconds.

    Attributes:
        unit: "seconds" or "requests", what one second of this clock stands for.
    """

    unit: str

    def __call__(self) -> int:
        """The time."""


class TraceClock:
    """Nanoseconds for the metrics collector: the trace's own time, or one second per request without times.

    Attributes:
        unit: "seconds" or "requests", what one second of this clock stands for.
    """

    __slots__ = ("_now_ns", "_num_requests", "_order", "unit")

    def __init__(self) -> None:
        self._now_ns = 0
        self._num_requests = 0
        self._order = TimeOrder("request")
        self.unit = "requests"

    def __call__(self) -> int:
        """The time of the request that is being played."""
        return self._now_ns

    def advance(self, timestamp_ms: float | None) -> None:
        """Moves on to the next request.

        Raises:
            ConfigError: The timestamp comes before that of the request before, or only one of them has one.
        """
        fault = self._order.fault(timestamp_ms, self._num_requests + 1)
        if fault:
            raise ConfigError("timestamp_ms", timestamp_ms, fault)
        self._num_requests += 1
        if timestamp_ms is None:
            self._now_ns += 1_000_000_000
        else:
            self.unit = "seconds"
            self._now_ns = round(timestamp_ms * 1_000_000)


class Quantiles(NamedTuple):
    """Median, p90 and p99 of `samples` numbers, each within `RELATIVE_ERROR`; None when there was none."""

    samples: int
    median: float | None
    p90: float | None
    p99: float | None


class Residency(NamedTuple):
    """Residency of the blocks that were evicted.

    Attributes:
        unit: "seconds" of trace time, or "requests" when the trace has no times.
        sample_rate: Share of blocks that were followed.
        relative_error: Bound on the error of every quantile.
        lifetime: From allocation to eviction.
        idle: From last use to eviction.
        reuse_gap: From one hit of a block to its next, of its last four hits.
        recycled: Followed blocks that were handed out again without ever having been indexed; in no quantile.
    """

    unit: str
    sample_rate: float
    relative_error: float
    lifetime: Quantiles
    idle: Quantiles
    reuse_gap: Quantiles
    recycled: int


class ResidencyMeter:
    """Follows blocks through a `KVCacheMetricsCollector` and keeps sketches, not samples.

    Attributes:
        collector: What the pool calls.
    """

    def __init__(self, sample_rate: float, clock: ResidencyClock) -> None:
        self.collector = KVCacheMetricsCollector(
            sample_rate, clock=clock, random=random.Random(_SAMPLING_SEED).random
        )
        self._sample_rate = sample_rate
        self._clock = clock
        self.restart()

    def restart(self) -> None:
        """Forgets the evictions seen so far; blocks that are being followed stay so."""
        self.collector.drain_events()
        self.collector.drain_recycled()
        self._lifetime = QuantileSketch()
        self._idle = QuantileSketch()
        self._reuse_gap = QuantileSketch()
        self._recycled = 0

    def collect(self) -> None:
        """Takes in what the collector has seen since the last call."""
        for event in self.collector.drain_events():
            self._lifetime.add(event.lifetime_seconds)
            self._idle.add(event.idle_seconds)
            for gap in event.reuse_gaps_seconds:
                self._reuse_gap.add(gap)
        self._recycled += len(self.collector.drain_recycled())

    def result(self) -> Residency:
        """What has been collected."""
        return Residency(
            unit=self._clock.unit,
            sample_rate=self._sample_rate,
            relative_error=RELATIVE_ERROR,
            lifetime=quantiles_of(self._lifetime),
            idle=quantiles_of(self._idle),
            reuse_gap=quantiles_of(self._reuse_gap),
            recycled=self._recycled,
        )

    def histograms(self) -> ResidencyHistograms:
        """How it is spread."""
        return ResidencyHistograms(
            histogram(self._lifetime), histogram(self._idle), histogram(self._reuse_gap)
        )


def quantiles_of(sketch: QuantileSketch) -> Quantiles:
    """Median, p90 and p99 of what was added."""
    return Quantiles(sketch.count, sketch.quantile(0.5), sketch.quantile(0.9), sketch.quantile(0.99))

"""How full the pool was over a run: exact means and a bounded number of points."""

from __future__ import annotations

from typing import NamedTuple

from blockpool.core.occupancy import Occupancy

MAX_POINTS = 256


class OccupancyPoint(NamedTuple):
    """The pool while one request was held or, in a timed replay, at a moment. Usable blocks by state, which sum to all.

    Attributes:
        request: Number of that request, from 0; timed, of the latest to leave the queue.
        time_ms: Its timestamp in milliseconds, or None; timed, the time on the engine's clock.
        in_use: Held by requests.
        cached_idle: Free, with content that a look-up can find.
        blank: Free, with nothing to find.
    """

    request: int
    time_ms: float | None
    in_use: int
    cached_idle: int
    blank: int


class OccupancyMeans(NamedTuple):
    """Mean blocks by state, over all requests that were held or, timed, over time; they sum to the size of the pool."""

    in_use: float
    cached_idle: float
    blank: float


class OccupancySeries:
    """Collects one sample per request. Every sample counts in the means; the points are thinned.

    Attributes:
        points: The first sample and then every `stride`-th, at most `MAX_POINTS`.
        stride: 1 at first; doubles, dropping every second point, whenever the points are too many.
    """

    def __init__(self) -> None:
        self.points: list[OccupancyPoint] = []
        self.stride = 1
        self._samples = 0
        self._in_use = 0
        self._cached_idle = 0
        self._blank = 0

    def add(self, request: int, time_ms: float | None, occupancy: Occupancy) -> None:
        """Adds the sample of one request. Amortised O(1)."""
        in_use, cached_idle, blank = occupancy
        self._in_use += in_use
        self._cached_idle += cached_idle
        self._blank += blank
        if self._samples % self.stride == 0:
            if len(self.points) == MAX_POINTS:
                del self.points[1::2]
                self.stride *= 2
            if self._samples % self.stride == 0:
                self.points.append(OccupancyPoint(request, time_ms, in_use, cached_idle, blank))
        self._samples += 1

    def means(self) -> OccupancyMeans | None:
        """Means over all samples; None when there was none."""
        if not self._samples:
            return None
        return OccupancyMeans(
            self._in_use / self._samples, self._cached_idle / self._samples, self._blank / self._samples
        )

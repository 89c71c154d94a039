"""How full the pool was and how many requests ran, weighted by time."""

from __future__ import annotations

from blockpool.core.occupancy import Occupancy
from blockpool.replay.occupancy import MAX_POINTS, OccupancyMeans, OccupancyPoint

NS_PER_MS = 1_000_000


class TimeWeighted:
    """Adds up states and how long they held. The means are exact; the points are evenly spaced in time.

    Attributes:
        points: The state at the start and then every `interval_ns`, at most `MAX_POINTS`.
        interval_ns: One millisecond at first; doubles, dropping every second point, whenever they are too many.
        start_ns: When the first state began.
        max_running: The most requests that ran at a time.
    """

    def __init__(self, start_ns: int) -> None:
        self.points: list[OccupancyPoint] = []
        self.interval_ns = NS_PER_MS
        self.start_ns = start_ns
        self.max_running = 0
        self._total_ns = 0
        self._running = 0
        self._in_use = 0
        self._cached_idle = 0
        self._blank = 0
        self._next_ns = start_ns

    def hold(self, now_ns: int, duration_ns: int, occupancy: Occupancy, running: int, request: int) -> None:
        """Adds a state that held for some time.

        Args:
            now_ns: When it began: when the one before ended.
            duration_ns: How long it held, 0 or more.
            occupancy: Of the pool.
            running: Requests that ran.
            request: Number of the request that was taken from the queue last.
        """
        in_use, cached_idle, blank = occupancy
        self._total_ns += duration_ns
        self._running += running * duration_ns
        self._in_use += in_use * duration_ns
        self._cached_idle += cached_idle * duration_ns
        self._blank += blank * duration_ns
        if running > self.max_running:
            self.max_running = running
        end_ns = now_ns + duration_ns
        while self._next_ns < end_ns:
            if len(self.points) == MAX_POINTS:
                del self.points[1::2]
                self.interval_ns *= 2
            else:
                time_ms = self._next_ns / NS_PER_MS
                self.points.append(OccupancyPoint(request, time_ms, in_use, cached_idle, blank))
            self._next_ns = self.start_ns + len(self.points) * self.interval_ns

    @property
    def seconds(self) -> float:
        """All the time that states were held."""
        return self._total_ns / 1e9

    @property
    def mean_running(self) -> float:
        """Requests that ran, on average over time; 0 when no time has passed."""
        return self._running / self._total_ns if self._total_ns else 0.0

    def means(self) -> OccupancyMeans | None:
        """Means over time; None when no time has passed."""
        total = self._total_ns
        if not total:
            return None
        return OccupancyMeans(self._in_use / total, self._cached_idle / total, self._blank / total)

"""`Histogram`: counts values by buckets; `BucketCounts`: what it counted, for other threads."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from typing import Final, NamedTuple, final

RESIDENCY_BUCKETS: Final = (
    *(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5),
    *(1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0),
)
"""Upper bounds in seconds, inclusive; vLLM's. One more bucket without a bound comes after them."""


class BucketCounts(NamedTuple):
    """Values counted so far.

    Attributes:
        cumulative: For each bound how many values were at most that; last, how many there were.
        total: Their sum.
    """

    cumulative: tuple[int, ...]
    total: float


@final
class Histogram:
    """Counts values by buckets. For one thread.

    Args:
        bounds: Upper bounds, inclusive, rising.
    """

    __slots__ = ("_bounds", "_counts", "_total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._total = 0.0

    def observe(self, value: float) -> None:
        """Counts one value. O(log bounds)."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._total += value

    def counts(self) -> BucketCounts:
        """What was counted so far. O(bounds)."""
        return BucketCounts(tuple(accumulate(self._counts)), self._total)

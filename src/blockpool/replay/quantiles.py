"""Quantiles of a stream of numbers in bounded memory, with a stated error."""

from __future__ import annotations

import math
from collections.abc import Iterator

RELATIVE_ERROR = 0.01

_GAMMA = (1 + RELATIVE_ERROR) / (1 - RELATIVE_ERROR)
_LOG_GAMMA = math.log(_GAMMA)
_SMALLEST = 1e-9  # what a clock of nanoseconds can tell from zero; keeps the number of buckets bounded
_LARGEST = 1e18


class QuantileSketch:
    """Counts numbers in buckets whose bounds grow by a factor of (1 + e) / (1 - e), e = `RELATIVE_ERROR`.

    A quantile is the middle of its bucket, so it is off by at most 1 % of the true value. Numbers below 1e-9
    count as 0, those above 1e18 as 1e18. At most 3,200 buckets, however many numbers.

    Attributes:
        count: Numbers added.
    """

    __slots__ = ("_buckets", "_zeros", "count")

    def __init__(self) -> None:
        self.count = 0
        self._zeros = 0
        self._buckets: dict[int, int] = {}

    def add(self, value: float) -> None:
        """Adds a number that is not negative. O(1)."""
        self.count += 1
        if value < _SMALLEST:
            self._zeros += 1
            return
        bucket = math.ceil(math.log(min(value, _LARGEST)) / _LOG_GAMMA)
        self._buckets[bucket] = self._buckets.get(bucket, 0) + 1

    @property
    def zeros(self) -> int:
        """Numbers that count as 0."""
        return self._zeros

    def buckets(self) -> Iterator[tuple[float, int]]:
        """Of each bucket the lower bound and how many numbers are above it, up to (1 + e) / (1 - e) times as large."""
        for bucket, count in self._buckets.items():
            yield math.exp((bucket - 1) * _LOG_GAMMA), count

    def quantile(self, fraction: float) -> float | None:
        """The number below or at which that fraction of all numbers lies.

        Args:
            fraction: Above 0, at most 1.

        Returns:
            The value of rank ceil(fraction · count), to within `RELATIVE_ERROR`; None when nothing was added.

        Complexity: O(b log b), b = buckets in use.
        """
        if not self.count:
            return None
        rank = max(1, math.ceil(fraction * self.count))
        seen = self._zeros
        if rank <= seen:
            return 0.0
        value = 0.0
        for bucket in sorted(self._buckets):
            value = 2 * math.exp(bucket * _LOG_GAMMA) / (_GAMMA + 1)
            seen += self._buckets[bucket]
            if seen >= rank:
                break
        return value

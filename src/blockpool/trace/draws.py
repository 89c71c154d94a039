"""Random draws that come out the same on every platform and in every version of Python.

Of `random.Random` only `random()` and `getrandbits()` are used, whose output is the same in all versions, and
of floats only what IEEE 754 fixes: sums, products, quotients. No logarithm, whose last bit is up to the C
library.
"""

from __future__ import annotations

import random
import struct
from bisect import bisect_right
from functools import lru_cache

VOCABULARY = 2**16


class Draws:
    """One independent stream of random draws."""

    def __init__(self, seed: int, stream: int) -> None:
        """Starts a stream.

        Args:
            seed: Of the whole workload, 0 … 2^63-1.
            stream: Which stream of that workload, 0 … 2^64-1; equal numbers give equal draws.
        """
        self._random = random.Random((seed << 64) | stream)

    def below(self, limit: int) -> int:
        """An integer in 0 … limit-1, each as likely. `limit` is at most 2^32."""
        return int(self._random.random() * limit)

    def exponential(self) -> float:
        """An exponentially distributed number with mean 1.

        Von Neumann's way, which needs comparisons only: runs of falling uniforms are drawn until one has odd
        length; its first number is the fraction, the number of runs before it the whole part.
        """
        whole = 0
        while True:
            first = last = self._random.random()
            length = 1
            while (drawn := self._random.random()) < last:
                last = drawn
                length += 1
            if length % 2:
                return whole + first
            whole += 1

    def length(self, mean: int, low: int, high: int) -> int:
        """A skewed integer in low … high, of about that mean: many small ones, few large ones."""
        return min(high, low + int(self.exponential() * (mean - low)))

    def popular(self, count: int) -> int:
        """One of `count` things, 0 … count-1, thing k with a probability that falls as 1 / (k + 1) (Zipf)."""
        sums = _harmonic_sums(count)
        return bisect_right(sums, self._random.random() * sums[-1], hi=count - 1)

    def tokens(self, count: int) -> list[int]:
        """`count` random token ids below `VOCABULARY`."""
        if not count:
            return []
        packed = self._random.getrandbits(16 * count).to_bytes(2 * count, "little")
        return list(struct.unpack(f"<{count}H", packed))


@lru_cache(maxsize=16)
def _harmonic_sums(count: int) -> list[float]:
    sums = []
    total = 0.0
    for rank in range(1, count + 1):
        total += 1.0 / rank
        sums.append(total)
    return sums

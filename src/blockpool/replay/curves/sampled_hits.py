"""`SampledHits`: hits estimated from a sample of the blocks, with the error to be expected.

What is estimated is the *misses*: each block of the sample stands for R blocks, and the hits are all look-ups, whose
number is known, less R times the misses of the sample. That is the correction SHARDS_adj, and the reason why it works:
a block that is used all the time carries many look-ups and hardly any misses, so that it hardly matters whether it was
chosen.

Two things vary from sample to sample. (1) The number of misses, as a sum over blocks of which each is in the sample
with probability 1/R: its variance is R (R - 1) times the sum over the sample of the squared misses of a block. (2) The
stack distances, which are R times the number of younger blocks in the sample: where C blocks are younger, the sample
shows C give or take the square root of C (R - 1). The bound is three standard deviations of both: the estimate at
capacities that much smaller and larger, give or take three standard deviations of the misses there.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from typing import NamedTuple

DEVIATIONS = 3.0


class SampledLookup(NamedTuple):
    """One look-up of a block of the sample: a hit from capacity `start` on (infinite: never seen before)."""

    start: float
    key: int
    tokens: int


class ErrorBound(NamedTuple):
    """Between which numbers the true ones are to be expected, three standard deviations wide."""

    least_hit_blocks: int
    most_hit_blocks: int
    least_hit_tokens: int
    most_hit_tokens: int


class SampledHits:
    """The look-ups of the sample.

    Attributes:
        one_in: R.
        lookups: Look-ups of the sample.
    """

    def __init__(
        self, one_in: int, lookups: list[SampledLookup], total_blocks: int, total_tokens: int
    ) -> None:
        """Sorts the look-ups. O(n log n).

        Args:
            one_in: One of so many blocks was chosen.
            lookups: Of the sample, in any order.
            total_blocks: Look-ups of all blocks, chosen or not.
            total_tokens: Their tokens.
        """
        self.one_in = one_in
        self.lookups = len(lookups)
        self._sorted = sorted(lookups)
        self._starts = [lookup.start for lookup in self._sorted]
        self._totals = (total_blocks, total_tokens)

    def steps(self, first: int) -> tuple[list[int], list[int], list[int]]:
        """The estimated step function from capacity `first` on: capacities, hit blocks, hit tokens. O(n)."""
        capacities, blocks, tokens = [first], [0], [0]
        missed_blocks = len(self._sorted)
        missed_tokens = sum(lookup.tokens for lookup in self._sorted)
        blocks[0], tokens[0] = self._estimate(missed_blocks, missed_tokens)
        for lookup in self._sorted:
            if math.isinf(lookup.start):
                break
            missed_blocks -= 1
            missed_tokens -= lookup.tokens
            capacity = max(first, int(lookup.start))
            if capacity != capacities[-1]:
                capacities.append(capacity)
                blocks.append(0)
                tokens.append(0)
            blocks[-1], tokens[-1] = self._estimate(missed_blocks, missed_tokens)
        return capacities, blocks, tokens

    def bound(self, capacity: int) -> ErrorBound:
        """How far the truth at a capacity may be off. O(look-ups of the sample)."""
        spread = DEVIATIONS * math.sqrt(capacity * (self.one_in - 1))
        low = self._at(capacity - spread, -DEVIATIONS)
        high = self._at(capacity + spread, DEVIATIONS)
        return ErrorBound(low[0], high[0], low[1], high[1])

    def _at(self, capacity: float, deviations: float) -> tuple[int, int]:
        missed: defaultdict[int, list[int]] = defaultdict(lambda: [0, 0])
        for lookup in self._sorted[bisect_right(self._starts, capacity) :]:
            counts = missed[lookup.key]
            counts[0] += 1
            counts[1] += lookup.tokens
        estimates = self._estimate(*(sum(counts[kind] for counts in missed.values()) for kind in (0, 1)))
        bounds = []
        for kind in (0, 1):
            squares = sum(counts[kind] ** 2 for counts in missed.values())
            deviation = math.sqrt(self.one_in * (self.one_in - 1) * squares)
            bounds.append(self._clamp(estimates[kind] + deviations * deviation, kind))
        return bounds[0], bounds[1]

    def _estimate(self, missed_blocks: int, missed_tokens: int) -> tuple[int, int]:
        blocks, tokens = self._totals
        return (
            self._clamp(blocks - self.one_in * missed_blocks, 0),
            self._clamp(tokens - self.one_in * missed_tokens, 1),
        )

    def _clamp(self, value: float, kind: int) -> int:
        return round(min(max(value, 0), self._totals[kind]))

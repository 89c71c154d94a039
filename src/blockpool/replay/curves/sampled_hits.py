"""`SampledHits`: hits estimated from a sample of the blocks, with the error to be expected.

What is estimated is the *misses*: each block of the sample stands for R blocks, and the hits are all look-ups, whose
number is known, less R times the misses of the sample. That is the correction SHARDS_adj, and the reason why it works:
a block that is used all the time carries many look-ups and hardly any misses, so that it hardly matters whether it was
chosen.

Three things may make the estimate wrong, and the bound is the sum of what each may do.

1. The number of misses, as a sum over blocks of which each is in the sample with probability 1/R: its variance is
   R (R - 1) times the sum over the sample of the squared misses of a block. Three standard deviations of it.
2. The stack distances, which are R times the number of younger blocks in the sample: where C blocks are younger, the
   sample shows C, give or take the square root of C (R - 1). Three of these, too: the estimate at capacities that
   much smaller and larger. Below 9 R that reaches down to no pool at all, which finds nothing.
3. Blocks that miss often and are not in the sample, of which its variance knows nothing. Between two misses of a block
   a pool of C blocks has used C others, so that a block misses at most 1 + uses / C times; and more than 6 R of such
   blocks escape a sample with a probability of e^-6 = 0.25 %. Nor do they have more look-ups than are missing in the
   sample.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from typing import NamedTuple

DEVIATIONS = 3.0

_UNSEEN = 6.0  # times R: how many blocks may escape a sample


class SampledLookup(NamedTuple):
    """One look-up of a block of the sample: a hit from capacity `start` on (infinite: never seen before)."""

    start: float
    key: int
    tokens: int


class ErrorBound(NamedTuple):
    """Between which numbers the true ones are to be expected."""

    least_hit_blocks: int
    most_hit_blocks: int
    least_hit_tokens: int
    most_hit_tokens: int


class Totals(NamedTuple):
    """What is known of all blocks, whether they were chosen or not.

    Attributes:
        blocks: Look-ups that are counted.
        tokens: Their tokens.
        uses: Blocks that all requests held, warm-up included.
        block_tokens: Tokens of the largest block that was looked up.
    """

    blocks: int
    tokens: int
    uses: int
    block_tokens: int


class SampledHits:
    """The look-ups of the sample.

    Attributes:
        one_in: R.
        lookups: Look-ups of the sample.
    """

    def __init__(self, one_in: int, lookups: list[SampledLookup], totals: Totals) -> None:
        """Sorts the look-ups. O(n log n).

        Args:
            one_in: One of so many blocks was chosen.
            lookups: Of the sample, in any order.
            totals: Of all blocks.
        """
        self.one_in = one_in
        self.lookups = len(lookups)
        self._sorted = sorted(lookups)
        self._starts = [lookup.start for lookup in self._sorted]
        self._totals = totals
        sums, deviations = self._misses_at(0)
        # How many look-ups blocks that are not in the sample may have beyond what the sample tells of them.
        self._unseen = [
            total - found + DEVIATIONS * deviation
            for total, found, deviation in zip(totals[:2], sums, deviations, strict=True)
        ]

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
        misses = 1 + self._totals.uses / capacity
        unseen_blocks = _UNSEEN * self.one_in * misses
        unseen = (unseen_blocks, unseen_blocks * self._totals.block_tokens)
        least, most = [0, 0], [0, 0]
        low, high = self._misses_at(capacity - spread), self._misses_at(capacity + spread)
        for kind in (0, 1):
            more = min(unseen[kind], max(0.0, self._unseen[kind]))
            if capacity > spread:
                least[kind] = self._hits(low[0][kind] + DEVIATIONS * low[1][kind] + more, kind)
            most[kind] = self._hits(high[0][kind] - DEVIATIONS * high[1][kind], kind)
        return ErrorBound(least[0], most[0], least[1], most[1])

    def _misses_at(self, capacity: float) -> tuple[list[float], list[float]]:
        """Estimated misses, blocks and tokens, and the standard deviations of these sums."""
        missed: defaultdict[int, list[int]] = defaultdict(lambda: [0, 0])
        for lookup in self._sorted[bisect_right(self._starts, capacity) :]:
            counts = missed[lookup.key]
            counts[0] += 1
            counts[1] += lookup.tokens
        sums, deviations = [0.0, 0.0], [0.0, 0.0]
        for kind in (0, 1):
            squares = sum(counts[kind] ** 2 for counts in missed.values())
            sums[kind] = self.one_in * sum(counts[kind] for counts in missed.values())
            deviations[kind] = math.sqrt(self.one_in * (self.one_in - 1) * squares)
        return sums, deviations

    def _estimate(self, missed_blocks: int, missed_tokens: int) -> tuple[int, int]:
        return self._hits(self.one_in * missed_blocks, 0), self._hits(self.one_in * missed_tokens, 1)

    def _hits(self, misses: float, kind: int) -> int:
        total = self._totals[kind]
        return round(min(max(total - misses, 0), total))

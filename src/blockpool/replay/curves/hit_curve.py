"""`HitCurve`: hits as a function of the capacity, and what can be read off it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from blockpool.errors import ConfigError
from blockpool.replay.curves.sampled_hits import SampledHits
from blockpool.replay.hit_rates import HitRates


@dataclass(frozen=True, slots=True)
class CurvePoint(HitRates):
    """One capacity.

    Attributes:
        capacity: Usable blocks.
        requests: Requests of the window, refused ones included.
        refused: Those that need more blocks than the capacity.
        prompt_tokens: Of the requests that were played.
        hit_tokens: Those found in the cache.
        prompt_blocks: Of the requests that were played, partial ones included.
        hit_blocks: Those found in the cache.
    """

    capacity: int
    requests: int
    refused: int
    prompt_tokens: int
    hit_tokens: int
    prompt_blocks: int
    hit_blocks: int


@dataclass(frozen=True, slots=True)
class HitCurve:
    """What one pass found: a step function from `largest_request_blocks` on.

    Attributes:
        requests: Requests of the window.
        prompt_tokens: Their prompt tokens.
        prompt_blocks: Their prompt blocks, partial ones included.
        largest_request_blocks: Blocks of the largest request of the whole trace. Smaller pools refuse requests and
            are not part of the curve; `replay` plays them.
        distinct_keys: Different blocks of the trace (with sampling: of the sample).
        uncertain_places: How often copies of a block made pools of different sizes differ; what follows from it is
            in the numbers.
        capacities: Where the curve changes, ascending; the first is `largest_request_blocks`.
        hit_blocks: From each of `capacities` on.
        hit_tokens: From each of `capacities` on.
        sampled: How far the numbers may be off, when they come from a sample; else None, and they are exact.
        trace_format: "mooncake", "kvcache-simulator", "token-ids"; None when the requests came from Python.
        bad_lines: Lines of the trace that were skipped.
        seconds: Wall time of the pass, reading included.
    """

    requests: int
    prompt_tokens: int
    prompt_blocks: int
    largest_request_blocks: int
    distinct_keys: int
    uncertain_places: int
    capacities: Sequence[int] = field(repr=False)
    hit_blocks: Sequence[int] = field(repr=False)
    hit_tokens: Sequence[int] = field(repr=False)
    sampled: SampledHits | None
    trace_format: str | None
    bad_lines: int
    seconds: float

    def at(self, capacity: int) -> CurvePoint:
        """The hits of a pool of so many usable blocks. O(log of the steps).

        Raises:
            ConfigError: It is below the largest request.
        """
        if capacity < self.largest_request_blocks:
            reason = (
                f"the largest request has {self.largest_request_blocks:,} blocks, a smaller pool refuses it"
            )
            raise ConfigError("capacity", capacity, reason)
        step = bisect_right(self.capacities, capacity) - 1
        return CurvePoint(
            capacity,
            self.requests,
            0,
            self.prompt_tokens,
            self.hit_tokens[step],
            self.prompt_blocks,
            self.hit_blocks[step],
        )

    @property
    def last_capacity(self) -> int:
        """From this capacity on nothing changes any more."""
        return self.capacities[-1]

    def capacity_for_share(self, share: float) -> int:
        """The smallest capacity with at least that share of the most hit tokens. O(steps).

        Args:
            share: Above 0, at most 1.
        """
        wanted = share * max(self.hit_tokens)
        return next(
            capacity
            for capacity, tokens in zip(self.capacities, self.hit_tokens, strict=True)
            if tokens >= wanted
        )

    def knee(self) -> int:
        """Where more blocks begin to bring less than they did on average. O(steps).

        The capacity at which the curve of hit tokens stands highest above the straight line from its first point to
        the smallest capacity with the most hits.
        """
        most = max(self.hit_tokens)
        end = self.capacity_for_share(1.0)
        first, lowest = self.capacities[0], self.hit_tokens[0]
        width, height = max(1, end - first), max(1, most - lowest)
        return max(
            zip(self.capacities, self.hit_tokens, strict=True),
            key=lambda step: ((step[1] - lowest) / height - (step[0] - first) / width, -step[0]),
        )[0]

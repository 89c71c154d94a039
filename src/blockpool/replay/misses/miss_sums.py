"""`MissSums`: adds up the misses of requests, per reason and per tag, and keeps the costliest."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import NamedTuple

from blockpool.replay.misses.miss_report import EvictedMisses, MissCase, MissReport, ReasonMisses, TagMisses
from blockpool.replay.misses.reasons import OTHER_KEY, REASONS, RequestMisses
from blockpool.replay.quantiles import QuantileSketch
from blockpool.replay.residency import quantiles_of
from blockpool.trace.request import TraceRequest

MAX_CASES = 10
MAX_TAGS = 20

_PLACES = {reason: place for place, reason in enumerate(REASONS)}


class RequestPlace(NamedTuple):
    """Where a request stands in a trace.

    Attributes:
        number: From 0, bad lines not counted.
        line: From 1; None without a file.
        seconds: Time by the clock of the replay, or requests where the trace has no times.
        tag: Value of the tag, or None.
    """

    number: int
    line: int | None
    seconds: float
    tag: str | None


class _Tally:
    """Blocks and tokens per reason."""

    __slots__ = ("blocks", "prompt_tokens", "requests", "tokens")

    def __init__(self) -> None:
        self.requests = 0
        self.prompt_tokens = 0
        self.blocks = [0] * len(REASONS)
        self.tokens = [0] * len(REASONS)

    def add(self, place: int, blocks: int, tokens: int) -> None:
        self.blocks[place] += blocks
        self.tokens[place] += tokens

    def include(self, other: _Tally) -> None:
        self.requests += other.requests
        self.prompt_tokens += other.prompt_tokens
        for place in range(len(REASONS)):
            self.add(place, other.blocks[place], other.tokens[place])

    def reasons(self) -> tuple[ReasonMisses, ...]:
        return tuple(map(ReasonMisses, REASONS, self.blocks, self.tokens))

    def as_tag(self, tag: str | None) -> TagMisses:
        return TagMisses(
            tag, self.requests, self.prompt_tokens, sum(self.tokens), sum(self.blocks), self.reasons()
        )


class MissSums:
    """Memory: O(different tags), whatever the number of requests."""

    def __init__(self) -> None:
        self._all = _Tally()
        self._by_tag: dict[str | None, _Tally] = {}
        self._by_kinds: dict[str, list[int]] = {}
        self._seconds_ago = QuantileSketch()
        self._requests_ago = QuantileSketch()
        self._too_few = QuantileSketch()
        self._differs_at = QuantileSketch()
        # Smallest first; of equals the later request is given up first.
        self._cases: list[tuple[int, int, MissCase]] = []

    def add(
        self,
        request: TraceRequest,
        place: RequestPlace,
        misses: RequestMisses,
        blocks_too_few: Sequence[int] | None,
    ) -> None:
        """Adds one request. O(runs + evicted blocks).

        Args:
            request: The request.
            place: Where it stands.
            misses: What it missed.
            blocks_too_few: For each block that was evicted, or one number for a request that was refused; None when
                it cannot be told.
        """
        tally = self._by_tag.get(place.tag)
        if tally is None:
            tally = self._by_tag[place.tag] = _Tally()
        tally.requests += 1
        tally.prompt_tokens += request.prompt_tokens
        if not misses.runs:
            return
        own = _Tally()
        for run in misses.runs:
            blocks = run.stop - run.first
            tokens = request.tokens_in_first(run.stop) - request.tokens_in_first(run.first)
            own.add(_PLACES[run.reason], blocks, tokens)
            if run.reason == OTHER_KEY:
                kinds = self._by_kinds.setdefault(run.kinds, [0, 0])
                kinds[0] += blocks
                kinds[1] += tokens
        self._all.include(own)
        tally.include(own)
        for eviction in misses.evictions:
            self._requests_ago.add(place.number - eviction.request)
            self._seconds_ago.add(place.seconds - eviction.seconds)
        if misses.evictions and blocks_too_few is not None:
            for too_few in blocks_too_few:
                self._too_few.add(too_few)
        if misses.differs_at is not None:
            self._differs_at.add(misses.differs_at)
        self._keep_case(request, place, misses, own, max(blocks_too_few) if blocks_too_few else None)

    def report(self, *, tag: str | None, has_times: bool, differs_is_bound: bool) -> MissReport:
        """What has been added up.

        Args:
            tag: Name of the tag; None: tags are left out.
            has_times: Whether the seconds are seconds.
            differs_is_bound: See `MissReport`.
        """
        by_tokens = sorted(
            (tally.as_tag(value) for value, tally in self._by_tag.items()),
            key=lambda row: (-row.missed_tokens, row.tag is None, row.tag or ""),
        )
        others = _Tally()
        for row in by_tokens[MAX_TAGS:]:
            others.include(self._by_tag[row.tag])
        kinds = [ReasonMisses(kinds, *sums) for kinds, sums in self._by_kinds.items()]
        return MissReport(
            missed_blocks=sum(self._all.blocks),
            missed_tokens=sum(self._all.tokens),
            reasons=self._all.reasons(),
            other_keys=tuple(sorted(kinds, key=lambda row: (-row.tokens, row.reason))),
            evicted=EvictedMisses(
                quantiles_of(self._seconds_ago) if has_times else None,
                quantiles_of(self._requests_ago),
                quantiles_of(self._too_few),
            ),
            differs_at=quantiles_of(self._differs_at),
            differs_is_bound=differs_is_bound,
            tag=tag,
            num_tags=len(by_tokens) if tag is not None else 0,
            tags=tuple(by_tokens[:MAX_TAGS]) if tag is not None else (),
            other_tags=others.as_tag(None) if tag is not None and len(by_tokens) > MAX_TAGS else None,
            cases=tuple(case for _, _, case in sorted(self._cases, reverse=True)),
        )

    def _keep_case(
        self,
        request: TraceRequest,
        place: RequestPlace,
        misses: RequestMisses,
        own: _Tally,
        blocks_too_few: int | None,
    ) -> None:
        missed_tokens = sum(own.tokens)
        if len(self._cases) == MAX_CASES and (missed_tokens, -place.number) <= self._cases[0][:2]:
            return
        case = MissCase(
            request=place.number,
            line=place.line,
            tag=place.tag,
            time_ms=request.timestamp_ms,
            prompt_tokens=request.prompt_tokens,
            missed_tokens=missed_tokens,
            missed_blocks=sum(own.blocks),
            reasons=tuple(reason for reason in own.reasons() if reason.blocks),
            differs_at=misses.differs_at,
            blocks_too_few=blocks_too_few,
        )
        heapq.heappush(self._cases, (missed_tokens, -place.number, case))
        if len(self._cases) > MAX_CASES:
            heapq.heappop(self._cases)

"""`MissReport`: why prompt blocks missed, summed up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from blockpool.replay.misses.reasons import DIFFERS
from blockpool.replay.residency import Quantiles

_BOUND_NOTE = (
    "differs is at most so much: block ids do not tell a prompt that differs from one that goes on behind "
    "another's partial last block. Engine rules, which look at full blocks only, count no such prompt."
)


class ReasonMisses(NamedTuple):
    """What missed for one reason: blocks of prompts, partial ones included, and their tokens."""

    reason: str
    blocks: int
    tokens: int


class EvictedMisses(NamedTuple):
    """Of the blocks that missed because they had been evicted, each counted as often as it missed.

    Attributes:
        seconds_ago: Time since the eviction, of the trace or, in a timed replay, of the engine; None when there are no
            times.
        requests_ago: Requests since the one that was given the room, in a timed replay since the one that had been
            admitted last.
        blocks_too_few: By how many blocks a pool must be larger to have the block. Fewer samples than the others when
            the trace has an id that follows different blocks, for from there on it cannot be told; none in a timed
            replay.
    """

    seconds_ago: Quantiles | None
    requests_ago: Quantiles
    blocks_too_few: Quantiles


class TagMisses(NamedTuple):
    """What the requests with one tag missed.

    Attributes:
        tag: The value as text; None for requests without one.
        requests: Requests of the window, refused ones included.
        prompt_tokens: Of these.
        missed_tokens: Of these.
        missed_blocks: Of these.
        reasons: One entry per reason, in the order of `REASONS`.
    """

    tag: str | None
    requests: int
    prompt_tokens: int
    missed_tokens: int
    missed_blocks: int
    reasons: tuple[ReasonMisses, ...]


class MissCase(NamedTuple):
    """One request.

    Attributes:
        request: Its number in the trace, from 0, bad lines not counted.
        line: Its line in the file, from 1; None when the requests came from Python.
        tag: Its tag, or None.
        time_ms: Its timestamp, or None.
        prompt_tokens: Length of its prompt.
        missed_tokens: How much of it missed.
        missed_blocks: The same in blocks.
        reasons: For what; without the reasons that no block had.
        differs_at: Index of the first token that differs from the nearest known continuation, or None.
        blocks_too_few: By how many blocks the pool must be larger to have all that it had evicted, or for a request
            that was refused, to have room; None when neither, or when it cannot be told.
    """

    request: int
    line: int | None
    tag: str | None
    time_ms: float | None
    prompt_tokens: int
    missed_tokens: int
    missed_blocks: int
    reasons: tuple[ReasonMisses, ...]
    differs_at: int | None
    blocks_too_few: int | None


@dataclass(frozen=True, slots=True)
class MissReport:
    """Every prompt block of the window that was not found, under exactly one reason.

    Refused requests count here, with all their blocks, and not in the rates of the replay: without the blocks of
    "no room", the sums are the prompt blocks and tokens of the replay less those that hit.

    Attributes:
        missed_blocks: All of them.
        missed_tokens: Their tokens.
        reasons: One entry per reason, in the order of `REASONS`, also where there is nothing.
        other_keys: What "other key" is made of: by what differs ("lora", "salt", "image", "lora + salt", …), most
            tokens first.
        evicted: How long ago, and for how few blocks.
        differs_at: Index of the first token that differs, of the requests that have such blocks.
        differs_is_bound: "differs" may be too large, and "never seen" too small: where block ids are played by trace
            rules, a prompt that goes on behind another's partial last block counts as differing from it.
        tag: Name of the field by which `tags` are told apart; None when there are no tags.
        num_tags: Different values of it, having none being one; 0 when there are no tags.
        tags: Those with most missed tokens, at most 20.
        other_tags: All others in one; None when there are no others. Its `tag` is None.
        cases: The ten requests that missed most tokens, most first.
    """

    missed_blocks: int
    missed_tokens: int
    reasons: tuple[ReasonMisses, ...]
    other_keys: tuple[ReasonMisses, ...]
    evicted: EvictedMisses
    differs_at: Quantiles
    differs_is_bound: bool
    tag: str | None
    num_tags: int
    tags: tuple[TagMisses, ...]
    other_tags: TagMisses | None
    cases: tuple[MissCase, ...]

    @property
    def note(self) -> str | None:
        """What has to be known of the numbers, as a sentence; None when there is nothing."""
        if self.differs_is_bound and any(row.reason == DIFFERS and row.blocks for row in self.reasons):
            return _BOUND_NOTE
        return None

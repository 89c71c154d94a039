"""What a run of the random scheduler is about, and its diary: every call, answer and state in plain numbers."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from benchmarks.manager_sides import Setting

COUNTS = ("requests", "queries", "hits", "preempted_requests", "preempted_queries", "preempted_hits")


@dataclass(frozen=True)
class Scenario:
    """A model, and which of a scheduler's habits are played on it.

    Attributes:
        prompt_tokens: Longest prompt; the shared beginnings are of all lengths up to it.
        num_lookahead_tokens: Slots asked for beyond the tokens of a step.
        draft_tokens: Most speculative tokens in a step; some are rejected after it.
        steady_drafts: Always that many: vLLM's align mode fails when a step needs fewer blocks than the last.
        external: Whether some of the prefix comes from a connector, at once or later.
        encoder_tokens: Most tokens that an encoder brings along.
        align: Steps of a prefill end at multiples of this, as Mamba's align mode wants; 0: anywhere.
        evict: Whether single blocks are dropped from the index.
        reset: Whether the index is cleared now and then.
        exact_events: Whether events are compared whole; else the hashes that they store and remove, one by one.
        overrun: Tokens that a request may have beyond `max_model_len`: an engine ends it before.
        held: Blocks from 1 on whose counts are left out, because the two sides hold them differently.
    """

    name: str
    setting: Setting
    prompt_tokens: int = 60
    num_lookahead_tokens: int = 0
    draft_tokens: int = 0
    steady_drafts: bool = False
    external: bool = False
    encoder_tokens: int = 0
    align: int = 0
    evict: bool = True
    reset: bool = True
    exact_events: bool = True
    overrun: int = 0
    held: int = 0


class Entry(NamedTuple):
    """One call, its answer, and the manager afterwards."""

    call: tuple[Any, ...]
    answer: Any
    state: tuple[Any, ...]


@dataclass
class Diary:
    """What happened in one run.

    Attributes:
        looked_up: Requests, queried tokens and hits by every look-up, those of preempted requests apart.
        admitted: The same by every admission.
        counted: The same as the manager counted it.
    """

    entries: list[Entry] = field(default_factory=list)
    hit_tokens: int = 0
    refused: int = 0
    preempted: int = 0
    finished: int = 0
    events: int = 0
    looked_up: Counter[str] = field(default_factory=Counter)
    admitted: Counter[str] = field(default_factory=Counter)
    counted: Counter[str] = field(default_factory=Counter)

    def numbers(self) -> dict[str, int]:
        """The run in a few integers, the last of which covers all of it."""
        return {
            "calls": len(self.entries),
            "hit_tokens": self.hit_tokens,
            "refused": self.refused,
            "preempted": self.preempted,
            "finished": self.finished,
            "events": self.events,
            "crc32": zlib.crc32(repr(self.entries).encode()),
        }


def first_difference(ours: Diary, theirs: Diary) -> str | None:
    """Where two diaries part, with the calls before it; None when they are the same."""
    for index, (our, their) in enumerate(zip(ours.entries, theirs.entries, strict=False)):
        if our != their:
            before = "\n".join(f"  {entry.call} -> {entry.answer}" for entry in ours.entries[:index][-8:])
            parts = [
                f"  {name}\n    ours  {ours_part}\n    vLLM  {their_part}"
                for name, ours_part, their_part in _parts(our, their)
                if ours_part != their_part
            ]
            return f"entry {index}, after\n{before}\nthe call {their.call}\n" + "\n".join(parts)
    if len(ours.entries) != len(theirs.entries):
        return f"{len(ours.entries)} calls against {len(theirs.entries)}"
    return None


def _parts(our: Entry, their: Entry) -> Iterator[tuple[str, Any, Any]]:
    yield "call", our.call, their.call
    yield "answer", our.answer, their.answer
    names = ("free queue", "counts", "hashes", "tables", "usage", "events")
    yield from zip(names, our.state, their.state, strict=True)

"""KV cache groups on one pool in the plainest possible form: every step, every token, everything by searching."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(eq=False)
class Slot:
    """A block: the group and the prefix that it holds, or None, and when it was indexed."""

    content: object = None
    indexed: int = 0


@dataclass
class PlainGroup:
    """What attention of one group looks at.

    `skipped` says how many leading tokens nobody looks at any more when so many are computed. A hit needs the blocks
    after those, at least `least` of them. `held_at_most` bounds the blocks of a request of so many blocks.
    """

    skipped: Callable[[int], int]
    least: int = 0
    looks_back: int | None = None
    table: dict[int, Slot] = field(default_factory=dict)
    num_indexed: int = 0


def full() -> PlainGroup:
    return PlainGroup(lambda computed: 0)


def sliding(window: int) -> PlainGroup:
    return PlainGroup(lambda computed: max(computed - window + 1, 0), least=1, looks_back=window - 1)


def chunked(size: int) -> PlainGroup:
    return PlainGroup(lambda computed: computed // size * size, looks_back=size - 1)


def mamba() -> PlainGroup:
    return PlainGroup(lambda computed: max(computed - 1, 0), least=1, looks_back=1)


class PlainGroups:
    """Engine rules, one request at a time."""

    def __init__(self, capacity: int, block_size: int, step: int, groups: list[PlainGroup]) -> None:
        self.queue = [Slot() for _ in range(capacity)]  # next to be recycled first
        self.capacity, self.size, self.step, self.groups = capacity, block_size, step, groups
        self.evictions = self.indexed = 0

    def needed(self, num_tokens: int) -> int:
        blocks = -(-num_tokens // self.size)
        bounds = [
            blocks
            if group.looks_back is None
            else min(blocks, -(-(group.looks_back + self.step) // self.size) + 1)
            for group in self.groups
        ]
        return sum(bounds)

    def play(self, prompt: list[int], output: list[int]) -> int | None:
        """Returns the number of hit blocks; None for a request that is refused."""
        tokens = prompt + output[:-1]
        if self.needed(len(tokens)) > self.capacity:
            return None
        hits = (len(prompt) - 1) // self.size
        while not self.accepted(tokens, hits):
            hits -= 1
        for group in self.groups:
            first = group.skipped(hits * self.size) // self.size
            group.table = {place: self.copy(group, tokens, place) or Slot() for place in range(first, hits)}
            group.num_indexed = max(first, hits)
            for slot in group.table.values():
                self.queue.remove(slot)
        computed = hits * self.size
        while computed < len(tokens):
            count = min(self.step, len(prompt) - computed) if computed < len(prompt) else 1
            self.take_step(tokens, computed, computed + count)
            computed += count
        for group in self.groups:
            self.queue.extend(group.table[place] for place in sorted(group.table, reverse=True))
        return hits

    def accepted(self, tokens: list[int], hits: int) -> bool:
        for group in self.groups:
            first = min(group.skipped(hits * self.size) // self.size, max(hits - group.least, 0))
            if any(self.copy(group, tokens, place) is None for place in range(first, hits)):
                return False
        return True

    def copy(self, group: PlainGroup, tokens: list[int], place: int) -> Slot | None:
        content = self.content(group, tokens, place)
        copies = [slot for slot in self.queue if slot.content == content]
        return min(copies, key=lambda slot: slot.indexed, default=None)

    def content(self, group: PlainGroup, tokens: list[int], place: int) -> object:
        return id(group), tuple(tokens[: (place + 1) * self.size])

    def take_step(self, tokens: list[int], start: int, stop: int) -> None:
        for group in self.groups:
            gone = [place for place in group.table if place < group.skipped(start) // self.size]
            self.queue.extend(group.table.pop(place) for place in sorted(gone, reverse=True))
        for group in self.groups:
            begun = max(group.table, default=group.num_indexed - 1) + 1
            for place in range(max(begun, group.num_indexed), -(-stop // self.size)):
                slot = self.queue.pop(0)
                self.evictions += slot.content is not None
                slot.content = None
                group.table[place] = slot
        for group in self.groups:
            for place in range(group.num_indexed, stop // self.size):
                self.indexed += 1
                group.table[place].content = self.content(group, tokens, place)
                group.table[place].indexed = self.indexed
            group.num_indexed = max(group.num_indexed, stop // self.size)

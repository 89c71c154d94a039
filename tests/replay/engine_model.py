"""An engine's use of a block pool in the plainest possible form: lists, tuples, everything by searching."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(eq=False)
class Slot:
    """A block: the whole prefix it holds, or None, and when it was filled."""

    prefix: object = None
    filled: int = 0


class EngineModel:
    """Engine rules, one request at a time."""

    def __init__(self, capacity: int, block_size: int, *, reuse_uncached_first: bool) -> None:
        self.queue = [Slot() for _ in range(capacity)]  # next to be recycled first
        self.block_size = block_size
        self.reuse_uncached_first = reuse_uncached_first
        self.evictions = 0
        self.fills = 0

    def play(self, scope: object, prompt: list[int], output: list[int]) -> int | None:
        """Returns the number of hit blocks; None for a request that does not fit."""
        computed = prompt + output[:-1]
        size = self.block_size
        num_blocks = (len(computed) + size - 1) // size
        if num_blocks > len(self.queue):
            return None
        prefixes = [
            (scope, tuple(computed[: end + size])) for end in range(0, len(computed) - size + 1, size)
        ]
        held: list[Slot] = []
        for prefix in prefixes:
            copies = [slot for slot in self.queue if slot.prefix == prefix]
            if not copies or (len(held) + 1) * size > len(prompt) - 1:
                break
            held.append(min(copies, key=lambda slot: slot.filled))
        hits = len(held)
        for slot in held:
            self.queue.remove(slot)
        for position in range(hits, num_blocks):
            slot = self.queue.pop(0)
            self.evictions += slot.prefix is not None
            slot.prefix = prefixes[position] if position < len(prefixes) else None
            self.fills += 1
            slot.filled = self.fills
            held.append(slot)
        held.reverse()
        if self.reuse_uncached_first:
            self.queue[:0] = [slot for slot in held if slot.prefix is None]
            held = [slot for slot in held if slot.prefix is not None]
        self.queue.extend(held)
        return hits

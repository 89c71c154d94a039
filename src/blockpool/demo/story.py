"""The totals of a run, and its last events in words."""

from __future__ import annotations

from collections import deque

from blockpool.demo.frame import Frame

_KEPT = 3


class Story:
    """Grows with each frame.

    Attributes:
        events: Of the last few steps in which something happened, in words.
        computed: Tokens computed so far, again after a preemption included.
        found: Tokens found in the cache so far.
        evicted: Blocks evicted so far.
        preempted: Preemptions so far.
        finished: Requests done.
    """

    def __init__(self) -> None:
        self.events: deque[str] = deque(maxlen=_KEPT)
        self.computed = 0
        self.found = 0
        self.evicted = 0
        self.preempted = 0
        self.finished = 0

    def add(self, frame: Frame) -> None:
        """Takes in a step."""
        self.computed += frame.num_tokens
        self.found += frame.found
        self.evicted += frame.evicted
        self.preempted += len(frame.preempted)
        self.finished += len(frame.finished)
        words = []
        if frame.found:
            words.append(f"{frame.found} tokens found in {_blocks(frame.hits)}")
        if frame.evicted:
            words.append(f"{_blocks(frame.evicted)} evicted from the cache")
        if frame.preempted:
            words.append(f"{', '.join(frame.preempted)} preempted")
        if frame.finished:
            words.append(f"{', '.join(frame.finished)} done")
        if words:
            self.events.append(f"step {frame.step}: {'; '.join(words)}")


def _blocks(number: int) -> str:
    return f"{number} block{'s' if number != 1 else ''}"

"""`PublishQueue`: what waits to be published. Bounded; what does not fit is not sent, but not forgotten either."""

from __future__ import annotations

import os
import threading
from collections import deque
from typing import NamedTuple, TypeAlias, final
from weakref import WeakSet

from blockpool.core.event_log import EventLog
from blockpool.events.index_mirror import IndexMirror
from blockpool.events.wire_events import AnyEvent

Events: TypeAlias = "EventLog | list[AnyEvent]"


_QUEUES: WeakSet[PublishQueue] = WeakSet()


class PendingBatch(NamedTuple):
    """A batch that has its number and waits to be sent."""

    seq: int
    ts: float
    events: Events


@final
class SkippedBatches:
    """Batches that will never be sent, and what they did to the index.

    Attributes:
        last_seq: Number of the last of them.
        change: Their effect, bounded by the size of the index; None if nobody needs it.
    """

    def __init__(self, change: IndexMirror | None) -> None:
        self.last_seq: int = -1
        self.change: IndexMirror | None = change

    def add(self, seq: int, events: Events) -> None:
        """One more."""
        self.last_seq = seq
        if self.change is not None:
            self.change.apply(events)


@final
class PublishQueue:
    """Between the caller, who never waits, and the thread that sends.

    The thread waits at a condition and not at a socket: to wake it costs the caller no system call that would hand the
    interpreter over to it.

    Args:
        max_size: Batches that may wait, at least 1.
        keep_changes: Whether what dropped batches did to the index is wanted.
    """

    def __init__(self, max_size: int, keep_changes: bool) -> None:
        self._max_size = max_size
        self._keep_changes = keep_changes
        self._items: deque[PendingBatch | SkippedBatches] = deque()
        self._make_locks()
        self._closed = False
        _QUEUES.add(self)
        self._busy = False
        self.next_seq: int = 0
        self.num_dropped: int = 0
        self.num_waiting: int = 0
        """Batches that are to be sent; those that were dropped have an entry, too, but wait for nothing."""

    def __len__(self) -> int:
        return len(self._items)

    def put(self, ts: float, events: Events) -> int:
        """Gives the batch a number and lets it wait, or drops it: never blocks. For one caller at a time.

        Returns:
            The number, or -1 if the queue is closed.
        """
        with self._lock:
            if self._closed:
                return -1
            seq = self.next_seq
            self.next_seq += 1
            if len(self._items) < self._max_size:
                self._items.append(PendingBatch(seq, ts, events))
                self.num_waiting += 1
            else:
                self._drop(seq, events)
            self._something.notify()
        return seq

    def take(self, timeout: float) -> PendingBatch | SkippedBatches | None:
        """The next, for which it waits up to so many seconds; None: there is none, or the queue is closed."""
        with self._lock:
            self._busy = False
            if not self._items:
                self._nothing.notify_all()
                if not self._closed:
                    self._something.wait(timeout)
            if not self._items:
                return None
            self._busy = True
            item = self._items.popleft()
            if isinstance(item, PendingBatch):
                self.num_waiting -= 1
            return item

    def wait_until_empty(self, timeout: float) -> bool:
        """Whether everything was taken and dealt with within so many seconds."""
        with self._lock:
            return self._nothing.wait_for(lambda: not self._items and not self._busy, timeout)

    @property
    def closed(self) -> bool:
        """Whether nothing more comes in."""
        return self._closed

    def close(self) -> None:
        """Lets nothing more in; what waits may still be taken."""
        with self._lock:
            self._closed = True
            self._something.notify()

    def dispose(self) -> None:
        """Drops what still waits. For the thread, at its end."""
        with self._lock:
            self._closed = True
            self.num_dropped += self.num_waiting
            self.num_waiting = 0
            self._items.clear()
            self._busy = False
            self._nothing.notify_all()

    def _make_locks(self) -> None:
        self._lock = threading.Lock()
        self._something = threading.Condition(self._lock)
        self._nothing = threading.Condition(self._lock)

    def _close_after_fork(self) -> None:
        """In a forked process nobody sends: the thread was not forked, and may have held the lock."""
        self._make_locks()
        self.dispose()

    def _drop(self, seq: int, events: Events) -> None:
        self.num_dropped += 1
        last = self._items[-1]
        if not isinstance(last, SkippedBatches):
            last = SkippedBatches(IndexMirror(whole=False) if self._keep_changes else None)
            self._items.append(last)
        last.add(seq, events)


def _after_fork() -> None:
    for queue in list(_QUEUES):
        queue._close_after_fork()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_after_fork)

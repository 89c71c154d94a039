"""`PublisherThread`: what the thread of a publisher does: encode, send, keep, answer."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, ClassVar, final

import zmq

from blockpool.events.durations import milliseconds
from blockpool.events.encoder import EventEncoder
from blockpool.events.index_mirror import IndexMirror
from blockpool.events.publish_queue import PendingBatch, PublishQueue, SkippedBatches
from blockpool.events.replay_protocol import SyncHead, seq_frame
from blockpool.events.replay_server import History, ReplayServer
from blockpool.events.sockets import Context

logger = logging.getLogger("blockpool")

IDLE_SECONDS = 1.0
LISTENING_SECONDS = 0.02
ANSWERING_SECONDS = 0.002


@final
class PublisherThread:
    """Owns both sockets while it runs, and closes them at the end.

    Attributes:
        deadline: Monotonic time at which it gives up on what still waits; None while it is wanted.
        finished: Whether it ended with nothing left to send.
    """

    GRACE_SECONDS: ClassVar[float] = 0.5
    """How long the sockets may take to close beyond the deadline."""

    def __init__(
        self,
        queue: PublishQueue,
        own_context: Context | None,
        pub: zmq.Socket[bytes],
        router: zmq.Socket[bytes] | None,
        *,
        topic: bytes,
        encoder: EventEncoder,
        data_parallel_rank: int,
        max_kept: int,
        with_mirror: bool,
        with_topic: bool,
        describe: Callable[[Any, int], SyncHead],
        clock: Callable[[], float],
    ) -> None:
        self._queue = queue
        self._own_context = own_context
        self._pub = pub
        self._router = router
        self._topic = topic
        self._encoder = encoder
        self._rank = data_parallel_rank
        self.history = History(max_kept if router is not None else 0)
        self.mirror = IndexMirror() if with_mirror else None
        self.server: ReplayServer | None = None
        if router is not None:
            self.server = ReplayServer(
                router,
                self.history,
                self.mirror,
                encoder,
                describe,
                topic,
                with_topic,
                data_parallel_rank,
                clock,
            )
        self.num_sent: int = 0
        self.num_failed: int = 0
        self.deadline: float | None = None
        self.finished: bool = False

    def run(self) -> None:
        """Until the queue is closed and empty, or the deadline has come."""
        try:
            while not self._too_late():
                item = self._queue.take(self._patience())
                if item is not None:
                    self._handle_safely(item)
                elif self._queue.closed:
                    self.finished = True
                    break
                if self.server is not None:
                    self._serve(self.server)
        finally:
            self._close()

    def _patience(self) -> float:
        """How long to wait for a batch before the replay socket is looked at."""
        if self.server is None:
            return IDLE_SECONDS
        return ANSWERING_SECONDS if self.server.busy else LISTENING_SECONDS

    def _too_late(self) -> bool:
        return self.deadline is not None and self._queue.closed and time.monotonic() > self.deadline

    def _handle_safely(self, item: PendingBatch | SkippedBatches) -> None:
        """Whatever goes wrong with one item, the thread goes on."""
        try:
            self._handle(item)
        except Exception:
            logger.exception("a batch of events could not be noted for snapshots")
            self.num_failed += 1

    def _handle(self, item: PendingBatch | SkippedBatches) -> None:
        """One item of the queue. What cannot be written is counted and leaves a gap; the thread goes on."""
        if isinstance(item, SkippedBatches):
            self.history.skip(item.last_seq)
            if self.mirror is not None and item.change is not None:
                self.mirror.merge(item.change)
            return
        seq, ts, given = item
        try:
            payload = self._encoder.encode(ts, given, self._rank)
            self._pub.send_multipart((self._topic, seq_frame(seq), payload), zmq.NOBLOCK)
        except Exception:
            logger.exception("batch %d of events could not be published", seq)
            self.num_failed += 1
            self.history.skip(seq)
            return
        self.num_sent += 1
        self.history.add(seq, payload)
        if self.mirror is not None:
            self.mirror.apply(given)

    def _serve(self, server: ReplayServer) -> None:
        try:
            server.step()
        except Exception:
            logger.exception("the replay socket failed once")
            server.num_refused += 1

    def _close(self) -> None:
        """What ZeroMQ still holds may leave until the deadline."""
        left = 0.0 if self.deadline is None else self.deadline - time.monotonic()
        self._queue.dispose()
        self._pub.close(milliseconds(left))
        if self._router is not None:
            self._router.close(0)
        if self._own_context is not None:
            self._own_context.term()

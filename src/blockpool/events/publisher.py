"""`EventPublisher`: sends the events of a pool to whoever listens, and never keeps the pool waiting."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from types import TracebackType
from typing import Final, NamedTuple, final

from blockpool.core.arguments import as_bool, as_choice, as_count, as_optional_text, as_size
from blockpool.core.event_log import EventLog
from blockpool.core.events import AllBlocksCleared, BlockRemoved, BlockStored
from blockpool.errors import ArgumentError, BlockPoolError, ConfigError
from blockpool.events.durations import as_moment, as_timeout
from blockpool.events.encoder import DIALECTS, EventEncoder
from blockpool.events.endpoints import MAX_PORT, as_endpoint, as_peer, as_topic, offset_endpoint
from blockpool.events.publish_queue import PublishQueue
from blockpool.events.publisher_thread import PublisherThread
from blockpool.events.replay_protocol import SyncHead
from blockpool.events.sockets import Context, as_context, open_pub, open_router
from blockpool.events.wire_events import (
    AnyEvent,
    ClearedEvent,
    MapClearedEvent,
    MapRemovedEvent,
    MapStoredEvent,
    RemovedEvent,
    StoredEvent,
)

MAX_COUNT: Final = 0x7FFFFFFF
_EVENT_TYPES: Final = frozenset(
    (
        BlockStored,
        BlockRemoved,
        AllBlocksCleared,
        StoredEvent,
        MapStoredEvent,
        RemovedEvent,
        MapRemovedEvent,
        ClearedEvent,
        MapClearedEvent,
    )
)


class PublisherStats(NamedTuple):
    """Counts since the publisher was made, and what is there now.

    Attributes:
        num_batches: Batches that `publish` took; each has a number.
        num_sent: Of these, sent.
        num_dropped: Not sent: the queue was full, or time ran out at the end.
        num_failed: Not sent: they could not be written.
        num_waiting: In the queue.
        num_kept: In the history, for replay.
        num_snapshot_hashes: Hashes that a snapshot would hold; 0 without snapshots.
        num_replays: Requests answered from the history.
        num_snapshots: Requests answered with a snapshot.
        num_gone: Requests answered with "gone".
        num_refused: Garbage on the replay socket, requests too many, and answers nobody read.
    """

    num_batches: int
    num_sent: int
    num_dropped: int
    num_failed: int
    num_waiting: int
    num_kept: int
    num_snapshot_hashes: int
    num_replays: int
    num_snapshots: int
    num_gone: int
    num_refused: int


@final
class EventPublisher:
    """Publishes batches of events over ZeroMQ as vLLM does, from a thread of its own.

    For one calling thread. `publish` puts a batch into a bounded queue and returns; when there is no room, the batch is
    dropped and counted, and its number stays unused, so that readers see the gap. Readers that ask get what they
    missed, or a snapshot of the index that is right even after drops.

    Args:
        endpoint: Where to publish. Addresses with `*` or `::`, ipc and inproc are bound, others connected.
        replay_endpoint: Where to answer those who missed something; always bound. None: nowhere, and no snapshots.
        topic: First frame of every message.
        data_parallel_rank: Goes into every batch; tcp ports rise by it, other addresses get `_dp<rank>`.
        dialect: "array" or "map": how events are written.
        replay_topic: Whether plain replay answers carry the topic, as vLLM 0.32's do. None: with the map dialect.
        buffer_steps: Batches kept for replay, 0 or more.
        hwm: Messages that may wait in ZeroMQ for one slow reader before it loses some; 0 for no limit.
        max_queue_size: Batches that may wait to be sent, at least 1.
        bind: Overrides the rule for `endpoint`.
        snapshots: Whether a snapshot is kept ready; costs memory for every indexed block.
        fingerprint: What must match for hashes to be comparable: a pool's `fingerprint`.
        clock: Seconds since 1970, for batches without a time of their own.
        context: A ZeroMQ context to share; needed for inproc. None: one of its own.

    Attributes:
        endpoint: Where it publishes, with the port that was really bound.
        replay_endpoint: Where it answers, likewise, or None.
        epoch: Random name of this publisher, new at every start.

    Raises:
        ArgumentError: For an argument of the wrong type.
        ConfigError: For an address that is not well formed, a topic that is not UTF-8, a number out of range.
        EndpointError: If an address is taken or not to be had.
    """

    def __init__(
        self,
        endpoint: str = "tcp://*:5557",
        replay_endpoint: str | None = None,
        *,
        topic: str = "",
        data_parallel_rank: int = 0,
        dialect: str = "array",
        replay_topic: bool | None = None,
        buffer_steps: int = 10_000,
        hwm: int = 100_000,
        max_queue_size: int = 100_000,
        bind: bool | None = None,
        snapshots: bool = True,
        fingerprint: str | None = None,
        clock: Callable[[], float] = time.time,
        context: Context | None = None,
    ) -> None:
        self.data_parallel_rank: int = _bounded("data_parallel_rank", data_parallel_rank, 0, MAX_PORT)
        self.topic: str = topic
        topic_frame = as_topic("topic", topic)
        self.dialect: str = as_choice("dialect", dialect, DIALECTS)
        with_topic = dialect == "map" if replay_topic is None else as_bool("replay_topic", replay_topic)
        max_kept = _bounded("buffer_steps", buffer_steps, 0)
        max_waiting = _bounded("max_queue_size", max_queue_size, 1)
        high_water = _bounded("hwm", hwm, 0)
        self.fingerprint: str | None = as_optional_text("fingerprint", fingerprint)
        if not callable(clock):
            raise ArgumentError("clock", clock, "a function is needed")
        self._clock = clock
        with_mirror = as_bool("snapshots", snapshots) and replay_endpoint is not None
        where = as_endpoint("endpoint", offset_endpoint(endpoint, self.data_parallel_rank))
        bound = where.is_bound if bind is None else as_bool("bind", bind)
        if not bound:
            as_peer("endpoint", where.address)
        replay = None
        if replay_endpoint is not None:
            checked = as_endpoint("replay_endpoint", replay_endpoint).address
            replay = as_endpoint("replay_endpoint", offset_endpoint(checked, self.data_parallel_rank))
        if context is None and "inproc" in (where.transport, None if replay is None else replay.transport):
            raise ConfigError("context", None, "inproc needs the context that is shared")
        self.epoch: str = uuid.uuid4().hex
        zmq_context, owned = as_context(context)
        try:
            pub, self.endpoint = open_pub(zmq_context, where, bound, high_water)
            router, self.replay_endpoint = None, None
            if replay is not None:
                try:
                    router, self.replay_endpoint = open_router(zmq_context, replay)
                except BaseException:
                    pub.close(0)
                    raise
        except BaseException:
            if owned:
                zmq_context.destroy(0)
            raise
        self._queue = PublishQueue(max_waiting, with_mirror)
        self._worker = PublisherThread(
            self._queue,
            zmq_context if owned else None,
            pub,
            router,
            topic=topic_frame,
            encoder=EventEncoder(self.dialect),
            data_parallel_rank=self.data_parallel_rank,
            max_kept=max_kept,
            with_mirror=with_mirror,
            with_topic=with_topic,
            describe=self._describe,
            clock=clock,
        )
        self._thread = threading.Thread(target=self._worker.run, name="blockpool-events", daemon=True)
        self._thread.start()

    def publish(self, events: EventLog | list[AnyEvent], ts: float | None = None) -> int | None:
        """Takes one batch: what `take_event_log` or `take_events` gives. Never waits.

        The list is read later by another thread: do not change it. A log remains the caller's.

        Args:
            events: The batch. An empty one is passed over.
            ts: Seconds since 1970; None: now.

        Returns:
            Its number, or None for an empty one.

        Raises:
            ArgumentError: For a wrong type.
            ConfigError: For a time that no float can hold.
            BlockPoolError: If the publisher is closed.
        """
        if not isinstance(events, (EventLog, list)):
            raise ArgumentError("events", events, "a list of events, or an event log, is needed")
        if isinstance(events, list):
            for event in events:
                if type(event) not in _EVENT_TYPES:
                    raise ArgumentError("events", event, "an event is needed")
        moment = as_moment("clock", self._clock()) if ts is None else as_moment("ts", ts)
        if not len(events):
            return None
        if isinstance(events, EventLog):
            events = events.copy()  # the caller, or another publisher, may make its events meanwhile
        seq = self._queue.put(moment, events)
        if seq < 0:
            raise BlockPoolError("the publisher is closed")
        return seq

    def flush(self, timeout: float = 1.0) -> bool:
        """Waits until all that was published has been handed to ZeroMQ; False if `timeout` seconds do not suffice.

        Raises:
            ArgumentError, ConfigError: If `timeout` is no number.
        """
        return self._queue.wait_until_empty(as_timeout("timeout", timeout))

    def close(self, timeout: float = 1.0) -> bool:
        """Sends what waits, as far as it goes in `timeout` seconds, and gives the sockets back. May be called twice.

        Returns:
            Whether all was handed to ZeroMQ and the thread has ended.

        Raises:
            ArgumentError, ConfigError: If `timeout` is no number; nothing was closed.
        """
        seconds = as_timeout("timeout", timeout)
        self._worker.deadline = time.monotonic() + seconds
        self._queue.close()
        self._thread.join(seconds + self._worker.GRACE_SECONDS)
        return not self._thread.is_alive() and self._worker.finished

    def stats(self) -> PublisherStats:
        """Counts as they are now; a look, nothing is walked."""
        worker, server = self._worker, self._worker.server
        return PublisherStats(
            num_batches=self._queue.next_seq,
            num_sent=worker.num_sent,
            num_dropped=self._queue.num_dropped,
            num_failed=worker.num_failed,
            num_waiting=self._queue.num_waiting,
            num_kept=len(worker.history),
            num_snapshot_hashes=0 if worker.mirror is None else len(worker.mirror),
            num_replays=0 if server is None else server.num_replays,
            num_snapshots=0 if server is None else server.num_snapshots,
            num_gone=0 if server is None else server.num_gone,
            num_refused=0 if server is None else server.num_refused,
        )

    def __enter__(self) -> EventPublisher:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _describe(self, kind: str, seq: int) -> SyncHead:
        next_seq = self._worker.history.next_seq
        return SyncHead(kind, self.epoch, next_seq, seq, self.fingerprint, self.topic)  # type: ignore[arg-type]


def _bounded(field: str, value: object, least: int, most: int = MAX_COUNT) -> int:
    """An integer between the two."""
    number = as_size(field, value) if least else as_count(field, value)
    if number > most:
        raise ConfigError(field, number, f"must be at most {most}")
    return number

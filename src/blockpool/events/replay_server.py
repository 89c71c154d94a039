"""`ReplayServer`: answers on the ROUTER socket, a piece at a time, so that publishing goes on."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Final, final

import zmq

from blockpool.events.encoder import EventEncoder
from blockpool.events.index_mirror import IndexMirror, IndexSnapshot
from blockpool.events.replay_protocol import (
    NOTHING_YET,
    SyncHead,
    SyncRequest,
    plain_batch,
    plain_end,
    read_request,
    sync_batch,
    sync_end,
    sync_head,
)

logger = logging.getLogger("blockpool")

MAX_CLIENTS: Final = 256
MAX_ANSWERS_PER_CLIENT: Final = 8
MAX_REQUESTS_PER_STEP: Final = 16
MESSAGES_PER_STEP: Final = 64
BLOCKS_PER_SNAPSHOT_BATCH: Final = 256
SECONDS_WITHOUT_PROGRESS: Final = 30.0


@final
class History:
    """The last batches that were sent, without a hole."""

    def __init__(self, max_batches: int) -> None:
        self._batches: deque[tuple[int, bytes]] = deque(maxlen=max_batches)
        self.next_seq: int = 0

    def add(self, seq: int, payload: bytes) -> None:
        """One more."""
        self._batches.append((seq, payload))
        self.next_seq = seq + 1

    def skip(self, last_seq: int) -> None:
        """Batches up to that one were never sent: what was before them is of no use any more."""
        self._batches.clear()
        self.next_seq = last_seq + 1

    @property
    def first_seq(self) -> int:
        """Number of the oldest that is kept, or of the next."""
        return self._batches[0][0] if self._batches else self.next_seq

    def __len__(self) -> int:
        return len(self._batches)

    def since(self, start: int) -> list[tuple[int, bytes]]:
        """Those from `start` on. O(kept)."""
        if start >= self.next_seq:
            return []
        return list(islice(self._batches, max(start - self.first_seq, 0), None))


class _Client:
    """What one client is still to get: its answers in order, of the first of which some may have been sent."""

    def __init__(self, now: float) -> None:
        self.answers: deque[Iterator[list[bytes]]] = deque()
        self.unsent: list[bytes] | None = None
        self.last_progress = now


@final
class ReplayServer:
    """Serves clients of vLLM and our own from the history and the mirror.

    Args:
        router: Bound; used by the caller's thread alone.
        history: Kept by the caller.
        mirror: Kept by the caller; None: no snapshots.
        encoder: For snapshots.
        describe: Gives a head of the wanted kind and sequence number.
        topic: As published.
        with_topic: Whether plain answers have the layout of 0.32.
        data_parallel_rank: For snapshots.
        clock: Time for snapshots, seconds since 1970.
        monotonic: Seconds, to see who has stopped reading.
    """

    def __init__(
        self,
        router: zmq.Socket[bytes],
        history: History,
        mirror: IndexMirror | None,
        encoder: EventEncoder,
        describe: Callable[[Any, int], SyncHead],
        topic: bytes,
        with_topic: bool,
        data_parallel_rank: int,
        clock: Callable[[], float],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._router = router
        self._history = history
        self._mirror = mirror
        self._encoder = encoder
        self._describe = describe
        self._topic = topic
        self._with_topic = with_topic
        self._rank = data_parallel_rank
        self._clock = clock
        self._monotonic = monotonic
        self._clients: dict[bytes, _Client] = {}
        self._leaves_requests = False
        self.num_replays: int = 0
        self.num_snapshots: int = 0
        self.num_gone: int = 0
        self.num_refused: int = 0

    @property
    def busy(self) -> bool:
        """Whether there is more to do at once: an answer is not sent to its end, or requests were left waiting."""
        return bool(self._clients) or self._leaves_requests

    def step(self) -> None:
        """Takes some requests, sends some messages; never waits."""
        self._leaves_requests = False
        for _ in range(MAX_REQUESTS_PER_STEP):
            try:
                identity, *frames = self._router.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                break
            self._receive(identity, frames)
        else:
            self._leaves_requests = True
        now = self._monotonic() if self._clients else 0.0
        for identity, client in list(self._clients.items()):
            try:
                is_served = self._send_some(identity, client, now)
            except Exception:
                logger.exception("an answer on the replay socket was given up")
                self.num_refused += 1
                is_served = True
            if not is_served and now - client.last_progress > SECONDS_WITHOUT_PROGRESS:
                self.num_refused += 1
                is_served = True
            if is_served:
                del self._clients[identity]

    def _receive(self, identity: bytes, frames: list[bytes]) -> None:
        request = read_request(frames)
        client = self._clients.get(identity)
        if request is None or (client is None and len(self._clients) >= MAX_CLIENTS):
            self.num_refused += 1
            return
        if client is None:
            client = self._clients[identity] = _Client(self._monotonic())
        elif len(client.answers) >= MAX_ANSWERS_PER_CLIENT:
            self.num_refused += 1
            return
        client.answers.append(
            self._sync(request) if isinstance(request, SyncRequest) else self._plain(request)
        )

    def _plain(self, start: int) -> Iterator[list[bytes]]:
        """The answer of vLLM: what is there, whether or not it is all."""
        if start < self._history.next_seq:  # or it is a question of a subscriber of ours: who are you?
            self.num_replays += 1
        topic = self._topic if self._with_topic else None
        for seq, payload in self._history.since(start):
            yield plain_batch(seq, payload, topic)
        yield plain_end(self._with_topic)

    def _sync(self, request: SyncRequest) -> Iterator[list[bytes]]:
        """Our answer: what was asked for, or all, or the word that it is gone."""
        history = self._history
        own = self._describe("replay", NOTHING_YET)
        same = request.epoch == own.epoch or (request.epoch is None and request.start == 0)
        if same and history.first_seq <= request.start <= history.next_seq:
            self.num_replays += 1
            batches = history.since(request.start)
            yield sync_head(own)
            for seq, payload in batches:
                yield sync_batch(seq, payload)
        elif self._mirror is not None:
            self.num_snapshots += 1
            seq = history.next_seq - 1
            snapshot = self._mirror.snapshot()
            yield sync_head(self._describe("snapshot", seq))
            for payload in self._snapshot_payloads(snapshot):
                yield sync_batch(seq, payload)
        else:
            self.num_gone += 1
            yield sync_head(self._describe("gone", history.next_seq - 1))
        yield sync_end()

    def _snapshot_payloads(self, snapshot: IndexSnapshot) -> Iterator[bytes]:
        events = snapshot.events()
        while chunk := list(islice(events, BLOCKS_PER_SNAPSHOT_BATCH)):
            yield self._encoder.encode(self._clock(), chunk, self._rank)

    def _send_some(self, identity: bytes, client: _Client, now: float) -> bool:
        """Sends what ZeroMQ takes, up to a limit; whether nothing is left to be sent."""
        for _ in range(MESSAGES_PER_STEP):
            message = client.unsent or next(client.answers[0], None)
            if message is None:
                client.answers.popleft()
                if not client.answers:
                    return True
                continue
            try:
                self._router.send_multipart([identity, *message], zmq.NOBLOCK)
            except zmq.Again:  # its queue is full: it reads more slowly than we send
                client.unsent = message
                return False
            except zmq.ZMQError:  # it is gone
                return True
            client.unsent = None
            client.last_progress = now
        return False

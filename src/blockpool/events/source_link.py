"""`SourceLink`: the sockets to one address, and when they are opened, read and given up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

import zmq
from zmq.utils.monitor import parse_monitor_message

from blockpool.errors import EndpointError
from blockpool.events.endpoints import Endpoint
from blockpool.events.received import SourceAddress
from blockpool.events.sockets import Context
from blockpool.events.source_state import Ready, SourceState
from blockpool.events.sync_client import Ended, SyncClient

MESSAGES_PER_STEP: Final = 64
RETRY_SECONDS: Final = 0.05
MAX_RETRY_SECONDS: Final = 1.0
CONNECT_SECONDS: Final = 10.0
"""ZeroMQ says nothing when a name cannot be resolved, and little when nobody speaks at the other end."""
SYNC_ATTEMPTS: Final = 3
FIRST_CHECK_SECONDS: Final = 0.1
MAX_DOUBLINGS: Final = 6
_LOST: Final = (
    zmq.EVENT_DISCONNECTED
    | zmq.EVENT_CLOSED
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
)
_WATCHED: Final = _LOST | zmq.EVENT_HANDSHAKE_SUCCEEDED
_KEEPALIVE: Final = {
    zmq.TCP_KEEPALIVE: 1,
    zmq.TCP_KEEPALIVE_IDLE: 30,
    zmq.TCP_KEEPALIVE_INTVL: 10,
    zmq.TCP_KEEPALIVE_CNT: 3,
}
"""A subscriber only listens: without it, it would never learn that the other machine is gone."""


@final
class SourceLink:
    """One address of a subscriber.

    A socket lives for one connection and does not reconnect by itself, so all that comes out of it was sent by one
    publisher. When the connection is lost, a new socket is made, and who is there now is found out before anything of
    it is taken. While the replay socket is asked, live messages wait in ZeroMQ.

    Args:
        context: Of the subscriber.
        address: Checked.
        endpoint: Its first half, checked.
        topic: Prefix of the topics that are wanted.
        state: Order and counts.
        high_water: Messages that may wait in ZeroMQ.
        check_seconds: After so long without a message the replay socket is asked whether something was missed.
        sync_seconds: So long without an answer, and it is asked again.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        context: Context,
        address: SourceAddress,
        endpoint: Endpoint,
        topic: bytes,
        state: SourceState,
        *,
        high_water: int,
        check_seconds: float,
        sync_seconds: float,
        clock: Callable[[], float],
    ) -> None:
        self._context = context
        self._address = address
        self._endpoint = endpoint
        self._topic = topic
        self.state = state
        self._high_water = high_water
        self._check_seconds = check_seconds
        self._sync_seconds = sync_seconds
        self._clock = clock
        self._sub: zmq.Socket[bytes] | None = None
        self._monitor: zmq.Socket[bytes] | None = None
        self._client: SyncClient | None = None
        self._is_plain = False
        self._attempts = 0
        self._num_unanswered = 0
        self._wait = check_seconds
        self._sync_deadline = 0.0
        self._check_at: float | None = None
        self._retry_seconds = RETRY_SECONDS
        self._retry_at: float | None = None
        self._connect_by: float | None = None
        self._open()

    # -------------------------------------------------------------------------------------------- for the poller

    def sockets(self) -> list[zmq.Socket[bytes]]:
        """What is worth waiting for now."""
        source = self._sub if self._client is None else self._client.socket
        return [socket for socket in (source, self._monitor) if socket is not None]

    def wake_at(self) -> float | None:
        """When `step` has something to do even if nothing comes in."""
        if self._retry_at is not None:
            return self._retry_at
        if self._connect_by is not None:
            return self._connect_by
        return self._check_at if self._client is None else self._sync_deadline

    def step(self, ready: Ready) -> None:
        """Does what can be done without waiting, and adds what came of it.

        Raises:
            FingerprintError: If the publisher's hashes cannot be compared; nothing of it is handed out.
        """
        now = self._clock()
        if self._retry_at is not None:
            if now < self._retry_at:
                return
            self._open()
            self._retry_at = None
        self._watch()
        if self._connect_by is not None and now >= self._connect_by:
            self._lost()
        if self._client is not None:
            self._read_answer(self._client, ready)
        elif self._sub is not None:
            self._read_live(self._sub, ready)
        if self._client is None and self._check_at is not None and self._clock() >= self._check_at:
            self._wait = self._check_seconds
            self._ask()

    def close(self) -> None:
        """Gives the sockets back."""
        self._end_sync()
        if self._sub is not None:
            self._close_sockets(self._sub)
            self._sub = None
        self._retry_at = None
        self._check_at = None
        self._connect_by = None

    # ------------------------------------------------------------------------------------------------ connections

    def _open(self) -> None:
        sub = self._context.socket(zmq.SUB)
        sub.setsockopt(zmq.LINGER, 0)
        sub.setsockopt(zmq.RCVHWM, self._high_water)
        sub.setsockopt(zmq.SUBSCRIBE, self._topic)
        for option, value in _KEEPALIVE.items():
            sub.setsockopt(option, value)
        if "[" in self._endpoint.address or "::" in self._endpoint.address:
            sub.setsockopt(zmq.IPV6, 1)
        bound = self._endpoint.is_anywhere
        watched = not bound and self._endpoint.transport != "inproc"
        try:
            if watched:
                sub.setsockopt(zmq.RECONNECT_IVL, -1)
                self._monitor = sub.get_monitor_socket(_WATCHED)
            if bound:
                sub.bind(self._endpoint.address)
            else:
                sub.connect(self._endpoint.address)
        except BaseException as error:
            self._close_sockets(sub)
            if isinstance(error, zmq.ZMQError):
                raise EndpointError(self._endpoint.address, str(error.strerror)) from None
            raise
        self._sub = sub
        if watched:
            self._connect_by = self._clock() + CONNECT_SECONDS
        else:
            self._connected()

    def _close_sockets(self, sub: zmq.Socket[bytes]) -> None:
        """A socket and its monitor.

        The other way round ZeroMQ's own thread could come to tell of the end of a connection when nobody listens any
        more: it would wait for ever, and with it whoever switches the monitor off.
        """
        sub.disable_monitor()
        sub.close(0)
        if self._monitor is not None:
            self._monitor.close(0)
            self._monitor = None

    def _watch(self) -> None:
        """Takes note of connections made and lost."""
        while self._monitor is not None:
            try:
                event = parse_monitor_message(self._monitor.recv_multipart(zmq.NOBLOCK))["event"]
            except zmq.Again:
                return
            if event & zmq.EVENT_HANDSHAKE_SUCCEEDED:
                self._retry_seconds = RETRY_SECONDS
                self._connected()
            else:
                self._lost()

    def _lost(self) -> None:
        """There is no connection, or none any more: makes another after a while."""
        self.close()
        self._retry_at = self._clock() + self._retry_seconds
        self._retry_seconds = min(self._retry_seconds * 2, MAX_RETRY_SECONDS)

    def _connected(self) -> None:
        self._connect_by = None
        self._is_plain = False
        self.state.connected()
        if self._address.replay_endpoint is not None:
            self._ask_urgently()

    # -------------------------------------------------------------------------------------------------- messages

    def _read_live(self, sub: zmq.Socket[bytes], ready: Ready) -> None:
        """Some live messages, up to the first that makes it necessary to ask."""
        for _ in range(MESSAGES_PER_STEP):
            try:
                frames = sub.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            if self._check_at is not None:
                self._check_at = max(self._check_at, self._clock() + self._check_seconds)
            if not self.state.live(frames, ready):
                self._ask_urgently()
                return

    def _ask_urgently(self) -> None:
        """Asks, and soon again: what was sent before the publisher knew of our subscription shows only then."""
        self._wait = min(FIRST_CHECK_SECONDS, self._check_seconds)
        self._attempts = 0
        self._ask()

    def _ask(self) -> None:
        """Begins a conversation on the replay socket."""
        self._end_sync()
        endpoint = self._address.replay_endpoint
        assert endpoint is not None
        self._attempts += 1
        self.state.stats.num_syncs += 1
        request, plain_start = self.state.begin_sync()
        self._client = SyncClient(self._context, endpoint, request, plain_start, self._is_plain)
        self._sync_deadline = self._clock() + self._sync_seconds

    def _read_answer(self, client: SyncClient, ready: Ready) -> None:
        """Some parts of the answer."""
        for _ in range(MESSAGES_PER_STEP):
            try:
                part = client.receive()
            except zmq.Again:
                if self._clock() >= self._sync_deadline:
                    self._no_answer(ready)
                return
            self._sync_deadline = self._clock() + self._sync_seconds
            again = self.state.answered(part, client.is_plain, ready)
            if isinstance(part, Ended) or again:
                self._is_plain = client.is_plain
                self._num_unanswered = 0
                self._end_sync()
                if again:
                    self._ask()
                else:
                    self.state.finish_sync(ready)
                    self._check_later()
                return

    def _no_answer(self, ready: Ready) -> None:
        """Asks once more, or goes on without: more and more seldom where nobody answers, for live messages wait."""
        self._end_sync()
        self.state.stats.num_failed_syncs += 1
        if self._attempts < SYNC_ATTEMPTS and not self._num_unanswered:
            self._ask()
            return
        self._num_unanswered += 1
        self.state.give_up_sync(ready)
        self._check_later()

    def _check_later(self) -> None:
        self._attempts = 0
        self._check_at = self._clock() + self._wait * 2 ** min(self._num_unanswered, MAX_DOUBLINGS)

    def _end_sync(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

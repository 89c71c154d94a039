"""`SourceLink`: connections that do not come about, with a clock that is moved by hand."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest
import zmq

from blockpool.events import EventDecoder, SourceAddress
from blockpool.events.endpoints import as_endpoint
from blockpool.events.source_link import CONNECT_SECONDS, MAX_RETRY_SECONDS, SourceLink
from blockpool.events.source_state import SourceState

from .support import GENEROUS_SECONDS, publisher, stored


class Linked:
    """A link to an address, and its time."""

    def __init__(self, endpoint: str, replay_endpoint: str | None = None) -> None:
        self.context: Any = zmq.Context()
        self.now = 0.0
        self.ready: deque[Any] = deque()
        address = SourceAddress(endpoint, replay_endpoint)
        self.link = SourceLink(
            self.context,
            address,
            as_endpoint("endpoint", endpoint),
            b"",
            SourceState(address, EventDecoder(), lambda fingerprint: None),
            high_water=10,
            check_seconds=1.0,
            sync_seconds=1.0,
            clock=lambda: self.now,
        )

    def close(self) -> None:
        self.link.close()
        self.context.term()


class SilentListener:
    """Takes connections, and says nothing: as a name that is not resolved, it gives ZeroMQ nothing to tell."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(GENEROUS_SECONDS)
        self.accepted: list[socket.socket] = []
        self.endpoint = f"tcp://127.0.0.1:{self.listener.getsockname()[1]}"

    def accept(self) -> None:
        self.accepted.append(self.listener.accept()[0])

    def close(self) -> None:
        for made in (self.listener, *self.accepted):
            made.close()


@pytest.fixture
def silent() -> Iterator[SilentListener]:
    made = SilentListener()
    yield made
    made.close()


def test_a_connection_that_does_not_come_about_is_tried_again(silent: SilentListener) -> None:
    linked = Linked(silent.endpoint)
    try:
        silent.accept()
        assert linked.link.wake_at() == CONNECT_SECONDS
        linked.now = CONNECT_SECONDS - 0.1
        linked.link.step(linked.ready)
        assert linked.link.wake_at() == CONNECT_SECONDS
        linked.now = CONNECT_SECONDS
        linked.link.step(linked.ready)
        assert linked.link.sockets() == []
        linked.now += MAX_RETRY_SECONDS
        linked.link.step(linked.ready)
        silent.accept()  # it has come again
        assert linked.link.wake_at() == linked.now + CONNECT_SECONDS
    finally:
        linked.close()


def test_a_connection_that_stands_has_no_end_of_its_own() -> None:
    with publisher(replay_endpoint=None) as made:
        linked = Linked(made.endpoint)
        try:
            while not linked.ready:
                made.publish([stored(1)])
                linked.link.step(linked.ready)
            linked.now = 10 * CONNECT_SECONDS
            linked.ready.clear()
            last = made.publish([stored(2)])
            while not linked.ready or linked.ready[-1][1].seq != last:
                linked.link.step(linked.ready)
            assert linked.link.state.stats.num_connections == 1
        finally:
            linked.close()


def test_where_nobody_answers_is_asked_more_and_more_seldom(silent: SilentListener) -> None:
    """Thrice at first; then once, after pauses that double: live batches wait no longer than one answer's time."""
    with publisher(replay_endpoint=None) as made:
        linked = Linked(made.endpoint, silent.endpoint)
        stats = linked.link.state.stats
        try:
            while not stats.num_syncs:
                linked.link.step(linked.ready)
            pauses = []
            for _ in range(10):
                began = linked.now
                while linked.link.sockets()[0].type == zmq.DEALER:
                    linked.now += 1.0
                    linked.link.step(linked.ready)
                asked = linked.now - began
                wake_at = linked.link.wake_at()
                assert wake_at is not None
                pauses.append((asked, round(wake_at - linked.now, 1)))
                linked.now = wake_at
                linked.link.step(linked.ready)
            assert pauses[:5] == [(3.0, 0.2), (1.0, 4.0), (1.0, 8.0), (1.0, 16.0), (1.0, 32.0)]
            assert pauses[5:] == [(1.0, 64.0)] * 5
        finally:
            linked.close()

"""`ReplayServer` without a publisher: the history, and readers that stop reading."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import zmq

from blockpool.events import EventEncoder
from blockpool.events.replay_protocol import END_SEQ, SyncHead, plain_request
from blockpool.events.replay_server import (
    MAX_CLIENTS,
    MAX_REQUESTS_PER_STEP,
    SECONDS_WITHOUT_PROGRESS,
    History,
    ReplayServer,
)

from .support import GENEROUS_SECONDS

WAIT_MS = int(GENEROUS_SECONDS * 1000)
NUM_KEPT = 1_000
HEAD = SyncHead("replay", "epoch", NUM_KEPT, -1, None, "")


def test_history_keeps_the_last_without_a_hole() -> None:
    history = History(3)
    assert (history.first_seq, history.next_seq, history.since(0)) == (0, 0, [])
    for seq in range(5):
        history.add(seq, b"%d" % seq)
    assert (history.first_seq, history.next_seq, len(history)) == (2, 5, 3)
    assert history.since(0) == history.since(2) == [(2, b"2"), (3, b"3"), (4, b"4")]
    assert history.since(4) == [(4, b"4")]
    assert history.since(5) == history.since(2**64 - 1) == []
    history.skip(9)
    assert (history.first_seq, history.next_seq, len(history)) == (10, 10, 0)
    history.add(10, b"10")
    assert history.since(0) == [(10, b"10")]


def test_a_history_of_nothing() -> None:
    history = History(0)
    history.add(0, b"0")
    assert (history.first_seq, history.next_seq, history.since(0)) == (1, 1, [])


class Served:
    """A server whose time stands still until it is moved; it answers when `step` is called."""

    def __init__(self) -> None:
        self.context: Any = zmq.Context()
        self.dealers: list[Any] = []
        router = self.context.socket(zmq.ROUTER)
        router.setsockopt(zmq.ROUTER_MANDATORY, 1)
        router.setsockopt(zmq.SNDHWM, 5)
        self.router = router
        self.port = router.bind_to_random_port("tcp://127.0.0.1")
        self.now = 100.0
        history = History(NUM_KEPT)
        for seq in range(NUM_KEPT):
            history.add(seq, bytes(20_000))
        self.server = ReplayServer(
            router,
            history,
            None,
            EventEncoder(),
            lambda *_: HEAD,
            b"",
            False,
            0,
            lambda: 0.0,
            lambda: self.now,
        )

    def client(self) -> Any:
        dealer = self.context.socket(zmq.DEALER)
        self.dealers.append(dealer)
        dealer.setsockopt(zmq.RCVHWM, 5)
        dealer.setsockopt(zmq.RCVTIMEO, WAIT_MS)
        dealer.connect(f"tcp://127.0.0.1:{self.port}")
        return dealer

    def step(self) -> None:
        self.router.poll(1)
        self.server.step()


@pytest.fixture
def served() -> Iterator[Served]:
    made = Served()
    yield made
    made.context.destroy(0)


def test_who_stops_reading_is_given_up_and_nobody_else(served: Served) -> None:
    """Two readers ask for everything; one of them never reads. It is not kept alive by the other's progress."""
    stalled, reader = served.client(), served.client()
    for dealer in (stalled, reader):
        dealer.send_multipart(plain_request(0))
    while len(served.server._clients) < 2:
        served.step()
    numbers = []
    while True:
        served.step()
        if not reader.poll(1):
            continue
        frames = reader.recv_multipart()
        if frames[1] == END_SEQ:
            break
        numbers.append(int.from_bytes(frames[1], "big"))
        served.now += SECONDS_WITHOUT_PROGRESS / 20
    assert numbers == list(range(NUM_KEPT))
    served.step()
    assert served.server.num_refused == 1
    assert not served.server.busy


class StuckRouter:
    """A ROUTER socket that takes so many messages, and then none."""

    def __init__(self, takes: int) -> None:
        self.requests = [[b"client", *plain_request(0)]]
        self.takes = takes
        self.num_taken = 0

    def recv_multipart(self, flags: int) -> list[bytes]:
        if not self.requests:
            raise zmq.Again
        return self.requests.pop()

    def send_multipart(self, frames: list[bytes], flags: int) -> None:
        if self.num_taken == self.takes:
            raise zmq.Again
        self.num_taken += 1


def test_a_reader_is_given_up_only_after_its_time() -> None:
    """Its time begins anew with every message that it takes."""
    router: Any = StuckRouter(3)
    history = History(10)
    for seq in range(10):
        history.add(seq, b"payload")
    now = 100.0
    server = ReplayServer(
        router, history, None, EventEncoder(), lambda *_: HEAD, b"", False, 0, lambda: 0.0, lambda: now
    )
    server.step()
    assert (server.busy, router.num_taken) == (True, 3)
    now += SECONDS_WITHOUT_PROGRESS
    router.takes = 4
    server.step()
    assert (server.busy, router.num_taken) == (True, 4)
    now += SECONDS_WITHOUT_PROGRESS
    server.step()
    assert (server.busy, server.num_refused) == (True, 0)
    now += 1.0
    server.step()
    assert (server.busy, server.num_refused) == (False, 1)


def test_thousands_of_malformed_requests_change_nothing(served: Served) -> None:
    dealer = served.client()
    bad = [[b""], [b"\0" * 1000] * 40, [b"", b"short"], [b"", bytes(8), b"", b"more"]]
    for number in range(3_000):
        dealer.send_multipart(bad[number % len(bad)])
        if number % 16 == 0:
            served.step()
    while served.server.num_refused < 3_000:
        served.step()
    served.step()
    assert not served.server.busy


def test_requests_that_are_left_waiting_are_a_reason_to_go_on_at_once(served: Served) -> None:
    dealer = served.client()
    for _ in range(100):
        dealer.send_multipart([b"garbage"])
    while not served.server.num_refused:
        served.step()
    while served.server.num_refused < 100:
        if served.server.num_refused % MAX_REQUESTS_PER_STEP == 0:
            assert served.server.busy
        served.step()
    served.step()
    assert not served.server.busy


def test_clients_beyond_the_limit_are_refused(served: Served) -> None:
    for number in range(MAX_CLIENTS + 3):
        served.server._receive(b"%d" % number, plain_request(0))
    assert len(served.server._clients) == MAX_CLIENTS
    assert served.server.num_refused == 3
    served.server._receive(b"0", plain_request(0))  # it has a place already
    assert served.server.num_refused == 3

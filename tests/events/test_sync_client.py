"""`SyncClient` against a bare ROUTER: which publisher it takes it for, and what it takes for garbage."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
import zmq

from blockpool import EndpointError
from blockpool.events.replay_protocol import (
    END_SEQ,
    MARK,
    MAX_SEQ,
    SyncHead,
    SyncRequest,
    plain_batch,
    plain_end,
    plain_request,
    sync_batch,
    sync_end,
    sync_head,
    sync_request,
)
from blockpool.events.sync_client import Answered, Ended, SyncClient

from .support import GENEROUS_SECONDS

WAIT_MS = int(GENEROUS_SECONDS * 1000)
HEAD = SyncHead("replay", "e", 9, -1, None, "t")
REQUEST = SyncRequest(3, "e")


class Talk:
    """A client, and the ROUTER that it asks."""

    def __init__(self) -> None:
        self.context: Any = zmq.Context()
        self.clients: list[SyncClient] = []
        self.router = self.context.socket(zmq.ROUTER)
        self.router.setsockopt(zmq.RCVTIMEO, WAIT_MS)
        self.endpoint = f"tcp://127.0.0.1:{self.router.bind_to_random_port('tcp://127.0.0.1')}"

    def client(self, is_plain: bool = False) -> SyncClient:
        made = SyncClient(self.context, self.endpoint, REQUEST, 7, is_plain)
        self.clients.append(made)
        return made

    def close(self) -> None:
        for client in self.clients:
            client.close()
        self.context.destroy(0)

    def asked(self) -> list[bytes]:
        """The next request."""
        self.identity, *frames = self.router.recv_multipart()
        return list(frames)

    def answer(self, client: SyncClient, *frames: bytes) -> Any:
        """What the client takes the message for."""
        self.router.send_multipart([self.identity, *frames])
        assert client.socket.poll(WAIT_MS)
        try:
            return client.receive()
        except zmq.Again:
            return "asked again"


@pytest.fixture
def talk() -> Iterator[Talk]:
    made = Talk()
    yield made
    made.close()


def test_ours(talk: Talk) -> None:
    client = talk.client()
    assert talk.asked() == sync_request(REQUEST)
    assert talk.asked() == plain_request(2**64 - 1)
    assert talk.answer(client, *sync_head(HEAD)) == HEAD
    assert talk.answer(client, *sync_batch(3, b"p")) == Answered(3, b"p", None)
    assert talk.answer(client, *sync_end()) == Ended(1)
    assert not client.is_plain


@pytest.mark.parametrize("topic", [None, b"t"])
def test_vllms_is_found_out_and_asked_plainly(talk: Talk, topic: bytes | None) -> None:
    client = talk.client()
    talk.asked(), talk.asked()
    assert talk.answer(client, *plain_end(topic is not None)) == "asked again"
    assert client.is_plain
    assert talk.asked() == plain_request(7)
    assert talk.answer(client, *plain_batch(7, b"p", topic)) == Answered(7, b"p", topic)
    assert talk.answer(client, *plain_end(topic is not None)) == Ended(1)


def test_vllms_that_is_known_is_asked_plainly_at_once(talk: Talk) -> None:
    client = talk.client(is_plain=True)
    assert talk.asked() == plain_request(7)
    assert talk.answer(client, *plain_end(False)) == Ended(0)


def head_with(**fields: Any) -> list[bytes]:
    values = {"kind": "gone", "epoch": "e", "next_seq": 5, "seq": 4, "fingerprint": None, "topic": ""}
    return [b"", MARK, msgspec.msgpack.encode(values | fields)]


GARBAGE = [
    [b""],
    [b"", MARK],
    [b"", MARK, b"\xc1"],
    head_with(kind="other"),
    head_with(seq=-2),
    head_with(seq=5),
    head_with(next_seq=-1, seq=-1),
    head_with(next_seq=2**64 - 1),
    [b"x", (1).to_bytes(8, "big"), b"p"],
    [b"", b"short", b"p"],
    [b"", MARK, b"short", b"p"],
    [b"", MAX_SEQ.to_bytes(8, "big"), b"p"],
    [b"", b"", b"", b"", b""],
    sync_batch(3, b"p"),  # before the head
]


@pytest.mark.parametrize("frames", GARBAGE)
def test_garbage_is_passed_over_and_decides_nothing(talk: Talk, frames: list[bytes]) -> None:
    client = talk.client()
    talk.asked()
    assert talk.answer(client, *frames) is None
    assert not client.is_plain
    assert talk.answer(client, *sync_head(HEAD)) == HEAD
    assert talk.answer(client, b"", MARK, END_SEQ, b"") == Ended(0)


def test_no_socket_to_be_had_is_a_typed_error(talk: Talk) -> None:
    small: Any = zmq.Context()
    small.set(zmq.MAX_SOCKETS, 1)
    taken = small.socket(zmq.DEALER)
    with pytest.raises(EndpointError):
        SyncClient(small, talk.endpoint, REQUEST, 7, False)
    taken.close(0)
    small.term()

"""`EventPublisher` as any client sees it: frames, both replay layouts, drops, bounds, bad input."""

from __future__ import annotations

import socket
import threading
import time
from typing import Any

import msgspec
import pytest
import zmq

from blockpool import ArgumentError, BlockPoolError, ConfigError, EndpointError
from blockpool.events import EventDecoder, EventPublisher, RemovedEvent
from blockpool.events.replay_protocol import END_SEQ, MARK, SyncRequest, sync_request

from .support import GENEROUS_SECONDS, PoolRun, publisher, removed, stored

WAIT_MS = int(GENEROUS_SECONDS * 1000)


class Client:
    """A bare SUB and DEALER, which wait until something comes."""

    def __init__(self, made: EventPublisher) -> None:
        self.context = zmq.Context()
        self.made = made
        self.dealer = self.socket(zmq.DEALER)
        self.dealer.connect(made.replay_endpoint)

    def socket(self, kind: int) -> Any:
        made = self.context.socket(kind)
        made.setsockopt(zmq.RCVTIMEO, WAIT_MS)
        made.setsockopt(zmq.LINGER, 0)
        return made

    def subscribe(self, topic: bytes = b"") -> Any:
        """A SUB socket that the publisher is sure to know of: it has got a first message."""
        sub = self.socket(zmq.SUB)
        sub.connect(self.made.endpoint)
        sub.subscribe(topic)
        while not sub.poll(10):
            self.made.publish([removed(0)])
        return sub

    def ask(self, *frames: bytes) -> list[list[bytes]]:
        """All messages of one answer."""
        self.dealer.send_multipart(frames)
        answer = []
        while not answer or END_SEQ not in answer[-1]:
            answer.append(self.dealer.recv_multipart())
        return answer

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.context.destroy(0)


def seq(number: int) -> bytes:
    return number.to_bytes(8, "big")


def test_frames() -> None:
    with publisher(topic="kv@pod@model", data_parallel_rank=0) as made, Client(made) as client:
        sub = client.subscribe(b"kv@")
        first = made.publish([stored(5), removed(5)], ts=1.5)
        while (frames := sub.recv_multipart())[1] != seq(first or 0):
            assert frames[0] == b"kv@pod@model"
        assert len(frames) == 3
        batch = EventDecoder().decode(frames[2])
        assert (batch.ts, batch.data_parallel_rank, len(batch.events)) == (1.5, 0, 2)


def test_numbers_start_at_0_and_empty_batches_have_none() -> None:
    with publisher() as made:
        assert [made.publish([removed(i)]) for i in range(3)] == [0, 1, 2]
        assert made.publish([]) is None
        assert made.flush(GENEROUS_SECONDS)
        stats = made.stats()
        assert (stats.num_batches, stats.num_sent, stats.num_kept, stats.num_waiting) == (3, 3, 3, 0)


@pytest.mark.parametrize("with_topic", [False, True])
def test_plain_replay(with_topic: bool) -> None:
    dialect = "map" if with_topic else "array"
    with publisher(topic="t", dialect=dialect) as made, Client(made) as client:
        for i in range(4):
            made.publish([removed(i)])
        made.flush(GENEROUS_SECONDS)
        answer = client.ask(b"", seq(2))
        topic = [b"t"] if with_topic else []
        assert [frames[:-1] for frames in answer[:-1]] == [[b"", *topic, seq(2)], [b"", *topic, seq(3)]]
        assert answer[-1] == [b"", *([b""] if with_topic else []), END_SEQ, b""]
        assert EventDecoder().decode(answer[0][-1]).events == [RemovedEvent([2], "GPU")]
        assert client.ask(b"", seq(4)) == client.ask(b"", seq(2**64 - 1)) == [answer[-1]]
        assert made.stats().num_replays == 1


def test_sync_answers_with_batches_a_snapshot_or_nothing() -> None:
    with publisher(buffer_steps=3, topic="t", fingerprint="f") as made, Client(made) as client:

        def ask(start: int, epoch: str | None) -> tuple[Any, list[list[bytes]]]:
            head, *batches, end = client.ask(*sync_request(SyncRequest(start, epoch)))
            assert end == [b"", MARK, END_SEQ, b""]
            assert head[:2] == [b"", MARK]
            return msgspec.msgpack.decode(head[2]), batches

        head, batches = ask(0, None)
        assert head == {
            "kind": "replay", "epoch": made.epoch, "next_seq": 0, "seq": -1, "fingerprint": "f", "topic": "t",
        }  # fmt: skip
        assert batches == []
        for i in range(5):
            made.publish([stored(i)])
        made.flush(GENEROUS_SECONDS)
        head, batches = ask(3, made.epoch)
        assert (head["kind"], head["next_seq"]) == ("replay", 5)
        assert [frames[:3] for frames in batches] == [[b"", MARK, seq(3)], [b"", MARK, seq(4)]]
        assert ask(5, made.epoch) == (head, [])
        for start, epoch in ((0, None), (1, made.epoch), (3, "another"), (3, None), (6, made.epoch)):
            head, batches = ask(start, epoch)
            assert (head["kind"], head["seq"], len(batches)) == ("snapshot", 4, 1)
            assert batches[0][:3] == [b"", MARK, seq(4)]
            hashes = [event.block_hashes for event in EventDecoder().decode(batches[0][3]).events]  # type: ignore[union-attr]
            assert hashes == [[i] for i in range(5)]
        assert made.stats().num_snapshots == 5


def test_without_snapshots_history_gone_is_an_answer() -> None:
    with publisher(buffer_steps=1, snapshots=False) as made, Client(made) as client:
        made.publish([stored(1)])
        made.publish([stored(2)])
        made.flush(GENEROUS_SECONDS)
        head, end = client.ask(*sync_request(SyncRequest(0, made.epoch)))
        assert msgspec.msgpack.decode(head[2])["kind"] == "gone"
        assert end == [b"", MARK, END_SEQ, b""]
        stats = made.stats()
        assert (stats.num_gone, stats.num_snapshot_hashes) == (1, 0)


def test_a_long_answer_reaches_a_slow_reader_whole() -> None:
    """More messages than ZeroMQ lets wait for one client: none is lost, and publishing goes on meanwhile."""
    with publisher(buffer_steps=100_000) as made, Client(made) as client:
        client.dealer.setsockopt(zmq.RCVHWM, 10)
        for i in range(5_000):
            made.publish([removed(i)])
        made.flush(GENEROUS_SECONDS)
        client.dealer.send_multipart([b"", seq(0)])
        client.dealer.poll(WAIT_MS)
        assert made.publish([removed(1)]) == 5_000
        assert made.flush(GENEROUS_SECONDS)
        numbers = []
        while END_SEQ not in (frames := client.dealer.recv_multipart()):
            numbers.append(int.from_bytes(frames[1], "big"))
        assert numbers == list(range(5_000))


GARBAGE = [
    [b""],
    [b"", b"short"],
    [b"", seq(1), b"more"],
    [b"x", seq(1)],
    [b"", MARK],
    [b"", MARK, b"\xc1"],
    [b"", MARK, msgspec.msgpack.encode({"start": -1})],
    [b"", MARK, msgspec.msgpack.encode({"start": "0"})],
    [b"", MARK, b"\x91" * 5000],
    [b"", b"", b"", b"", b""],
]


def test_garbage_on_the_replay_socket_is_counted_and_nothing_else() -> None:
    with publisher() as made, Client(made) as client:
        for frames in GARBAGE:
            client.dealer.send_multipart(frames)
        assert client.ask(b"", seq(0)) == [[b"", END_SEQ, b""]]
        assert made.stats().num_refused == len(GARBAGE)
        made.publish([removed(1)])
        assert made.flush(GENEROUS_SECONDS)


STRANGERS = [
    b"",
    b"GET / HTTP/1.1\r\nHost: h\r\n\r\n",
    b"\xff" + bytes(8) + b"\x7f\x03" + b"\xff" * 200,
    bytes(5000),
]


def test_strangers_on_both_ports_disturb_nobody() -> None:
    """Whoever speaks another language than ZeroMQ's is not heard."""
    with publisher() as made, Client(made) as client:
        sub = client.subscribe()
        for endpoint in (made.endpoint, made.replay_endpoint or ""):
            for words in STRANGERS * 5:
                port = int(endpoint.rpartition(":")[2])
                with socket.create_connection(("127.0.0.1", port), GENEROUS_SECONDS) as stranger:
                    stranger.sendall(words)
        last = made.publish([removed(1)])
        while sub.recv_multipart()[1] != seq(last or 0):
            pass
        assert client.ask(b"", seq(last or 0))[0][1] == seq(last or 0)
        assert made.stats().num_refused == 0


class StalledSocket:
    """Takes the place of the PUB socket: the first message does not come back until it is let go."""

    def __init__(self, pub: Any) -> None:
        self.pub = pub
        self.stalled = threading.Event()
        self.go = threading.Event()

    def send_multipart(self, *arguments: Any) -> None:
        self.stalled.set()
        self.go.wait(GENEROUS_SECONDS)
        self.pub.send_multipart(*arguments)

    def close(self, linger: int) -> None:
        self.pub.close(linger)


def test_case_8_a_stalled_socket_keeps_nobody_waiting() -> None:
    run = PoolRun(1)
    with publisher(max_queue_size=2) as made, Client(made) as client:
        made._worker._pub = stalled = StalledSocket(made._worker._pub)  # type: ignore[assignment]
        made.publish(run.batch(20))
        assert stalled.stalled.wait(GENEROUS_SECONDS)
        longest = 0.0
        for _ in range(5):
            log = run.batch(20)
            begin = time.perf_counter()
            made.publish(log)
            longest = max(longest, time.perf_counter() - begin)
        assert longest < 0.05
        assert (made.stats().num_dropped, made.stats().num_waiting) == (3, 2)
        assert made.stats().num_batches == 6
        assert not made.flush(0.0)
        stalled.go.set()
        assert made.flush(GENEROUS_SECONDS)
        assert made.publish([removed()]) == 6  # a consumer sees that 3, 4 and 5 are missing
        made.flush(GENEROUS_SECONDS)
        assert [frames[1] for frames in client.ask(b"", seq(0))] == [seq(6), END_SEQ]
        snapshot = client.ask(*sync_request(SyncRequest(3, made.epoch)))[1:-1]
        events = [event for frames in snapshot for event in EventDecoder().decode(frames[3]).events]
        found = [block_hash for event in events for block_hash in event.block_hashes]  # type: ignore[union-attr]
        assert sorted(found) == sorted(run.index().elements())


def test_a_log_may_be_published_twice_and_read_meanwhile() -> None:
    """Each has a log of its own: to make its events is no matter of one thread alone."""
    run = PoolRun(1)
    with publisher() as first, publisher() as second:
        for made in (first, second):
            made._worker._pub = StalledSocket(made._worker._pub)  # type: ignore[assignment]
            made.publish([removed()])
            assert made._worker._pub.stalled.wait(GENEROUS_SECONDS)  # type: ignore[attr-defined]
        log = run.batch(20)
        first.publish(log)
        second.publish(log)
        events = log.events()
        for made in (first, second):
            (waiting,) = made._queue._items
            assert len(waiting.events) == len(events)  # type: ignore[union-attr]
            assert waiting.events.num_made == 0  # type: ignore[union-attr]
            assert waiting.events.events() == events  # type: ignore[union-attr]
            made._worker._pub.go.set()  # type: ignore[attr-defined]


def test_close_of_a_stalled_publisher_returns() -> None:
    with publisher() as made:
        made._worker._pub = stalled = StalledSocket(made._worker._pub)  # type: ignore[assignment]
        made.publish([removed(1)])
        assert stalled.stalled.wait(GENEROUS_SECONDS)
        begin = time.monotonic()
        assert made.close(0.1) is False
        assert time.monotonic() - begin < 10
        stalled.go.set()
        made._thread.join(GENEROUS_SECONDS)


def test_close_sends_what_waits_and_ends_publishing() -> None:
    with publisher() as made, Client(made) as client:
        sub = client.subscribe()
        last = 0
        for i in range(100):
            last = made.publish([removed(i)]) or 0
        assert made.close(GENEROUS_SECONDS) is True
        while sub.recv_multipart()[1] != seq(last):
            pass
        with pytest.raises(BlockPoolError, match="closed"):
            made.publish([removed(1)])
        assert made.close() is True
        assert made.stats().num_dropped == 0


def test_batches_that_cannot_be_written_leave_a_gap_and_are_counted() -> None:
    with publisher() as made, Client(made) as client:
        made.publish([removed(1)])
        made.publish([removed(2**70)])
        made.publish([removed(2)])
        assert made.flush(GENEROUS_SECONDS)
        assert made.stats().num_failed == 1
        assert [frames[1] for frames in client.ask(b"", seq(0))] == [seq(2), END_SEQ]


def test_ports_rise_with_the_rank() -> None:
    with publisher() as made:
        port = int(made.endpoint.rpartition(":")[2])
    for rank in range(2):
        with publisher(endpoint=f"tcp://127.0.0.1:{port - rank}", data_parallel_rank=rank) as made:
            assert made.endpoint == f"tcp://127.0.0.1:{port}"
            made.publish([removed(1)])


def test_ipc_and_connected_publishers(tmp_path: Any) -> None:
    context = zmq.Context()
    sub = context.socket(zmq.SUB)
    sub.setsockopt(zmq.RCVTIMEO, WAIT_MS)
    sub.subscribe(b"")
    port = sub.bind_to_random_port("tcp://127.0.0.1")
    try:
        with EventPublisher(f"tcp://127.0.0.1:{port}") as made:
            while not sub.poll(10):
                made.publish([removed(1)])
            assert made.endpoint == f"tcp://127.0.0.1:{port}"
        with EventPublisher(
            f"ipc://{tmp_path}/events", f"ipc://{tmp_path}/replay", data_parallel_rank=1
        ) as made:
            assert made.endpoint == f"ipc://{tmp_path}/events_dp1"
            assert made.replay_endpoint == f"ipc://{tmp_path}/replay_dp1"
    finally:
        context.destroy(0)


def test_addresses_in_use() -> None:
    with publisher() as made:
        for options in ({"endpoint": made.endpoint}, {"replay_endpoint": made.replay_endpoint}):
            with pytest.raises(EndpointError, match="in use") as caught, publisher(**options):
                pass
            assert caught.value.endpoint == next(iter(options.values()))


def test_a_path_in_use_is_not_taken_away(tmp_path: Any) -> None:
    """As ZeroMQ would: the first publisher would go on for nobody, and at its end take the second's path along."""
    path = f"ipc://{tmp_path}/events"
    with publisher(endpoint=path) as first:
        with pytest.raises(EndpointError, match="in use"), publisher(endpoint=path):
            pass
        first.publish([removed(1)])
        assert first.flush(GENEROUS_SECONDS)
    with publisher(endpoint=path) as second:  # what is left of the first is in nobody's way
        assert second.endpoint == path


def test_a_path_that_the_system_chooses_is_told(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with publisher(endpoint="ipc://*", replay_endpoint="ipc://*", data_parallel_rank=1) as made:
        for endpoint in (made.endpoint, made.replay_endpoint):
            assert endpoint is not None
            assert (tmp_path / endpoint.removeprefix("ipc://")).exists()


@pytest.mark.parametrize(
    ("options", "error", "field"),
    [
        ({"endpoint": "127.0.0.1:5557"}, ConfigError, "endpoint"),
        ({"endpoint": "udp://127.0.0.1:5557"}, ConfigError, "endpoint"),
        ({"endpoint": "tcp://"}, ConfigError, "endpoint"),
        ({"endpoint": "tcp://host"}, ConfigError, "endpoint"),
        ({"endpoint": "tcp://host:port"}, ConfigError, "endpoint"),
        ({"endpoint": "tcp://127.0.0.1:65536"}, ConfigError, "endpoint"),
        ({"endpoint": "tcp://127.0.0.1:65535", "data_parallel_rank": 1}, ConfigError, "data_parallel_rank"),
        ({"endpoint": "ipc://" + "x" * 200}, ConfigError, "endpoint"),
        ({"endpoint": 5557}, ArgumentError, "endpoint"),
        ({"replay_endpoint": "5558"}, ConfigError, "replay_endpoint"),
        ({"topic": "\ud800"}, ConfigError, "topic"),
        ({"topic": b"topic"}, ArgumentError, "topic"),
        ({"data_parallel_rank": -1}, ConfigError, "data_parallel_rank"),
        ({"dialect": "xml"}, ConfigError, "dialect"),
        ({"buffer_steps": -1}, ConfigError, "buffer_steps"),
        ({"hwm": 2**31}, ConfigError, "hwm"),
        ({"buffer_steps": 2**70}, ConfigError, "buffer_steps"),
        ({"max_queue_size": 2**31}, ConfigError, "max_queue_size"),
        ({"data_parallel_rank": 2**16}, ConfigError, "data_parallel_rank"),
        ({"endpoint": "tcp://127.0.0.1:0", "bind": False}, ConfigError, "endpoint"),
        ({"endpoint": "tcp://*:5557", "bind": False}, ConfigError, "endpoint"),
        ({"endpoint": "inproc://events"}, ConfigError, "context"),
        ({"replay_endpoint": "inproc://replay"}, ConfigError, "context"),
        ({"max_queue_size": 0}, ConfigError, "max_queue_size"),
        ({"bind": 1}, ArgumentError, "bind"),
        ({"snapshots": 1}, ArgumentError, "snapshots"),
        ({"replay_topic": 1}, ArgumentError, "replay_topic"),
        ({"fingerprint": 7}, ArgumentError, "fingerprint"),
        ({"clock": None}, ArgumentError, "clock"),
        ({"context": "context"}, ArgumentError, "context"),
    ],
)
def test_bad_settings(options: dict[str, Any], error: type[Exception], field: str) -> None:
    with pytest.raises(error) as caught, publisher(**options):
        pass
    assert type(caught.value) is error
    assert caught.value.field == field  # type: ignore[attr-defined]


def test_bad_batches() -> None:
    with publisher() as made:
        for bad in (None, (), "events", removed(1), [removed(1), "event"]):
            with pytest.raises(ArgumentError):
                made.publish(bad)  # type: ignore[arg-type]
        for ts in ("now", True):
            with pytest.raises(ArgumentError):
                made.publish([removed(1)], ts)  # type: ignore[arg-type]
        with pytest.raises(ConfigError):
            made.publish([removed(1)], 10**400)
        made._clock = lambda: "now"  # type: ignore[assignment,return-value]
        with pytest.raises(ArgumentError, match="clock"):
            made.publish([removed(1)])
        assert made.stats().num_batches == 0

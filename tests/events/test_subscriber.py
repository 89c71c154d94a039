"""`EventSubscriber` against live publishers on loopback: at the end the consumer's view is the pool's index, whatever
happened in between."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import IO, Any

import pytest
import zmq

from blockpool import ArgumentError, BlockHasher, ConfigError, EndpointError, FingerprintError
from blockpool.events import EventSubscriber, IndexView, Source, SourceAddress
from blockpool.events.source_link import SourceLink

from .support import Consumer, PlainPublisher, PoolRun, address_of, publisher, removed, stored

CHECKOUT = Path(__file__).resolve().parent.parent.parent


def ipc(folder: Path, name: str) -> SourceAddress:
    return SourceAddress(f"ipc://{folder}/{name}", f"ipc://{folder}/{name}-replay")


def test_a_consumer_that_was_there_from_the_beginning() -> None:
    run = PoolRun(1)
    with publisher() as made, Consumer(address_of(made)) as consumer:
        for _ in range(200):
            made.publish(run.batch(3))
        consumer.follow(
            lambda: consumer.index(made.endpoint) == run.index() and consumer.seqs()[-1:] == [199]
        )
        assert consumer.seqs() == list(range(200))
        assert consumer.view.num_unmatched == 0


@pytest.mark.parametrize("dialect", ["array", "map"])
@pytest.mark.parametrize("granularity", ["every_copy", "last_copy"])
def test_late_join_beyond_the_kept_history(granularity: str, dialect: str) -> None:
    run = PoolRun(2, event_granularity=granularity, batch_removes=True)
    with publisher(buffer_steps=50, dialect=dialect) as made:
        for _ in range(100):
            made.publish(run.batch(5))
        made.flush(60.0)
        with Consumer(address_of(made)) as consumer:
            consumer.follow(lambda: consumer.seqs()[-1:] == [99])
            assert consumer.index(made.endpoint) == run.index()
            assert {batch.origin for _, batch in consumer.batches} == {"snapshot"}
            for _ in range(100):
                made.publish(run.batch(5))
            consumer.follow(lambda: consumer.seqs()[-1] == 199)
            assert consumer.index(made.endpoint) == run.index()
            assert made.stats().num_snapshots == 1


def test_late_join_within_the_history_needs_no_snapshot() -> None:
    run = PoolRun(3)
    with publisher() as made:
        for _ in range(50):
            made.publish(run.batch(5))
        made.flush(60.0)
        with Consumer(address_of(made)) as consumer:
            consumer.follow(lambda: consumer.seqs() == list(range(50)))
            assert consumer.index(made.endpoint) == run.index()
        assert made.stats().num_snapshots == 0


def test_an_empty_publisher_gives_nothing() -> None:
    with publisher() as made, Consumer(address_of(made)) as consumer:
        stats = consumer.subscriber.stats()[made.endpoint]
        consumer.follow(lambda: stats.num_syncs > 3)
        assert consumer.batches == []
        assert stats.epoch == made.epoch


def test_a_stalled_consumer_loses_messages_and_catches_up() -> None:
    """Its queue and the publisher's hold 10 messages, and it does not read while hundreds are sent."""
    run = PoolRun(4)
    with publisher(hwm=10, buffer_steps=100) as made, Consumer(address_of(made), hwm=10) as consumer:
        made.publish(run.batch(5))
        consumer.follow(lambda: consumer.seqs() == [0])
        for _ in range(2_000):
            made.publish(run.batch(2) if run.random.random() < 0.5 else [stored(1), removed(1)])
        made.flush(60.0)
        consumer.follow(lambda: consumer.seqs()[-1] == 2_000)
        assert consumer.index(made.endpoint) == run.index()
        stats = consumer.subscriber.stats()[made.endpoint]
        assert stats.num_gaps > 0
        assert stats.num_lost == 0
        assert consumer.seqs() == sorted(consumer.seqs())


def test_drops_at_the_publisher_are_mended_by_a_snapshot() -> None:
    run = PoolRun(5)
    with publisher(max_queue_size=1) as made, Consumer(address_of(made)) as consumer:
        for _ in range(500):
            made.publish(run.batch(2))
        made.flush(60.0)
        last = made.stats().num_batches - 1
        consumer.follow(
            lambda: consumer.seqs()[-1:] == [last] and consumer.index(made.endpoint) == run.index()
        )
        assert consumer.seqs() == sorted(consumer.seqs())


class DroppingProxy:
    """Between publisher and subscriber; loses every third message, in a thread of its own."""

    def __init__(self, endpoint: str) -> None:
        self.context = zmq.Context()
        self.front = self.context.socket(zmq.XSUB)
        self.front.connect(endpoint)
        self.back = self.context.socket(zmq.XPUB)
        port = self.back.bind_to_random_port("tcp://127.0.0.1")
        self.endpoint = f"tcp://127.0.0.1:{port}"
        self.stop_here = self.context.socket(zmq.PAIR)
        self.stop_here.bind("inproc://stop")
        self.stop_there = self.context.socket(zmq.PAIR)
        self.stop_there.connect("inproc://stop")
        self.num_dropped = 0
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self) -> None:
        poller = zmq.Poller()
        for one in (self.front, self.back, self.stop_there):
            poller.register(one, zmq.POLLIN)
        number = 0
        while True:
            for one, _ in poller.poll():
                if one is self.stop_there:
                    return
                frames = one.recv_multipart()
                if one is self.back:
                    self.front.send_multipart(frames)
                    continue
                number += 1
                if number % 3:
                    self.back.send_multipart(frames)
                else:
                    self.num_dropped += 1

    def close(self) -> None:
        self.stop_here.send(b"")
        self.thread.join()
        self.context.destroy(0)


@pytest.mark.parametrize("buffer_steps", [10_000, 5])
def test_batches_that_are_lost_on_the_way(buffer_steps: int) -> None:
    run = PoolRun(6)
    with publisher(buffer_steps=buffer_steps) as made:
        proxy = DroppingProxy(made.endpoint)
        try:
            with Consumer(SourceAddress(proxy.endpoint, made.replay_endpoint)) as consumer:
                made.publish(run.batch(5))
                consumer.follow(lambda: bool(consumer.batches))
                for _ in range(300):
                    made.publish(run.batch(2) if run.random.random() < 0.5 else [removed()])
                    consumer.follow(lambda: True)
                consumer.follow(lambda: consumer.seqs()[-1] == 300)
                assert consumer.index(proxy.endpoint) == run.index()
                assert proxy.num_dropped > 50
                if buffer_steps == 10_000:
                    assert consumer.seqs() == list(range(301))
        finally:
            proxy.close()


def test_four_publishers_at_once() -> None:
    runs = [PoolRun(seed) for seed in range(10, 14)]
    made = [publisher(data_parallel_rank=rank) for rank in range(4)]
    publishers = [entered.__enter__() for entered in made]
    try:
        with Consumer(*map(address_of, publishers)) as consumer:
            for _ in range(200):
                for one, run in zip(publishers, runs, strict=True):
                    one.publish(run.batch(2))
            for one in publishers:
                one.flush(60.0)
            consumer.follow(
                lambda: all(
                    consumer.index(one.endpoint) == run.index()
                    for one, run in zip(publishers, runs, strict=True)
                )
            )
            ranks = {
                (source.endpoint, batch.data_parallel_rank)
                for source, batch in consumer.batches
                if batch.events
            }
            assert ranks == {(one.endpoint, one.data_parallel_rank) for one in publishers}
    finally:
        for entered in made:
            entered.__exit__(None, None, None)


# --- processes that are killed ----------------------------------------------------------------------------------


def start(module: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", f"tests.events.{module}", *map(str, arguments)],
        cwd=CHECKOUT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        assert stream is not None
        stream.close()


def told(stream: IO[str] | None) -> Any:
    assert stream is not None
    return json.loads(stream.readline())


@pytest.mark.parametrize("second_batches", [10, 50, 100])
def test_a_publisher_that_is_killed_and_restarted(tmp_path: Path, second_batches: int) -> None:
    """With fewer batches, as many, and more than before: it is another one, and its history has begun anew."""
    address = ipc(tmp_path, "pod")
    with Consumer(address) as consumer:
        first = start("publisher_process", *address, 1, 50)
        try:
            index = Counter(dict(told(first.stdout)))
            consumer.follow(lambda: consumer.seqs()[-1:] == [49])
            assert consumer.index(address.endpoint) == index
        finally:
            kill(first)
        second = start("publisher_process", *address, 2, second_batches)
        try:
            index = Counter(dict(told(second.stdout)))
            stats = consumer.subscriber.stats()[address.endpoint]
            consumer.follow(lambda: stats.num_restarts == 1 and consumer.seqs()[-1] == second_batches - 1)
            assert consumer.index(address.endpoint) == index
        finally:
            kill(second)


def test_a_publisher_that_is_killed_while_it_publishes(tmp_path: Path) -> None:
    """Twice, wherever it stood: what the consumer knows at the end is the index of the third."""
    address = ipc(tmp_path, "pod")
    with Consumer(address) as consumer:
        stats = consumer.subscriber.stats()[address.endpoint]
        for seed in (1, 2):
            num_batches = stats.num_batches + stats.num_snapshots
            process = start("publisher_process", *address, seed, 1_000_000)
            try:
                consumer.follow(lambda: stats.num_batches + stats.num_snapshots > num_batches + 20)  # noqa: B023
            finally:
                kill(process)
        process = start("publisher_process", *address, 3, 200)
        try:
            index = Counter(dict(told(process.stdout)))
            consumer.follow(
                lambda: consumer.index(address.endpoint) == index and consumer.seqs()[-1:] == [199]
            )
            assert (stats.num_restarts, stats.num_lost) == (2, 0)
        finally:
            kill(process)


def test_a_subscriber_that_is_killed_and_restarted() -> None:
    run = PoolRun(8)
    with publisher(buffer_steps=10) as made:
        for _ in range(2):
            process = start("subscriber_process", made.endpoint, made.replay_endpoint)
            try:
                for _ in range(30):
                    made.publish(run.batch(3))
                made.flush(60.0)
                seq, counts = -1, []
                while seq < made.stats().num_batches - 1:
                    seq, counts = told(process.stdout)
                assert Counter(dict(counts)) == run.index()
            finally:
                kill(process)


# --- publishers as plain as vLLM's ------------------------------------------------------------------------------


class PlainRun:
    """A plain publisher that plays a run, and a consumer that follows it."""

    def __init__(self, folder: Path, name: str, seed: int, **options: Any) -> None:
        from blockpool.events import EventEncoder

        self.encode = EventEncoder().encode
        self.run = PoolRun(seed)
        self.made = PlainPublisher(*ipc(folder, name), **options)

    def send(self, count: int, silently: bool = False) -> None:
        for _ in range(count):
            self.made.send(
                self.encode(float(self.run.random.random()), self.run.batch(2).events(), 0), silently
            )

    def catch_up(self, consumer: Consumer) -> None:
        last = self.made.next_seq - 1

        def done() -> bool:
            self.made.serve()
            return (
                consumer.seqs()[-1:] == [last]
                and consumer.index(self.made.address.endpoint) == self.run.index()
            )

        consumer.follow(done)


@pytest.mark.parametrize("with_topic", [False, True])
def test_plain_publishers(tmp_path: Path, with_topic: bool) -> None:
    """Joined late, with batches lost on the way, restarted and overtaken: all shown by numbers alone."""
    first = PlainRun(tmp_path, "pod", 1, with_topic=with_topic)
    with Consumer(first.made.address) as consumer:
        first.send(30)
        first.catch_up(consumer)
        assert consumer.seqs() == list(range(30))
        first.send(5, silently=True)
        first.send(5)
        first.catch_up(consumer)
        first.send(5, silently=True)  # nothing follows that would show the gap
        first.catch_up(consumer)
        assert consumer.seqs() == list(range(45))
        first.made.close()
        second = PlainRun(tmp_path, "pod", 2, with_topic=with_topic)
        second.send(60, silently=True)
        second.catch_up(consumer)
        assert consumer.seqs() == [*range(45), *range(60)]
        assert [batch.seq for _, batch in consumer.batches if batch.reset] == [0]
        stats = consumer.subscriber.stats()[second.made.address.endpoint]
        assert (stats.num_restarts, stats.num_lost, stats.epoch) == (1, 0, None)
        num_syncs = stats.num_syncs
        second.send(1)
        second.catch_up(consumer)

        def asked_again() -> bool:
            second.made.serve()
            return stats.num_syncs > num_syncs + 2

        consumer.follow(asked_again)
        assert second.made.num_strange == 1  # once for each connection: vLLM logs each of them
        second.made.close()


def test_a_plain_publisher_whose_history_is_gone(tmp_path: Path) -> None:
    plain = PlainRun(tmp_path, "pod", 1, kept=10)
    plain.send(30)
    with Consumer(plain.made.address) as consumer:

        def done() -> bool:
            plain.made.serve()
            return consumer.seqs()[-1:] == [29]

        consumer.follow(done)
        assert consumer.seqs() == list(range(20, 30))
        assert consumer.batches[0][1].lost == 20
        assert consumer.subscriber.stats()[plain.made.address.endpoint].num_lost == 20
    plain.made.close()


# --- the rest ---------------------------------------------------------------------------------------------------


def test_nobody_answers_on_the_replay_socket() -> None:
    """A wrong replay address: what is missing is lost, and told; the rest comes."""
    with publisher(replay_endpoint=None) as made, publisher() as other:
        dead = other.replay_endpoint
        other.close()
        with Consumer(SourceAddress(made.endpoint, dead), sync_timeout=0.02) as consumer:
            stats = consumer.subscriber.stats()[made.endpoint]
            consumer.follow(lambda: stats.num_failed_syncs >= 3)
            while not consumer.batches:
                made.publish([stored(7)])
                consumer.follow(lambda: True)
                consumer.subscriber.poll(0.01)
                if stats.num_batches:
                    break
            assert stats.num_batches


def test_without_a_replay_endpoint_batches_still_come_in_order() -> None:
    with publisher(topic="kv@a@m") as made, Consumer(SourceAddress(made.endpoint), topic="kv@") as consumer:
        while not consumer.batches:
            made.publish([stored(1)])
            consumer.follow(lambda: True)
            for source, batch in consumer.subscriber.poll(0.01):
                consumer.batches.append((source, batch))
        first = consumer.seqs()[0]
        for _ in range(10):
            last = made.publish([stored(1)])
        consumer.follow(lambda: consumer.seqs()[-1] == last)
        assert consumer.seqs() == list(range(first, (last or 0) + 1))
        assert {source for source, _ in consumer.batches} == {Source(made.endpoint, "kv@a@m")}
        assert consumer.batches[0][1].lost == first


def test_publishers_that_connect_to_a_bound_subscriber() -> None:
    """The usual way of a router: one address for all, a topic for each."""
    with Consumer(SourceAddress("tcp://127.0.0.1:*")) as consumer:
        link = consumer.subscriber._links["tcp://127.0.0.1:*"]
        assert link._sub is not None
        where = link._sub.getsockopt(zmq.LAST_ENDPOINT).decode().rstrip("\0")  # type: ignore[union-attr]
        runs = {f"kv@{name}@m": PoolRun(seed) for seed, name in enumerate("ab")}
        with (
            publisher(endpoint=where, bind=False, replay_endpoint=None, topic="kv@a@m") as a,
            publisher(endpoint=where, bind=False, replay_endpoint=None, topic="kv@b@m") as b,
        ):
            known: set[str] = set()
            while known != {"kv@a@m", "kv@b@m"}:
                a.publish([removed()])
                b.publish([removed()])
                known |= {source.topic for source, _ in consumer.subscriber.poll(0.01)}
            last = 0
            for _ in range(100):
                for made in (a, b):
                    last = max(last, made.publish(runs[made.topic].batch(2)) or 0)
            consumer.follow(
                lambda: all(
                    consumer.index("tcp://127.0.0.1:*", topic) == run.index() for topic, run in runs.items()
                )
            )


def test_fingerprints_that_differ_are_an_error_and_the_others_go_on() -> None:
    """Case 16: other seeds, or none, give hashes that never meet."""
    one, two = (BlockHasher("sha256", 16, seed).fingerprint for seed in ("0", None))
    with publisher(fingerprint=one) as good, publisher(fingerprint=two) as bad:
        with Consumer(address_of(good), address_of(bad), fingerprint=one) as consumer:
            with pytest.raises(FingerprintError, match=two) as caught:
                consumer.follow(lambda: False)
            assert (caught.value.source, caught.value.expected, caught.value.actual) == (
                bad.endpoint,
                one,
                two,
            )
            bad.publish([stored(1)])
            good.publish([stored(2)])
            consumer.follow(lambda: bool(consumer.batches))
            assert consumer.view.sources() == [Source(good.endpoint)]
        with Consumer(address_of(good), address_of(bad)) as consumer, pytest.raises(FingerprintError):
            consumer.follow(lambda: False)
        with Consumer(address_of(good), address_of(bad), compare_fingerprints=False) as consumer:
            stats = consumer.subscriber.stats()
            consumer.follow(lambda: {stats[made.endpoint].fingerprint for made in (good, bad)} == {one, two})


def test_iteration() -> None:
    with publisher() as made, EventSubscriber(address_of(made)) as subscriber:
        for i in range(5):
            made.publish([stored(i)])
        seqs = []
        for source, batch in subscriber:
            assert source == Source(made.endpoint)
            seqs.append(batch.seq)
            if batch.seq == 4:
                subscriber.close()
        assert seqs == list(range(5))
        assert subscriber.poll(0.0) == []


def test_async_iteration() -> None:
    async def follow() -> list[int]:
        view, seqs = IndexView(), []
        async with EventSubscriber(address_of(made)) as subscriber:
            ticks = asyncio.create_task(tick())
            async for source, batch in subscriber:
                view.apply(source, batch)
                seqs.append(batch.seq)
                if batch.seq == 99:
                    subscriber.close()
            ticks.cancel()
        assert Counter(dict(view.counts(Source(made.endpoint)))) == run.index()
        return seqs

    async def tick() -> None:
        """Publishes from the same loop: it goes on while the subscriber waits."""
        while True:
            if made.stats().num_batches < 100:
                made.publish(run.batch(3))
            await asyncio.sleep(0)

    run = PoolRun(9)
    with publisher() as made:
        assert asyncio.run(asyncio.wait_for(follow(), 60.0)) == list(range(100))


@pytest.mark.parametrize("asynchronous", [False, True])
def test_waiting_for_a_publisher_that_is_not_there_is_no_work(
    monkeypatch: pytest.MonkeyPatch, asynchronous: bool
) -> None:
    """Between two attempts to connect there is no socket to wait for."""
    steps = 0
    step = SourceLink.step

    def counted(link: SourceLink, ready: Any) -> None:
        nonlocal steps
        steps += 1
        step(link, ready)

    async def wait_for_one(subscriber: EventSubscriber) -> None:
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(subscriber.__anext__(), 1.0)

    monkeypatch.setattr(SourceLink, "step", counted)
    with EventSubscriber("tcp://127.0.0.1:1") as subscriber:
        if asynchronous:
            asyncio.run(wait_for_one(subscriber))
        else:
            assert subscriber.poll(1.0) == []
    assert 2 <= steps < 60


def test_async_iteration_goes_on_after_it_was_cancelled() -> None:
    """Again and again, wherever it stood: nothing is lost or handed out twice."""

    async def follow() -> list[int]:
        seqs = []
        async with EventSubscriber(address_of(made), check_interval=0.05) as subscriber:
            while not seqs or seqs[-1] < 299:
                if made.stats().num_batches < 300:
                    made.publish(run.batch(2))
                try:
                    _, batch = await asyncio.wait_for(anext(subscriber), 0.001)
                except asyncio.TimeoutError:
                    continue
                seqs.append(batch.seq)
        return seqs

    run = PoolRun(12)
    with publisher() as made:
        assert asyncio.run(asyncio.wait_for(follow(), 60.0)) == list(range(300))


def has_ipv6() -> bool:
    with socket.socket(socket.AF_INET6) as probe:
        try:
            probe.bind(("::1", 0))
        except OSError:
            return False
    return True


@pytest.mark.skipif(not socket.has_ipv6 or not has_ipv6(), reason="this machine has no IPv6")
def test_ipv6() -> None:
    """`[::1]` is bound by a publisher, as vLLM's rule has it, and connected to by a subscriber."""
    run = PoolRun(13)
    with publisher(endpoint="tcp://[::1]:0", replay_endpoint="tcp://[::1]:0", bind=None) as made:
        assert made.endpoint.startswith("tcp://[::1]:")
        with Consumer(address_of(made)) as consumer:
            for _ in range(50):
                made.publish(run.batch(3))
            consumer.follow(lambda: consumer.seqs() == list(range(50)))
            assert consumer.index(made.endpoint) == run.index()


def test_only_the_topics_that_are_wanted_come_from_the_history_too() -> None:
    run = PoolRun(14)
    with publisher(topic="kv@a@m") as one, publisher(topic="kv@b@m") as other:
        for made in (one, other):
            for _ in range(20):
                made.publish(run.batch(2))
            assert made.flush(60.0)
        with Consumer(address_of(one), address_of(other), topic="kv@b") as consumer:
            stats = consumer.subscriber.stats()
            consumer.follow(lambda: stats[one.endpoint].num_syncs > 3 and stats[other.endpoint].num_syncs > 3)
            assert {(source.endpoint, batch.topic) for source, batch in consumer.batches} == {
                (other.endpoint, "kv@b@m")
            }
            assert consumer.seqs() == list(range(20))


def test_inproc() -> None:
    context: Any = zmq.Context()
    try:
        with (
            publisher(endpoint="inproc://events", replay_endpoint="inproc://replay", context=context) as made,
            Consumer(address_of(made), context=context) as consumer,
        ):
            run = PoolRun(11)
            for _ in range(50):
                made.publish(run.batch(3))
            consumer.follow(lambda: consumer.seqs() == list(range(50)))
            assert consumer.index(made.endpoint) == run.index()
    finally:
        context.destroy(0)


@pytest.mark.parametrize(
    ("addresses", "options", "error"),
    [
        ([], {}, ConfigError),
        ("localhost:5557", {}, ConfigError),
        (["tcp://h:1", "tcp://h:1"], {}, ConfigError),
        ([SourceAddress("tcp://h:1", "h:2")], {}, ConfigError),
        ([("tcp://h:1", None)], {}, ArgumentError),
        (7, {}, ArgumentError),
        ("tcp://h:0", {}, ConfigError),
        (SourceAddress("tcp://h:1", "tcp://*:2"), {}, ConfigError),
        (SourceAddress("tcp://h:1", "tcp://h:0"), {}, ConfigError),
        (SourceAddress("tcp://h:1", "ipc://*"), {}, ConfigError),
        (SourceAddress("tcp://h:1", "inproc://replay"), {}, ConfigError),
        ("inproc://events", {}, ConfigError),
        ("ipc://*", {}, ConfigError),
        ("tcp://h:1", {"topic": "\ud800"}, ConfigError),
        ("tcp://h:1", {"check_interval": 0}, ConfigError),
        ("tcp://h:1", {"sync_timeout": "1"}, ArgumentError),
        ("tcp://h:1", {"hwm": -1}, ConfigError),
        ("tcp://h:1", {"max_payload_bytes": 0}, ConfigError),
        ("tcp://h:1", {"fingerprint": ""}, ConfigError),
        ("tcp://h:1", {"compare_fingerprints": None}, ArgumentError),
        ("tcp://h:1", {"context": 7}, ArgumentError),
    ],
)
def test_bad_settings(addresses: Any, options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error) as caught:
        EventSubscriber(addresses, **options)
    assert type(caught.value) is error


def test_an_address_to_bind_that_is_taken() -> None:
    with publisher(endpoint="tcp://*:0", bind=None) as made:
        port = made.endpoint.rpartition(":")[2]
        with pytest.raises(EndpointError, match="in use"):
            EventSubscriber(f"tcp://*:{port}")

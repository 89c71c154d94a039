"""Events: cost in the request path, encoding, the way over loopback, `publish` under a stalled socket."""

from __future__ import annotations

import queue
import random
import statistics
import threading
import time
from collections.abc import Callable
from typing import Any

import msgspec

from benchmarks.measure import (
    Row,
    Size,
    alternate,
    collector_off,
    faster_row,
    require_equal,
    seconds,
    smaller_row,
)
from benchmarks.peer import Peer
from benchmarks.request_path import BLOCK_SIZE, Player, Workload, our_player
from blockpool import BlockStored, EventLog
from blockpool.core.event_log import StoredRun
from blockpool.events import EventEncoder, EventPublisher, EventSubscriber, SourceAddress

EVENTS_PER_BATCH = 100
BLOCKS_PER_STORED = 4
STALL_SECONDS = 0.5
SECONDS_AT_MOST = 120.0


class LogPlayer:
    """Serves requests and hands the events over as logs: what a publisher takes."""

    def __init__(
        self, player: Player, publish: Callable[[EventLog], object], requests_per_log: int = 8
    ) -> None:
        self.player = player
        self.publish = publish
        self.requests_per_log = requests_per_log

    def play(self, requests: list[Any]) -> None:
        """Some requests, one log, and so on: this is what is timed."""
        for start in range(0, len(requests), self.requests_per_log):
            self.player._serve(requests[start : start + self.requests_per_log])
            self.publish(self.player.pool.take_event_log())


def path_row(size: Size, at_most: float | None) -> Row:
    """The request path with events on against off, both ours."""
    workload = Workload(size, 0)
    off, on = our_player(size, False), our_player(size, True)
    logs: list[EventLog] = []
    logged = LogPlayer(on, logs.append)
    to_fill = 2 * size.pool_blocks // (size.request_blocks // 2)
    off.play(workload.requests(-1, to_fill))
    logged.play(workload.requests(-1, to_fill))

    def timed(play: Callable[[list[Any]], None]) -> Callable[[int], float]:
        def play_round(index: int) -> float:
            requests = workload.requests(index, size.requests_per_round)
            logs.clear()
            return seconds(lambda: play(requests)) / size.requests_per_round * 1e6

        return play_round

    ours, theirs = alternate(size.rounds, timed(logged.play), timed(off.play))
    require_equal("hits and eviction order", on.outcome()[:2], off.outcome()[:2])
    what = f"the request path, {size.request_blocks}-block requests, events handed over as logs"
    return smaller_row("events-path", what, "µs", ours, theirs, at_most=at_most, against="ours, events off")


def batches(peer: Peer, count: int) -> list[tuple[EventLog, Any]]:
    """Equal batches of 100 events as a log of ours and as vLLM's structs, half stored, half removed."""
    source = random.Random(1)
    made = []
    for _ in range(count):
        log = EventLog(True, False)
        for _ in range(EVENTS_PER_BATCH // 2):
            digests: list[object] = [source.randbytes(32) for _ in range(BLOCKS_PER_STORED)]
            tokens: list[object] = [source.randrange(128_000) for _ in range(BLOCKS_PER_STORED * BLOCK_SIZE)]
            log.records.append(StoredRun(digests, source.randbytes(32), tokens, BLOCK_SIZE, None, None))
            log.records.append(source.randbytes(32))
        twin = EventLog(True, False)
        twin.records.extend(log.records)
        theirs = [
            peer.BlockStored(*event.__reduce__()[1])  # type: ignore[misc]
            if isinstance(event, BlockStored)
            else peer.BlockRemoved(event.block_hashes, event.medium)  # type: ignore[union-attr]
            for event in twin.events()
        ]
        made.append((log, peer.KVEventBatch(1.5, theirs, 0)))
    return made


def encode_row(peer: Peer, size: Size, at_least: float | None) -> Row:
    """A batch of 100 events to bytes, against msgspec on vLLM's own structs."""
    count = max(size.requests_per_round // 3, 4)
    encoder, their_encoder = EventEncoder(), msgspec.msgpack.Encoder()
    made = batches(peer, count)
    for log, theirs in made:
        twin = EventLog(True, False)
        twin.records.extend(log.records)
        require_equal("bytes", encoder.encode(1.5, twin, 0), their_encoder.encode(theirs))

    def ours_round(_: int) -> float:
        logs = []
        for log, _theirs in made:  # afresh: one whose events were made is another thing to encode
            twin = EventLog(True, False)
            twin.records.extend(log.records)
            logs.append(twin)
        return seconds(lambda: [encoder.encode(1.5, log, 0) for log in logs])

    def their_round(_: int) -> float:
        return seconds(lambda: [their_encoder.encode(theirs) for _, theirs in made])

    ours, theirs_times = alternate(size.rounds, ours_round, their_round)
    return faster_row(
        "events-encode",
        f"a batch of {EVENTS_PER_BATCH} events to bytes",
        ours,
        theirs_times,
        per=count,
        at_least=at_least,
        against="msgspec, vLLM's structs",
    )


def loopback_row(size: Size) -> Row:
    """Pool, publisher and subscriber in one process, until the last block is there; wall time per stored block."""
    workload = Workload(size, 3)
    requests = workload.requests(0, size.requests_per_round)
    rates: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(3):
        for published in (False, True):
            player = our_player(size, True)
            player.play(workload.requests(-1, 2 * size.pool_blocks // (size.request_blocks // 2)))
            player.taken.clear()
            if published:
                rates[True].append(_through_sockets(player, requests))
            else:
                start = time.perf_counter()
                logs: list[EventLog] = []
                LogPlayer(player, logs.append).play(requests)
                rates[False].append((time.perf_counter() - start) / _num_blocks(logs) * 1e6)
    return Row(
        "events-loopback",
        "wall time per stored block: pool, publisher, TCP, subscriber, in one interpreter",
        "µs",
        statistics.median(rates[True]),
        statistics.median(rates[False]),
        "the pool alone",
        statistics.median(rates[True]) / statistics.median(rates[False]),
    )


def _num_blocks(logs: list[EventLog]) -> int:
    return sum(
        len(record.block_hashes) for log in logs for record in log.records if isinstance(record, StoredRun)
    )


def _through_sockets(player: Player, requests: list[Any]) -> float:
    """µs per stored block, from the first request to the last batch that arrives."""
    with EventPublisher("tcp://127.0.0.1:0", "tcp://127.0.0.1:0", bind=True) as publisher:
        address = SourceAddress(publisher.endpoint, publisher.replay_endpoint)
        with EventSubscriber(address, check_interval=0.1) as subscriber:
            while not subscriber.stats()[publisher.endpoint].epoch:
                subscriber.poll(0.01)
            start = time.perf_counter()
            LogPlayer(player, publisher.publish).play(requests)
            num_blocks, last = 0, publisher.stats().num_batches - 1
            seq = -1
            while seq < last:
                if time.perf_counter() - start > SECONDS_AT_MOST:
                    raise AssertionError(f"batch {last} never came: {subscriber.stats()}")
                for _, batch in subscriber.poll(0.1):
                    seq = batch.seq
                    for event in batch.events:
                        num_blocks += len(getattr(event, "token_ids", ())) // BLOCK_SIZE
            return (time.perf_counter() - start) / num_blocks * 1e6


class _StalledSocket:
    """Stands in for a PUB socket that does not take messages for a while."""

    def __init__(self, pub: Any, go: threading.Event) -> None:
        self._pub = pub
        self._go = go
        self.stalled = threading.Event()

    def send_multipart(self, *arguments: Any) -> None:
        self.stalled.set()
        self._go.wait()
        self._pub.send_multipart(*arguments)

    def close(self, linger: int) -> None:
        self._pub.close(linger)


def stalled_row(size: Size, at_most: float | None) -> Row:
    """The 99th percentile of `publish` while the socket is stalled, against one `put` that waits until it is not."""
    player = our_player(size, True)
    logs: list[EventLog] = []
    LogPlayer(player, logs.append, 1).play(Workload(size, 4).requests(0, 801))
    go = threading.Event()
    waits = []
    with EventPublisher("tcp://127.0.0.1:0", "tcp://127.0.0.1:0", bind=True, max_queue_size=2) as publisher:
        worker: Any = publisher._worker
        worker._pub = stalled = _StalledSocket(worker._pub, go)
        publisher.publish(logs[0])
        stalled.stalled.wait()
        with collector_off():
            for log in logs[1:]:
                start = time.perf_counter()
                publisher.publish(log)
                waits.append(time.perf_counter() - start)
        go.set()
    blocking: queue.Queue[EventLog] = queue.Queue(1)
    blocking.put(logs[0])
    threading.Timer(STALL_SECONDS, blocking.get).start()
    start = time.perf_counter()
    blocking.put(logs[1])
    blocked = time.perf_counter() - start
    ninety_ninth = statistics.quantiles(waits, n=100)[98]
    what = f"publish, 99th percentile, full queue and a socket that is stalled for {STALL_SECONDS:g} s"
    return Row(
        "events-stalled",
        what,
        "ms",
        ninety_ninth * 1e3,
        blocked * 1e3,
        "a put that waits",
        ninety_ninth / blocked,
        at_most=at_most,
    )


def measure(peer: Peer, size: Size, bounds: dict[str, float]) -> list[Row]:
    """All rows."""
    return [
        path_row(size, bounds.get("events-path")),
        encode_row(peer, size, bounds.get("events-encode")),
        loopback_row(size),
        stalled_row(size, bounds.get("events-stalled")),
    ]

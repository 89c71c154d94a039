"""Our subscriber against vLLM's own publisher, unchanged, and vLLM's way of asking against ours."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zmq

from benchmarks.peer import Peer
from blockpool.events import SourceAddress

from .support import Consumer, PoolRun

pytestmark = pytest.mark.peer


class Fleet:
    """vLLM's publishers on ipc, each with the events of a run of our pool as its own structs."""

    def __init__(self, peer: Peer, folder: Path) -> None:
        self.peer = peer
        self.address = SourceAddress(f"ipc://{folder}/pod", f"ipc://{folder}/replay")
        self.running: Any = None

    def start(self, seed: int, **options: Any) -> None:
        self.run = PoolRun(seed)
        self.num_sent = 0
        self.running = self.peer.kv_events.ZmqEventPublisher(
            0, self.address.endpoint, self.address.replay_endpoint, **options
        )

    def send(self, count: int) -> None:
        for _ in range(count):
            events = [self.as_theirs(event) for event in self.run.batch(2).events()]
            self.running.publish(self.peer.KVEventBatch(self.run.random.random(), events))
            self.num_sent += 1

    def as_theirs(self, event: Any) -> Any:
        kind = getattr(self.peer, type(event).__name__)
        return kind(*event.__reduce__()[1])

    def stop(self) -> None:
        self.running.shutdown()

    def catch_up(self, consumer: Consumer) -> None:
        def done() -> bool:
            index = consumer.index(self.address.endpoint)
            return consumer.seqs()[-1:] == [self.num_sent - 1] and index == self.run.index()

        consumer.follow(done)


@pytest.fixture
def fleet(
    peer: Peer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> Any:
    caplog.set_level(logging.CRITICAL)
    monkeypatch.setattr(peer.kv_events, "zmq", zmq)
    made = Fleet(peer, tmp_path)
    yield made
    if made.running is not None:
        made.stop()
    zmq.Context.instance().term()
    monkeypatch.setattr(zmq.Context, "_instance", None)


def test_live_late_and_restarted(fleet: Fleet) -> None:
    fleet.start(1)
    fleet.send(30)
    with Consumer(fleet.address) as consumer:
        fleet.catch_up(consumer)
        fleet.send(30)
        fleet.catch_up(consumer)
        assert consumer.seqs() == list(range(60))
        for seed, number_of_batches in ((2, 20), (3, 90)):
            fleet.stop()
            fleet.start(seed)
            fleet.send(number_of_batches)
            fleet.catch_up(consumer)
        stats = consumer.subscriber.stats()[fleet.address.endpoint]
        assert consumer.seqs() == [*range(60), *range(20), *range(90)]
        assert [batch.seq for _, batch in consumer.batches if batch.reset] == [0, 0]
        assert (stats.num_restarts, stats.num_lost, stats.num_malformed, stats.epoch) == (2, 0, 0, None)


def test_history_gone(fleet: Fleet) -> None:
    fleet.start(1, buffer_steps=10)
    fleet.send(40)
    wait_until_sent(fleet)
    with Consumer(fleet.address) as consumer:
        consumer.follow(lambda: consumer.seqs()[-1:] == [39])
        assert consumer.seqs() == list(range(30, 40))
        assert consumer.batches[0][1].lost == 30


def wait_until_sent(fleet: Fleet) -> None:
    done: Callable[[], None] = fleet.running._event_queue.join
    done()

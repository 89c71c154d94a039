"""Snapshots that are asked for while publishing goes on: each is the index at exactly the batch that it names."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import zmq

from blockpool.events import EventDecoder, EventPublisher
from blockpool.events.replay_protocol import END_SEQ, SyncHead, SyncRequest, read_head, sync_request

from .support import GENEROUS_SECONDS, PoolRun, publisher

NUM_SNAPSHOTS = 40


class Load:
    """Publishes as fast as it can, in a thread of its own, and notes what the index is after each batch."""

    def __init__(self, made: EventPublisher, run: PoolRun) -> None:
        self.made = made
        self.run = run
        self.index_after: dict[int | None, Counter[int]] = {-1: Counter()}
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self.publish)

    def publish(self) -> None:
        while not self.stopped.is_set():
            log = self.run.batch(3)
            index = self.run.index()
            self.index_after[self.made.publish(log)] = index

    def __enter__(self) -> Load:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopped.set()
        self.thread.join()


def snapshot_of(dealer: Any) -> tuple[SyncHead, Counter[Any]]:
    """One snapshot, whole."""
    dealer.send_multipart(sync_request(SyncRequest(1, "of another publisher")))
    head = read_head(dealer.recv_multipart()[2])
    assert head is not None
    assert head.kind == "snapshot"
    found: Counter[Any] = Counter()
    while END_SEQ not in (frames := dealer.recv_multipart()):
        assert int.from_bytes(frames[2], "big") == head.seq
        for event in EventDecoder().decode(frames[3]).events:
            found.update(event.block_hashes)  # type: ignore[union-attr]
    return head, found


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + GENEROUS_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


@pytest.mark.parametrize("granularity", ["every_copy", "last_copy"])
@pytest.mark.parametrize("options", [{}, {"max_queue_size": 2, "dialect": "map"}, {"buffer_steps": 0}])
def test_they_are_right_for_their_number(options: dict[str, Any], granularity: str) -> None:
    """With a queue of two, most batches are dropped meanwhile."""
    run = PoolRun(21, 120, event_granularity=granularity, batch_removes=True)
    context: Any = zmq.Context()
    try:
        with publisher(**options) as made, Load(made, run) as load:
            dealer = context.socket(zmq.DEALER)
            dealer.setsockopt(zmq.RCVTIMEO, int(GENEROUS_SECONDS * 1000))
            dealer.connect(made.replay_endpoint)
            numbers = []
            for _ in range(NUM_SNAPSHOTS):
                head, found = snapshot_of(dealer)
                wait_for(lambda: head.seq in load.index_after)  # noqa: B023 - called at once
                assert found == load.index_after[head.seq]
                numbers.append(head.seq)
            assert numbers == sorted(numbers)
            dealer.close(0)
        assert made.stats().num_snapshots == NUM_SNAPSHOTS
    finally:
        context.destroy(0)

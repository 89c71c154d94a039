"""What the tests of the events layer share: random runs of a pool, consumers, a publisher as plain as that of vLLM."""

from __future__ import annotations

import random
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import zmq

from blockpool import BlockPool, BlockRemoved, BlockStored
from blockpool.core.event_log import EventLog
from blockpool.events import EventPublisher, EventSubscriber, IndexView, Source, SourceAddress

from ..core.support import FakeRequest, chain, external

BLOCK_SIZE = 4
GROUPS = (0, 3)
GENEROUS_SECONDS = 30.0
"""A bound for what takes milliseconds: it is there so that a fault ends a test, not to judge speed."""


class PoolRun:
    """Random requests over a few prompts, in a pool that is too small for all of them."""

    def __init__(self, seed: int, num_blocks: int = 40, **options: Any) -> None:
        self.random = random.Random(seed)
        self.pool = BlockPool(num_blocks, True, BLOCK_SIZE, True, **options)
        self.running: list[list[Any]] = []

    def step(self) -> None:
        """One request comes, grows old or goes; seldom something else."""
        draw = self.random.random()
        if draw < 0.55:
            self._admit()
        elif draw < 0.95 and self.running:
            self._finish()
        elif draw < 0.97:
            self.pool.evict_blocks(self.random.sample(range(self.pool.num_gpu_blocks), 3))
        elif draw > 0.99:
            while self.running:
                self._finish()
            assert self.pool.reset_prefix_cache()

    def steps(self, count: int) -> EventLog:
        """Several steps, and what they did."""
        for _ in range(count):
            self.step()
        return self.pool.take_event_log()

    def batch(self, count: int) -> EventLog:
        """The same, but so long until something is told."""
        while True:
            log = self.steps(count)
            if len(log):
                return log

    def _admit(self) -> None:
        prompt = "".join(self.random.choice("ab") for _ in range(self.random.randrange(1, 9)))
        group_id = self.random.choice(GROUPS)
        hashes = chain(prompt)
        hits = self.pool.find_longest_prefix(hashes, [group_id])[0] if self.random.random() < 0.7 else []
        wanted = len(hashes) - len(hits)
        if wanted > self.pool.get_num_free_blocks() - len(hits):
            return
        self.pool.touch(hits)
        blocks = hits + self.pool.get_new_blocks(wanted)
        request = FakeRequest(hashes, [ord(symbol) for symbol in prompt for _ in range(BLOCK_SIZE)])
        self.pool.cache_full_blocks(request, blocks, len(hits), len(blocks), BLOCK_SIZE, group_id)
        self.running.append(blocks)

    def _finish(self) -> None:
        self.pool.free_blocks(reversed(self.running.pop(self.random.randrange(len(self.running)))))

    def index(self) -> Counter[int]:
        """What a consumer has to know: copies by external hash, or keys in the mode of last copies."""
        keys = [block.block_hash for block in self.pool.blocks if block.block_hash is not None]
        if self.pool.event_granularity == "last_copy":
            keys = list(set(keys))
        return Counter(external(key[:-4]) for key in keys)


def stored(block_hash: int, parent: int | None = None, **fields: Any) -> BlockStored:
    """An event about one block."""
    values: dict[str, Any] = {
        "token_ids": [block_hash % 1000] * BLOCK_SIZE,
        "block_size": BLOCK_SIZE,
        "lora_id": None,
        "medium": "GPU",
        "lora_name": None,
    }
    return BlockStored([block_hash], parent, **(values | fields))


def removed(*block_hashes: int) -> BlockRemoved:
    """An event about blocks that are gone."""
    return BlockRemoved(list(block_hashes), "GPU")


class Consumer:
    """A subscriber, the view that it keeps, and a record of all that was handed out."""

    def __init__(self, *addresses: SourceAddress, **options: Any) -> None:
        settings: dict[str, Any] = {"check_interval": 0.2, "sync_timeout": 5.0}
        self.subscriber = EventSubscriber(addresses, **(settings | options))
        self.view = IndexView()
        self.batches: list[tuple[Source, Any]] = []

    def index(self, endpoint: str, topic: str = "") -> Counter[int]:
        return Counter(dict(self.view.counts(Source(endpoint, topic))))

    def follow(self, done: Callable[[], bool], seconds: float = GENEROUS_SECONDS) -> None:
        """Reads on until it is done; fails when that takes beyond all measure."""
        deadline = time.monotonic() + seconds
        while not done():
            assert time.monotonic() < deadline, f"never: {self.subscriber.stats()} {self.seqs()[-3:]}"
            for source, batch in self.subscriber.poll(0.05):
                self.view.apply(source, batch)
                self.batches.append((source, batch))

    def seqs(self) -> list[int]:
        return [batch.seq for _, batch in self.batches]

    def __enter__(self) -> Consumer:
        return self

    def __exit__(self, *_: object) -> None:
        self.subscriber.close()


@contextmanager
def publisher(**options: Any) -> Iterator[EventPublisher]:
    """On loopback, at ports that the system chooses, with a replay socket."""
    settings: dict[str, Any] = {
        "endpoint": "tcp://127.0.0.1:0",
        "replay_endpoint": "tcp://127.0.0.1:0",
        "bind": True,
    }
    made = EventPublisher(**(settings | options))
    try:
        yield made
    finally:
        made.close(5.0)


def address_of(made: EventPublisher) -> SourceAddress:
    return SourceAddress(made.endpoint, made.replay_endpoint)


class PlainPublisher:
    """As plain as vLLM's: no epoch, no snapshot, and requests of another shape are passed over. Nothing runs by itself.

    `serve` answers what has been asked; a consumer that waits has to be given the chance between its polls.
    """

    def __init__(
        self, endpoint: str, replay_endpoint: str, kept: int = 1000, with_topic: bool = False
    ) -> None:
        self.context = zmq.Context()
        self.pub = self.context.socket(zmq.PUB)
        self.pub.bind(endpoint)
        self.router = self.context.socket(zmq.ROUTER)
        self.router.bind(replay_endpoint)
        self.address = SourceAddress(endpoint, replay_endpoint)
        self.kept: deque[tuple[bytes, bytes]] = deque(maxlen=kept)
        self.with_topic = with_topic
        self.next_seq = 0
        self.num_strange = 0

    def send(self, payload: bytes, silently: bool = False) -> None:
        """Publishes, or keeps it for replay alone as if it had been lost on the way."""
        seq = self.next_seq.to_bytes(8, "big")
        self.next_seq += 1
        self.kept.append((seq, payload))
        if not silently:
            self.pub.send_multipart([b"topic", seq, payload])

    def serve(self) -> None:
        while self.router.poll(0):
            frames = self.router.recv_multipart()
            if len(frames) != 3:
                self.num_strange += 1
                continue
            topic = [b"topic"] if self.with_topic else []
            for seq, payload in self.kept:
                if seq >= frames[2]:
                    self.router.send_multipart([frames[0], b"", *topic, seq, payload])
            end = [b""] if self.with_topic else []
            self.router.send_multipart([frames[0], b"", *end, b"\xff" * 8, b""])

    def close(self) -> None:
        self.context.destroy(0)

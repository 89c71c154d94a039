"""Many events through one publisher and one subscriber. A million with BLOCKPOOL_LONG=1, else a twentieth of it."""

from __future__ import annotations

import os

from .support import Consumer, PoolRun, address_of, publisher

NUM_EVENTS = 1_000_000 if os.environ.get("BLOCKPOOL_LONG") else 50_000


def test_many_events() -> None:
    """Drops and gaps may occur, when the publisher is faster than its thread or its reader: the end is right."""
    run = PoolRun(1, 2_000)
    num_events = 0
    with publisher(max_queue_size=1_000, hwm=1_000) as made, Consumer(address_of(made)) as consumer:
        while num_events < NUM_EVENTS:
            log = run.batch(50)
            num_events += len(log)
            made.publish(log)
            for source, batch in consumer.subscriber.poll(0.0):
                consumer.view.apply(source, batch)
        last = made.stats().num_batches - 1
        assert made.flush(120.0)
        stats = consumer.subscriber.stats()[made.endpoint]
        consumer.follow(lambda: consumer.index(made.endpoint) == run.index(), 120.0)
        consumer.follow(lambda: not consumer.batches or consumer.seqs()[-1] == last)
        assert consumer.view.num_unmatched == 0
        assert stats.num_lost == 0

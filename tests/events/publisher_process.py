"""A publisher in a process of its own, to be killed: plays a random run of a pool and says what the index is.

``python -m tests.events.publisher_process PUB REPLAY SEED BATCHES``; prints one line of JSON, then waits for its end.
"""

from __future__ import annotations

import json
import sys

from blockpool.events import EventPublisher

from .support import PoolRun


def main() -> None:
    endpoint, replay_endpoint, seed, batches = sys.argv[1:]
    run = PoolRun(int(seed))
    with EventPublisher(endpoint, replay_endpoint, bind=True, buffer_steps=20) as made:
        for _ in range(int(batches)):
            made.publish(run.batch(5))
        made.flush(60.0)
        print(json.dumps([[block_hash, count] for block_hash, count in run.index().items()]), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()

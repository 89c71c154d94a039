"""A subscriber in a process of its own, to be killed: follows one publisher and says what its index is.

``python -m tests.events.subscriber_process PUB REPLAY``; prints one line of JSON after every batch.
"""

from __future__ import annotations

import json
import sys

from blockpool.events import EventSubscriber, IndexView, SourceAddress


def main() -> None:
    endpoint, replay_endpoint = sys.argv[1:]
    view = IndexView()
    with EventSubscriber(SourceAddress(endpoint, replay_endpoint), check_interval=0.2) as subscriber:
        for source, batch in subscriber:
            view.apply(source, batch)
            print(json.dumps([batch.seq, list(view.counts(source).items())]), flush=True)


if __name__ == "__main__":
    main()

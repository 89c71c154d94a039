"""What a subscriber hands out, and what it counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from blockpool.events.wire_events import WireEvent


class SourceAddress(NamedTuple):
    """Where one publisher is found.

    Attributes:
        endpoint: Where it publishes. Connected; tcp at `*` or `[::]` is bound, for publishers that connect.
        replay_endpoint: Where it answers, or None: then what is missed stays missed.
    """

    endpoint: str
    replay_endpoint: str | None = None


class Source(NamedTuple):
    """Who published a batch.

    Attributes:
        endpoint: As it stands in the `SourceAddress`.
        topic: Tells publishers apart that share an endpoint; "" where there is a replay endpoint, for it belongs to
            one publisher.
    """

    endpoint: str
    topic: str = ""

    def __str__(self) -> str:
        return f"{self.endpoint} {self.topic}".rstrip()


def place_among(endpoints: Iterable[str]) -> Callable[[Source], int]:
    """A key to sort by: the place of a source's address among these, so that tables stand as a user listed them.

    Sources of one address keep their order; those of no listed address come last.
    """
    places = {endpoint: place for place, endpoint in enumerate(endpoints)}
    return lambda source: places.get(source.endpoint, len(places))


class ReceivedBatch(NamedTuple):
    """One batch, in order.

    Attributes:
        seq: Its number; of a snapshot the last batch that it includes, -1 for none.
        ts: Seconds since 1970 at the publisher.
        events: In order.
        data_parallel_rank: Of the publisher, or None.
        origin: "live", "replay" or "snapshot"; "notice": there are no events, only what `reset` or `lost` say.
        reset: What was known of the source is void: forget it before this batch is applied.
        lost: So many batches before this one are lost for good: what is known of the source may be wrong.
        topic: Under which it was published.
    """

    seq: int
    ts: float
    events: list[WireEvent]
    data_parallel_rank: int | None
    origin: str
    reset: bool = False
    lost: int = 0
    topic: str = ""


@dataclass(slots=True)
class SourceStats:
    """Counts of one address since the subscriber was made.

    Attributes:
        num_connections: Times it was reached.
        num_batches: Batches handed out, snapshots not counted.
        num_events: Events in them.
        num_replayed: Of the batches, from the history.
        num_duplicates: Messages that had been handed out already.
        num_gaps: Times a number was missing.
        num_lost: Batches that could not be had.
        num_snapshots: Times the index was had anew.
        num_restarts: Times another publisher was found in the place of the one before.
        num_malformed: Batches that could not be read.
        num_unknown_events: Events of unknown types.
        num_garbage: Messages that are no batch, on either socket.
        num_syncs: Conversations on the replay socket.
        num_failed_syncs: Of these, those that were given up.
        fingerprint: What the publisher told last, or None.
        epoch: Of the publisher, or None.
    """

    num_connections: int = 0
    num_batches: int = 0
    num_events: int = 0
    num_replayed: int = 0
    num_duplicates: int = 0
    num_gaps: int = 0
    num_lost: int = 0
    num_snapshots: int = 0
    num_restarts: int = 0
    num_malformed: int = 0
    num_unknown_events: int = 0
    num_garbage: int = 0
    num_syncs: int = 0
    num_failed_syncs: int = 0
    fingerprint: str | None = None
    epoch: str | None = None

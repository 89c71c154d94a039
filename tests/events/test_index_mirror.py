"""`IndexMirror`: what a snapshot keeps of every field, and how a change is brought in."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest

from blockpool import AllBlocksCleared, ArgumentError
from blockpool.core.event_log import EventLog
from blockpool.events import EventDecoder, EventEncoder, MapRemovedEvent, MapStoredEvent, RemovedEvent
from blockpool.events.index_mirror import IndexMirror

from .support import PoolRun, removed, stored


def mirror_of(*events: Any, whole: bool = True) -> IndexMirror:
    made = IndexMirror(whole)
    made.apply(events)
    return made


def told(mirror: IndexMirror, dialect: str = "map") -> list[Any]:
    """What a reader of the snapshot gets."""
    payload = EventEncoder(dialect).encode(0.0, list(mirror.snapshot().events()), None)
    return list(EventDecoder().decode(payload).events)


def found(mirror: IndexMirror) -> Counter[Any]:
    return Counter(block_hash for event in mirror.snapshot().events() for block_hash in event.block_hashes)


FULL = MapStoredEvent(
    [5, 6], 4, [1, 2, 3, 4], 2, 7, "CPU", "l", [["x"], None], 3, "full", 128, "LOCAL", "tier", "session"
)


def test_every_field_is_kept_block_by_block() -> None:
    first = MapStoredEvent(
        [5], 4, [1, 2], 2, 7, "CPU", "l", [["x"]], 3, "full", 128, "LOCAL", "tier", "session"
    )
    second = MapStoredEvent(
        [6], 5, [3, 4], 2, 7, "CPU", "l", None, 3, "full", 128, "LOCAL", "tier", "session"
    )
    assert told(mirror_of(FULL)) == [first, second]


def test_a_removal_takes_only_from_the_place_it_names() -> None:
    mirror = mirror_of(FULL, stored(5))
    elsewhere = (
        RemovedEvent([5], "CPU"), RemovedEvent([5], "CPU", 3), MapRemovedEvent([5], "CPU", 3, "LOCAL"), removed(6),
    )  # fmt: skip
    mirror.apply(elsewhere)
    assert found(mirror) == {5: 2, 6: 1}
    mirror.apply([MapRemovedEvent([5], "CPU", 3, "LOCAL", "tier"), removed(5)])
    assert found(mirror) == {6: 1}


def test_copies_go_one_by_one_the_oldest_first() -> None:
    mirror = mirror_of(stored(1, token_ids=[1, 1, 1, 1]), stored(1, token_ids=[2, 2, 2, 2]))
    assert len(mirror) == 1
    mirror.apply([removed(1)])
    assert [event.token_ids for event in told(mirror)] == [[2, 2, 2, 2]]
    mirror.apply([removed(1, 1)])
    assert (len(mirror), told(mirror)) == (0, [])


def test_tokens_that_do_not_fill_the_blocks_are_shared_out_as_far_as_they_go() -> None:
    mirror = mirror_of(MapStoredEvent([1, 2, 3], None, [1, 2, 3], 2))
    assert [event.token_ids for event in told(mirror)] == [[1, 2], [3], []]


def test_a_snapshot_stays_as_it_was() -> None:
    mirror = mirror_of(stored(1), stored(2))
    snapshot = mirror.snapshot()
    mirror.apply([removed(1), stored(3), AllBlocksCleared()])
    assert len(snapshot) == 2
    assert [event.block_hashes for event in snapshot.events()] == [[1], [2]]


def test_a_change_takes_away_what_it_never_had() -> None:
    mirror = mirror_of(stored(1), stored(1), stored(2))
    mirror.merge(mirror_of(removed(1, 2), stored(2), stored(3), removed(3), whole=False))
    assert found(mirror) == {1: 1, 2: 1}


def test_a_change_with_a_clear_in_it_leaves_nothing_of_before() -> None:
    mirror = mirror_of(stored(1), stored(2))
    mirror.merge(mirror_of(removed(1), AllBlocksCleared(), removed(2), stored(7), whole=False))
    assert found(mirror) == {7: 1}


@pytest.mark.parametrize("as_integers", [True, False])
def test_a_log_does_the_same_before_its_events_are_made_and_after(as_integers: bool) -> None:
    run = PoolRun(3, int_block_hashes=as_integers)
    before, after = IndexMirror(), IndexMirror()
    for _ in range(20):
        log: EventLog = run.batch(10)
        before.apply(log.copy())
        log.events()
        after.apply(log)
        assert told(before, "array") == told(after, "array")
    assert len(before)


def test_what_is_no_event_is_refused() -> None:
    with pytest.raises(ArgumentError):
        mirror_of("event")


def test_tokens_are_packed() -> None:
    """A few bytes each, whatever becomes of the event that brought them."""
    ((_, copies),) = mirror_of(stored(1, token_ids=[1, 2, 3, 4])).snapshot()._places[0][1]
    assert copies[0][1] == msgspec.msgpack.encode([1, 2, 3, 4])

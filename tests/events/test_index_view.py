"""`IndexView`: what a consumer knows."""

from __future__ import annotations

import pytest

from blockpool import AllBlocksCleared, ArgumentError
from blockpool.events import ClearedEvent, EventBatch, IndexView, ReceivedBatch, RemovedEvent, StoredEvent

from .support import removed, stored


def told(view: IndexView, source: str, *events: object) -> None:
    view.apply(source, EventBatch(0.0, list(events), None))  # type: ignore[arg-type]


def test_copies_are_counted() -> None:
    view = IndexView()
    told(view, "a", stored(1), stored(1), StoredEvent([1, 2], None, [], 1, None, "GPU"))
    assert (view.copies(1, "a"), view.copies(2, "a"), view.copies(3, "a")) == (3, 1, 0)
    told(view, "a", removed(1, 2), RemovedEvent([1], "GPU"))
    assert dict(view.counts("a")) == {1: 1}
    assert view.num_unmatched == 0
    told(view, "a", removed(1, 1))
    assert dict(view.counts("a")) == {}
    assert view.num_unmatched == 1


def test_sources_and_media_are_told_apart() -> None:
    view = IndexView()
    told(view, "a", stored(1), stored(1, medium="CPU"), stored(2, medium=None))
    told(view, "b", stored(1))
    told(view, "a", removed(1))
    assert view.sources() == ["a", "b"]
    assert view.media("a") == ["GPU", "CPU", None]
    assert (view.copies(1, "a"), view.copies(1, "a", "CPU"), view.copies(1, "b")) == (0, 1, 1)
    assert view.holders(1) == ["a", "b"]
    assert view.holders(2) == ["a"]
    assert view.num_hashes("a") == 2


def test_the_longest_prefix_may_span_media() -> None:
    view = IndexView()
    told(view, "a", stored(1), stored(2, medium="CPU"), stored(4))
    assert view.longest_prefix([1, 2, 3, 4], "a") == 2
    assert view.longest_prefix([3], "a") == 0
    assert view.longest_prefix([1], "unknown") == 0


@pytest.mark.parametrize("cleared", [AllBlocksCleared(), ClearedEvent()])
def test_a_clear_empties_one_source(cleared: object) -> None:
    view = IndexView()
    for source in ("a", "b"):
        told(view, source, stored(1), stored(2, medium="CPU"))
    told(view, "a", cleared, stored(3))
    assert dict(view.counts("a")) == {3: 1}
    assert view.num_hashes("a") == 1
    assert view.num_hashes("b") == 2


def test_a_reset_makes_the_source_forgotten_first() -> None:
    view = IndexView()
    told(view, "a", stored(1))
    view.apply(
        "a", ReceivedBatch(7, 0.0, [StoredEvent([2], None, [], 1, None, "GPU")], None, "snapshot", True)
    )
    assert dict(view.counts("a")) == {2: 1}


def test_counts_are_live_and_read_only() -> None:
    view = IndexView()
    told(view, "a", stored(1))
    counts = view.counts("a")
    told(view, "a", stored(1))
    assert counts[1] == 2
    with pytest.raises(TypeError):
        counts[1] = 5  # type: ignore[index]


def test_what_is_no_event_is_refused() -> None:
    view = IndexView()
    with pytest.raises(ArgumentError):
        told(view, "a", "event")
    for bad in (None, [stored(1)], EventBatch(0.0, None, None)):  # type: ignore[arg-type]
        with pytest.raises(ArgumentError):
            view.apply("b", bad)  # type: ignore[arg-type]
    assert view.sources() == ["a"]

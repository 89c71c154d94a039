"""`PublishQueue`: bounded, in order, never in the way; what is dropped is one entry whose size is the index's."""

from __future__ import annotations

import multiprocessing
import sys
import threading
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockpool.events.index_mirror import IndexMirror
from blockpool.events.publish_queue import PendingBatch, PublishQueue, SkippedBatches

from .support import GENEROUS_SECONDS, PoolRun, removed, stored


def test_order_and_numbers() -> None:
    queue = PublishQueue(10, True)
    assert [queue.put(0.0, [removed(i)]) for i in range(3)] == [0, 1, 2]
    taken = [queue.take(0.0) for _ in range(4)]
    assert [item.seq for item in taken[:3]] == [0, 1, 2]  # type: ignore[union-attr]
    assert taken[3] is None
    queue.dispose()


def test_a_waiting_reader_is_woken() -> None:
    queue = PublishQueue(10, True)
    taken = []
    thread = threading.Thread(target=lambda: taken.append(queue.take(GENEROUS_SECONDS)))
    thread.start()
    queue.put(0.0, [removed(1)])
    thread.join(GENEROUS_SECONDS)
    assert [item.seq for item in taken] == [0]  # type: ignore[union-attr]
    thread = threading.Thread(target=lambda: taken.append(queue.take(GENEROUS_SECONDS)))
    thread.start()
    queue.close()
    thread.join(GENEROUS_SECONDS)
    assert taken[1:] == [None]
    queue.dispose()


def test_nothing_comes_in_once_it_is_closed() -> None:
    queue = PublishQueue(10, True)
    queue.put(0.0, [removed(1)])
    queue.close()
    assert queue.put(0.0, [removed(1)]) == -1
    assert isinstance(queue.take(0.0), PendingBatch)
    assert queue.take(0.0) is None
    assert queue.wait_until_empty(0.0)
    queue.dispose()


def test_what_waits_at_the_end_is_dropped() -> None:
    queue = PublishQueue(2, True)
    for _ in range(5):
        queue.put(0.0, [removed(1)])
    queue.dispose()
    assert (queue.num_dropped, queue.num_waiting) == (5, 0)
    assert queue.wait_until_empty(0.0)


def test_however_much_is_dropped_it_takes_no_more_room() -> None:
    queue = PublishQueue(2, True)
    for i in range(1_000):
        queue.put(0.0, [stored(i % 7), removed(i % 7)])
    assert len(queue) == 3
    assert queue.num_waiting == 2
    queue.take(0.0), queue.take(0.0)
    assert queue.num_waiting == 0
    skipped = queue.take(0.0)
    assert isinstance(skipped, SkippedBatches)
    assert skipped.change is not None
    assert (skipped.last_seq, queue.num_dropped, len(skipped.change)) == (999, 998, 0)
    queue.dispose()


@given(st.integers(0, 10**6), st.integers(1, 4), st.lists(st.booleans(), max_size=60))
def test_whatever_is_dropped_the_mirror_is_right_at_the_end(seed: int, size: int, turns: list[bool]) -> None:
    """True: a batch comes in; False: one is taken. Numbers are those of the batches and ranges that were skipped."""
    run, queue, mirror = PoolRun(seed), PublishQueue(size, True), IndexMirror()
    next_seq = 0

    def take() -> bool:
        nonlocal next_seq
        item = queue.take(0.0)
        if isinstance(item, SkippedBatches):
            assert item.change is not None
            assert item.last_seq >= next_seq
            mirror.merge(item.change)
            next_seq = item.last_seq + 1
        elif item is not None:
            assert item.seq == next_seq
            mirror.apply(item.events.events())  # type: ignore[union-attr]
            next_seq += 1
        return item is not None

    for comes in turns:
        if comes:
            queue.put(0.0, run.batch(3))
        else:
            take()
        assert len(queue) <= size + 1
    while take():
        pass
    assert next_seq == queue.next_seq
    found: Counter[int | bytes] = Counter()
    for event in mirror.snapshot().events():
        found.update(event.block_hashes)
    assert found == run.index()
    queue.dispose()


def put_and_tell(queue: PublishQueue, answers: Any) -> None:
    answers.put((queue.put(0.0, [removed(1)]), queue.num_waiting, queue.wait_until_empty(0.0)))


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_in_a_forked_process_it_is_closed() -> None:
    """There is no thread there that would send; and whoever held the lock was not forked."""
    queue = PublishQueue(2, True)
    queue.put(0.0, [removed(1)])
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    with queue._lock:
        process = context.Process(target=put_and_tell, args=(queue, answers))
        process.start()
    assert answers.get(timeout=GENEROUS_SECONDS) == (-1, 0, True)
    process.join(GENEROUS_SECONDS)
    answers.close()
    answers.join_thread()
    assert queue.put(0.0, [removed(1)]) == 1
    queue.dispose()

"""All events of any run of a pool, through the wire, give a fresh consumer the pool's index."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockpool import BlockPool, BlockStored
from blockpool.events import EventDecoder, EventEncoder, IndexView
from blockpool.events.index_mirror import IndexMirror

from ..core.support import FakeRequest, chain
from .support import PoolRun

options = st.fixed_dictionaries(
    {
        "event_granularity": st.sampled_from(["every_copy", "last_copy"]),
        "batch_removes": st.booleans(),
        "reuse_uncached_first": st.booleans(),
    }
)


@given(st.integers(0, 10**6), options, st.sampled_from(["array", "map"]), st.integers(10, 60))
def test_a_consumer_ends_with_the_index(
    seed: int, options: dict[str, object], dialect: str, blocks: int
) -> None:
    run = PoolRun(seed, blocks, **options)
    encoder, decoder, view = EventEncoder(dialect), EventDecoder(), IndexView()
    for _ in range(6):
        batch = decoder.decode(encoder.encode(0.0, run.steps(20).events(), None))
        view.apply("pool", batch)
        assert Counter(dict(view.counts("pool"))) == run.index()
    assert view.num_unmatched == 0


@given(st.integers(0, 10**6), options, st.sampled_from(["array", "map"]), st.integers(0, 100))
def test_a_snapshot_at_any_moment_and_the_rest_do_too(
    seed: int, options: dict[str, object], dialect: str, moment: int
) -> None:
    run = PoolRun(seed, **options)
    encoder, decoder, view, mirror = EventEncoder(dialect), EventDecoder(), IndexView(), IndexMirror()
    mirror.apply(run.steps(moment).events())
    snapshot = mirror.snapshot()
    before = run.index()
    mirror.apply(run.steps(5).events())  # does not reach the snapshot
    view.apply("pool", decoder.decode(encoder.encode(0.0, list(snapshot.events()), None)))
    assert Counter(dict(view.counts("pool"))) == before


@given(st.integers(0, 10**6), options, st.lists(st.integers(1, 30), min_size=1, max_size=5))
def test_a_mirror_and_changes_are_the_index(
    seed: int, options: dict[str, object], lengths: list[int]
) -> None:
    """What dropped batches did comes in one piece; then events go on."""
    run, mirror = PoolRun(seed, **options), IndexMirror()
    for length in lengths:
        mirror.apply(run.steps(length).events())
        change = IndexMirror(whole=False)
        for _ in range(3):
            change.apply(run.steps(length).events())
        mirror.merge(change)
        found: Counter[int | bytes] = Counter()
        for event in mirror.snapshot().events():
            found.update(event.block_hashes)
        assert found == run.index()


@pytest.mark.parametrize("dialect", ["array", "map"])
@pytest.mark.parametrize("kind", ["array", "list of its integers", "range"])
def test_tokens_that_stand_for_integers_are_written_as_such(kind: str, dialect: str) -> None:
    """NumPy's are what many tokenizers give: a batch with them reaches the wire, and the snapshot."""
    tokens: Any = range(8)
    if kind != "range":
        numpy = pytest.importorskip("numpy", reason="numpy is not installed: no integers of it to try")
        tokens = numpy.arange(8) if kind == "array" else list(numpy.arange(8))
    pool = BlockPool(3, True, 4, True)
    pool.cache_full_blocks(FakeRequest(chain("ab"), tokens), pool.get_new_blocks(2), 0, 2, 4, 0)
    log = pool.take_event_log()
    mirror = IndexMirror()
    mirror.apply(log.copy())
    encoder, decoder = EventEncoder(dialect), EventDecoder()
    (event,) = decoder.decode(encoder.encode(0.0, log, None)).events
    assert event.token_ids == [int(token) for token in tokens]  # type: ignore[union-attr]
    kept = decoder.decode(encoder.encode(0.0, list(mirror.snapshot().events()), None)).events
    assert [token for block in kept for token in block.token_ids] == event.token_ids  # type: ignore[union-attr]


def test_raw_hashes_come_out_as_integers() -> None:
    run = PoolRun(7, int_block_hashes=False)
    view = IndexView()
    events = run.steps(200).events()
    view.apply("pool", EventDecoder().decode(EventEncoder().encode(0.0, events, None)))
    assert Counter(dict(view.counts("pool"))) == run.index()


def test_snapshots_keep_parents_and_tokens() -> None:
    run = PoolRun(3, 400)
    events = run.steps(40).events()
    told = {}
    for event in events:
        if isinstance(event, BlockStored):
            parent = event.parent_block_hash
            for i, block_hash in enumerate(event.block_hashes):
                told[block_hash] = (parent, event.token_ids[4 * i : 4 * i + 4])
                parent = block_hash
    mirror = IndexMirror()
    mirror.apply(events)
    payload = EventEncoder().encode(0.0, list(mirror.snapshot().events()), None)
    decoded = EventDecoder().decode(payload).events
    assert decoded
    for event in decoded:
        assert told[event.block_hashes[0]] == (event.parent_block_hash, event.token_ids)  # type: ignore[union-attr]


@pytest.mark.parametrize("granularity", ["every_copy", "last_copy"])
def test_seeded_runs_do_meet_copies(granularity: str) -> None:
    """So that the properties above say something: copies, evictions and clears occur."""
    run = PoolRun(5, event_granularity=granularity)
    kinds: Counter[str] = Counter()
    most = 0
    for _ in range(300):
        kinds.update(type(event).__name__ for event in run.steps(5).events())
        keys = [block.block_hash for block in run.pool.blocks if block.block_hash is not None]
        most = max(most, len(keys) - len(set(keys)))
    assert most > 2
    assert min(kinds["BlockStored"], kinds["BlockRemoved"], kinds["AllBlocksCleared"]) > 2

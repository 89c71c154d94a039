"""Lines of a recording: what is written is read again, and what is no line is one typed error."""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockpool.errors import EventDecodeError
from blockpool.events import (
    ClearedEvent,
    MapRemovedEvent,
    MapStoredEvent,
    ReceivedBatch,
    RemovedEvent,
    Source,
    SourceStats,
    StoredEvent,
)
from blockpool.events.recording_format import RecordedBatch, RecordingHead, batch_line, head_line, read_line

WORDS = st.integers(0, 2**64 - 1)
TEXT = st.none() | st.text(max_size=8)
EVENTS: Any = st.one_of(
    st.builds(
        MapStoredEvent, st.lists(WORDS, max_size=3), st.none() | WORDS,
        st.lists(st.integers(-(2**63), 2**64 - 1), max_size=4), st.integers(1, 4), st.none() | st.integers(0, 9),
        TEXT, TEXT, st.none() | st.lists(st.none() | st.lists(st.text(max_size=3), max_size=2), max_size=3),
        st.none() | st.integers(0, 3), TEXT, st.none() | st.integers(0, 9), TEXT, TEXT, TEXT,
    ),
    st.builds(StoredEvent, st.lists(WORDS, max_size=3), st.none(), st.lists(WORDS, max_size=3), st.just(2)),
    st.builds(RemovedEvent, st.lists(WORDS, max_size=3), TEXT, st.none() | st.integers(0, 3)),
    st.builds(MapRemovedEvent, st.lists(WORDS, max_size=3), TEXT, st.none(), TEXT, TEXT),
    st.builds(ClearedEvent),
)  # fmt: skip
BATCHES = st.builds(
    ReceivedBatch, st.integers(-1, 2**63), st.floats(), st.lists(EVENTS, max_size=4),
    st.none() | st.integers(0, 9), st.sampled_from(["live", "replay", "snapshot"]),
    st.booleans(), st.integers(0, 9), st.text(max_size=5),
)  # fmt: skip


@given(BATCHES, st.sampled_from(["", "kv@pod"]), TEXT, TEXT)
def test_a_batch_comes_back(
    batch: ReceivedBatch, topic: str, epoch: str | None, fingerprint: str | None
) -> None:
    if topic:
        batch = batch._replace(topic=topic)
    source = Source("tcp://pod:1", topic)
    stats = SourceStats(epoch=epoch or None, fingerprint=fingerprint or None)
    read = read_line(batch_line(5.5, source, batch, stats))
    ts = batch.ts if math.isfinite(batch.ts) else None
    assert read == RecordedBatch(
        5.5, source, batch.seq, ts, batch.events, batch.data_parallel_rank, batch.origin,
        batch.reset, batch.lost, batch.topic, stats.epoch, stats.fingerprint,
    )  # fmt: skip


def test_the_lines_that_the_documents_show() -> None:
    head = head_line(RecordingHead(1.5, ["tcp://pod:5557"], "kv@"))
    assert json.loads(head) == {
        "recording": "blockpool.events/1", "at": 1.5, "sources": ["tcp://pod:5557"], "topic": "kv@"
    }  # fmt: skip
    batch = ReceivedBatch(7, 2.5, [RemovedEvent([2**64 - 1], "GPU")], 0, "live", lost=2)
    line = json.loads(batch_line(3.5, Source("tcp://pod:5557"), batch, SourceStats(epoch="e")))
    assert line == {
        "at": 3.5, "source": "tcp://pod:5557", "seq": 7, "ts": 2.5, "rank": 0, "lost": 2, "epoch": "e",
        "origin": "live", "events": [{"type": "BlockRemoved", "block_hashes": [2**64 - 1], "medium": "GPU"}],
    }  # fmt: skip


def test_extra_keys_that_json_has_no_form_for_become_text() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    for strange in ([[("a", 1)], b"\xff", msgspec.msgpack.Ext(5, b"x"), None], [deep, "x", deep, None]):
        types = [type(key) for key in keys_back(strange)]
        assert types[1:] == [str, str, type(None)]


def keys_back(extra_keys: list[Any]) -> list[Any]:
    event = StoredEvent([1, 2, 3, 4], None, [0] * 4, 1, extra_keys=extra_keys)
    batch = ReceivedBatch(0, 1.0, [event], None, "live")
    read = read_line(batch_line(1.0, Source("tcp://a:1"), batch, SourceStats()))
    assert isinstance(read, RecordedBatch)
    (back,) = read.events
    assert isinstance(back, StoredEvent)
    return back.extra_keys or []


@pytest.mark.parametrize(
    "line",
    [
        b"", b"[]", b"{}", b"nonsense", b"\xff", b"[" * 100_000,
        b'{"recording":"blockpool.events/2","at":1,"sources":[]}',
        b'{"recording":"blockpool.events/1"}', b'{"at":1,"source":"a","events":[{"type":"Odd"}]}',
        b'{"at":1,"source":"a","events":[],"origin":"odd"}', b'{"at":1,"source":"a","events":[],"lost":-1}',
        b'{"at":1,"source":"a","events":[{"type":"BlockRemoved","block_hashes":[-1]}]}',
        b'{"end":2.0,"stats":{"a":{"num_malformed":"x"}}}', b'{"end":2.0,"stats":{"a":{"num_malformed":null}}}',
    ],
)  # fmt: skip
def test_what_is_no_line(line: bytes) -> None:
    with pytest.raises(EventDecodeError):
        read_line(line)


@given(st.binary(max_size=60))
def test_any_bytes_give_a_line_or_the_error(data: bytes) -> None:
    try:
        read_line(data)
    except EventDecodeError:
        pass

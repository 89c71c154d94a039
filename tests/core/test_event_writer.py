"""`EventWriter` against msgspec, which is what the interpreted build uses."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import blockpool
from blockpool import BlockRemoved, BlockStored, EventLog
from blockpool.core.event_log import StoredRun
from blockpool.core.event_writer import EventWriter

compiled_only = pytest.mark.skipif(
    not blockpool.COMPILED,
    reason="the direct writers run in the compiled build only: they rely on words that wrap round",
)

EDGES = [0, 1, 127, 128, 255, 256, 65_535, 65_536, 2**31, 2**32 - 1, 2**32, 2**63 - 1]
tokens = st.sampled_from(EDGES) | st.integers(0, 2**63 - 1)
digests = st.binary(min_size=8, max_size=40) | st.sampled_from(EDGES).map(
    lambda value: value.to_bytes(8, "big")
)
runs = st.builds(
    StoredRun,
    st.lists(digests, max_size=40),
    st.none() | digests,
    st.lists(tokens, max_size=70),
    st.integers(1, 70_000),
    st.none() | st.integers(-5, 2**32),
    st.none() | st.text(max_size=300),
)
logs = st.lists(digests | runs | st.none(), max_size=20)


def log_of(records: list[Any], as_integers: bool, batched: bool) -> EventLog:
    log = EventLog(as_integers, batched)
    log.records.extend(records)
    return log


def expected(log: EventLog) -> bytes:
    rows: list[Any] = []
    for event in log.events():
        if isinstance(event, BlockStored):
            rows.append(["BlockStored", *event.__reduce__()[1]])  # type: ignore[misc]
        elif isinstance(event, BlockRemoved):
            rows.append(["BlockRemoved", event.block_hashes, event.medium])
        else:
            rows.append(["AllBlocksCleared"])
    return msgspec.msgpack.encode(rows)


@compiled_only
@given(logs, st.booleans(), st.booleans())
def test_any_log(records: list[Any], as_integers: bool, batched: bool) -> None:
    log = log_of(records, as_integers, batched)
    writer = EventWriter(msgspec.msgpack.encode)
    written = writer.array_of(log)
    assert writer.array_of(log) == written
    assert written == expected(log)
    assert (writer.array_of(log) is None) is bool(records)


@compiled_only
@pytest.mark.parametrize("count", [15, 16, 65_535, 65_536])
def test_long_arrays(count: int) -> None:
    run = StoredRun([bytes(8)] * count, None, [7] * count, 1, None, None)
    assert EventWriter(msgspec.msgpack.encode).array_of(log := log_of([run], True, False)) == expected(log)
    removals = log_of([bytes(8)] * count, True, True)
    assert EventWriter(msgspec.msgpack.encode).array_of(removals) == expected(removals)


@compiled_only
@pytest.mark.parametrize(
    "record",
    [
        b"short",
        StoredRun([b"short"], None, [1], 1, None, None),
        StoredRun([bytes(8)], b"short", [1], 1, None, None),
        StoredRun([bytes(8)], None, [2**63], 1, None, None),
        StoredRun([bytes(8)], None, [-1], 1, None, None),
        StoredRun([bytes(8)], None, [True], 1, None, None),
        StoredRun([bytes(8)], None, [object()], 1, None, None),
        StoredRun([bytes(8)], None, [1], 2**70, None, None),
        StoredRun([bytes(8)], None, [1], 1, 2**64, None),
        StoredRun([bytes(8)], None, [1], 1, None, "\ud800"),
    ],
)
def test_what_is_out_of_the_ordinary_is_left_to_others(record: Any) -> None:
    assert EventWriter(msgspec.msgpack.encode).array_of(log_of([bytes(8), record], True, False)) is None
    assert EventWriter(msgspec.msgpack.encode).array_of(log_of([bytes(300)], False, False)) is None

"""Whatever the bytes: a batch or one typed error, and the same by the fast way and the slow one."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import fuzz_events
from blockpool import EventDecodeError
from blockpool.events import EventBatch, EventDecoder, EventEncoder, MapRemovedEvent, MapStoredEvent

words = st.integers(0, 2**64 - 1)
hashes = st.lists(words, max_size=5)
any_hashes = st.lists(words | st.integers(-(2**63), -1) | st.binary(max_size=40), max_size=5)
names = st.none() | st.text(max_size=5)
numbers = st.none() | st.integers(-(2**31), 2**31)
anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=4)
    | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=10,
)
tags = st.sampled_from(["BlockStored", "BlockRemoved", "AllBlocksCleared", "Other"])
arrays = st.builds(lambda tag, rest: [tag, *rest], tags, st.lists(any_hashes | anything, max_size=13))
maps = st.builds(
    lambda tag, rest: {"type": tag} | rest,
    tags,
    st.dictionaries(st.sampled_from(MapStoredEvent.__struct_fields__), any_hashes | anything, max_size=13),
)
plausible = st.tuples(st.floats(allow_nan=False), st.lists(arrays | maps, max_size=4), numbers)
stored = st.builds(
    MapStoredEvent,
    hashes,
    st.none() | words,
    st.lists(st.integers(0, 2**32), max_size=20),
    st.integers(1, 64),
    numbers,
    names,
    names,
    st.none() | st.lists(st.none() | st.lists(names, max_size=2), max_size=3),
    numbers,
    names,
    numbers,
    names,
    names,
    names,
)
removed = st.builds(MapRemovedEvent, hashes, names, numbers, names, names)
good_batches = st.tuples(st.floats(allow_nan=False), st.lists(stored | removed, max_size=5), numbers)
decoder = EventDecoder()
check = fuzz_events.make_check()


def decode(payload: bytes) -> EventBatch | None:
    try:
        return decoder.decode(payload)
    except EventDecodeError:
        return None


@given(st.binary(max_size=300))
def test_random_bytes(payload: bytes) -> None:
    decode(payload)


@given(
    good_batches, st.sampled_from(["array", "map"]), st.lists(st.tuples(st.integers(0), st.integers(0, 255)))
)
def test_mutated_batches(batch: tuple[Any, ...], dialect: str, changes: list[tuple[int, int]]) -> None:
    payload = bytearray(EventEncoder(dialect).encode(*batch))
    for place, value in changes:
        payload[place % len(payload)] = value
    decode(bytes(payload))


@given(good_batches, st.data())
def test_cut_batches_are_never_read(batch: tuple[Any, ...], data: Any) -> None:
    payload = EventEncoder().encode(*batch)
    assert decode(payload[: data.draw(st.integers(0, len(payload) - 1))]) is None


@given(good_batches)
def test_what_is_written_as_maps_is_read_back(batch: tuple[Any, ...]) -> None:
    ts, events, rank = batch
    assert decode(EventEncoder("map").encode(ts, events, rank)) == EventBatch(ts, events, rank)


@given(plausible | anything)
def test_the_fast_way_gives_what_the_slow_one_gives(value: Any) -> None:
    payload = msgspec.msgpack.encode(value)
    slow = None
    with contextlib.suppress(EventDecodeError):
        slow = decoder._decode_loosely(payload)
    assert repr(decode(payload)).replace("Map", "") == repr(slow).replace("Map", "")


HOSTILE = """
from pathlib import Path
from benchmarks import fuzz_events
from blockpool import EventDecodeError
from blockpool.events import EventDecoder

decoder = EventDecoder()
size = 1 << 18
batch = b"\\x93\\xcb" + bytes(8)
bad = [
    batch + b"\\xdd\\xff\\xff\\xff\\xff",
    batch + b"\\x91\\x98\\xabBlockStored\\xdd\\x7f\\xff\\xff\\xff",
    batch + b"\\x91\\x98\\xabBlockStored\\x91\\x01\\xc0\\xdd\\x7f\\xff\\xff\\xff",
    batch + b"\\x91\\x98\\xabBlockStored\\xc6\\x7f\\xff\\xff\\xff",
    b"\\xdd\\x00\\x0f\\xff\\xff" * (size // 5),
    b"\\xdc\\xff\\xff" * (size // 3),
    b"\\xdf\\x00\\x0f\\xff\\xff" * (size // 5),
    b"\\x81" * size,
    batch + b"\\x91" * size,
    batch + b"\\xdd" + (size - 20).to_bytes(4, "big") + b"\\x90" * (size - 20),
]
for payload in bad:
    try:
        decoder.decode(payload)
    except EventDecodeError:
        pass
    else:
        raise AssertionError(payload[:40])
# Not getrusage: its peak is handed on by the process that started this one.
fields = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
print(int(fields["VmHWM"].split()[0]) // 1024)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc to see the peak of a process")
def test_lies_about_sizes_need_no_memory() -> None:
    """In a process of its own, whose peak is its own: the interpreter, and a few times the size of each payload."""
    finished = subprocess.run([sys.executable, "-c", HOSTILE], capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    assert int(finished.stdout) < 200


@given(
    good_batches, st.sampled_from(["array", "map"]), st.lists(st.tuples(st.integers(0), st.integers(0, 255)))
)
def test_the_check_of_the_long_fuzzing_run(
    batch: tuple[Any, ...], dialect: str, changes: list[tuple[int, int]]
) -> None:
    payload = bytearray(EventEncoder(dialect).encode(*batch))
    for place, value in changes:
        payload[place % len(payload)] = value
    check(bytes(payload))


def test_the_long_fuzzing_run_starts_from_batches() -> None:
    for seed in fuzz_events.seeds():
        assert len(decoder.decode(seed).events) == 3

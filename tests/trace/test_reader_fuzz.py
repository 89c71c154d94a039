"""Whatever the bytes, reading a trace ends in requests or in TraceError."""

from __future__ import annotations

import gzip
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockpool import TraceError
from blockpool.replay import ReplaySettings, replay
from blockpool.trace import TraceReader

from .test_reader import zstd

SEEDS = [
    {"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [1, 2]},
    {"timestamp": 1, "input_length": 30, "output_length": 5, "hash_ids": [1, 2], "block_size": 16},
    {"timestamp": 2.5, "input_length": 40, "hash_ids": [3, 4], "block_tokens": [20, 20]},
    {"token_ids": [1, 2, 3], "output_token_ids": [4], "session_id": "s", "lora": "l", "salt": "x"},
]
ODD_NUMBERS = st.one_of(
    st.integers(), st.sampled_from([0, -1, 2**31, 2**32, 2**53, 2**63, 2**64, 10**30, 10**400]), st.floats()
)
ODD_VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), ODD_NUMBERS, st.text(max_size=3)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=8,
)
FIELDS = sorted({field for seed in SEEDS for field in seed})


@st.composite
def odd_lines(draw: Any) -> bytes:
    """A good line with some fields dropped and some given other values."""
    fields = dict(draw(st.sampled_from(SEEDS)))
    for field in draw(st.lists(st.sampled_from(FIELDS), max_size=3)):
        if draw(st.booleans()):
            fields.pop(field, None)
        else:
            fields[field] = draw(ODD_VALUES)
    return json.dumps(fields).encode()


@st.composite
def damaged(draw: Any, data: bytes) -> bytes:
    """The data cut short, or with some bytes replaced, removed or put in."""
    changed = bytearray(data)
    for _ in range(draw(st.integers(1, 4))):
        where = draw(st.integers(0, len(changed)))
        length = draw(st.integers(0, 8))
        changed[where : where + length] = draw(st.binary(max_size=8))
    return bytes(changed[: draw(st.integers(0, len(changed)))] if draw(st.booleans()) else changed)


def read(data: bytes, *, skip_bad: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace"
        path.write_bytes(data)
        try:
            requests = list(TraceReader(path, skip_bad=skip_bad))
        except TraceError as error:
            caught: TraceError | None = error
        else:
            caught = None
        if caught is not None:
            assert caught.path == str(path)
            assert caught.line >= 0
            assert "\n" not in str(caught)
            return
        # Whatever was accepted can also be played.
        for rules in ("trace", "engine"):
            replay(requests, 4, ReplaySettings(rules=rules, check_every=1))


@given(st.lists(odd_lines(), max_size=4), st.booleans())
def test_odd_lines(lines: list[bytes], skip_bad: bool) -> None:
    read(b"\n".join(lines), skip_bad=skip_bad)


@given(
    st.binary(max_size=200),
    st.sampled_from([b"", b"\x1f\x8b", b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd"]),
    st.booleans(),
)
def test_any_bytes(data: bytes, magic: bytes, skip_bad: bool) -> None:
    read(magic + data, skip_bad=skip_bad)


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstd])
@given(data=st.data(), skip_bad=st.booleans())
def test_damaged_files(pack: Any, data: st.DataObject, skip_bad: bool) -> None:
    lines = [json.dumps(data.draw(st.sampled_from(SEEDS[:1] + SEEDS[3:]))).encode() for _ in range(3)]
    read(data.draw(damaged(pack(b"\n".join(lines)))), skip_bad=skip_bad)

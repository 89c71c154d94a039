"""A recording of events is told from a trace by its first bytes, however it is packed."""

from __future__ import annotations

import gzip
import io
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from blockpool.trace.recording_mark import RECORDING_MARK, is_recording
from blockpool.trace.source import open_zstd

LINES = RECORDING_MARK + b'1","at":1.0}\n' * 3


def zstd(data: bytes) -> bytes:
    buffer = io.BytesIO()
    with open_zstd(buffer, "wb") as file:
        file.write(data)
    return buffer.getvalue()


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstd])
def test_told_by_content_not_by_name(tmp_path: Path, pack: object) -> None:
    path = tmp_path / "trace.txt"
    path.write_bytes(pack(LINES))  # type: ignore[operator]
    assert is_recording(str(path))
    path.write_bytes(pack(b'{"timestamp":0,"hash_ids":[1]}\n'))  # type: ignore[operator]
    assert not is_recording(str(path))


@pytest.mark.parametrize("data", [b"", b"\x1f\x8bgarbage", b"\x28\xb5\x2f\xfdgarbage", RECORDING_MARK[:-1]])
def test_what_is_damaged_is_none(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "damaged"
    path.write_bytes(data)
    assert not is_recording(str(path))


def test_the_demo_missing_files_and_folders_are_none(tmp_path: Path) -> None:
    assert not is_recording("demo")
    assert not is_recording(str(tmp_path))
    assert not is_recording(str(tmp_path / "missing"))


def test_standard_input_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.BufferedReader(io.BytesIO(LINES))  # type: ignore[arg-type]
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=stream))
    assert is_recording("-")
    assert stream.read() == LINES
    monkeypatch.setattr(sys, "stdin", None)
    assert not is_recording("-")

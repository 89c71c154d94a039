"""TraceReader: packing, line numbers, what is skipped and what never is."""

from __future__ import annotations

import gzip
import io
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from blockpool import ConfigError, MissingExtraError, TraceError
from blockpool.trace import TraceReader, count_requests
from blockpool.trace import source as source_module
from blockpool.trace.source import open_zstd

GOOD = [f'{{"token_ids":[{number}]}}'.encode() for number in range(5)]


def zstd(data: bytes) -> bytes:
    packed = io.BytesIO()
    with open_zstd(packed, "wb") as file:
        file.write(data)
    return packed.getvalue()


def write(folder: Path, data: bytes) -> Path:
    path = folder / "trace"
    path.write_bytes(data)
    return path


def first_tokens(path: Any, **options: Any) -> list[int]:
    return [request.token_ids[0] for request in TraceReader(path, **options) if request.token_ids]


@pytest.mark.parametrize(
    "pack",
    [
        pytest.param(lambda lines: b"\n".join(lines), id="plain, no newline at the end"),
        pytest.param(lambda lines: b"\r\n".join(lines) + b"\r\n", id="plain, carriage returns"),
        pytest.param(lambda lines: b"\xef\xbb\xbf" + b"\n".join(lines), id="byte order mark"),
        pytest.param(lambda lines: b"\n \t\n" + b"\n\n".join(lines) + b"\n\n", id="blank lines"),
        pytest.param(lambda lines: gzip.compress(b"\n".join(lines)), id="gzip"),
        pytest.param(
            lambda lines: b"".join(gzip.compress(x + b"\n") for x in lines), id="gzip, many members"
        ),
        pytest.param(lambda lines: gzip.compress(b"\n".join(lines)) + b"\0" * 100, id="gzip, padded"),
        pytest.param(lambda lines: zstd(b"\n".join(lines)), id="zstd"),
        pytest.param(lambda lines: b"".join(zstd(x + b"\n") for x in lines), id="zstd, many frames"),
        pytest.param(
            lambda lines: b"\x5a\x2a\x4d\x18\x02\0\0\0ab" + zstd(b"\n".join(lines)),
            id="zstd, skippable frame",
        ),
    ],
)
def test_packing_is_told_by_content(tmp_path: Path, pack: Any) -> None:
    assert first_tokens(write(tmp_path, pack(GOOD))) == [0, 1, 2, 3, 4]


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(gzip.compress(GOOD[3]))))
    assert first_tokens("-") == [3]


def test_standard_input_in_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"{")))
    with pytest.raises(TraceError, match="<stdin>:1: not JSON"):
        list(TraceReader("-"))
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(TraceError, match="<stdin>: standard input is closed"):
        list(TraceReader("-"))


def test_demo_is_a_reserved_word_and_a_path_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("demo").write_bytes(GOOD[1])
    assert count_requests(TraceReader("demo")) == 1000
    assert first_tokens("./demo") == [1]
    assert first_tokens(Path("demo")) == [1]


def test_reading_again_starts_anew(tmp_path: Path) -> None:
    reader = TraceReader(write(tmp_path, b"{\n" + b"\n".join(GOOD)), skip_bad=True)
    for _ in range(2):
        assert count_requests(reader) == 5
        assert (reader.requests, reader.bad_lines, reader.format) == (5, 1, "token-ids")
    assert reader.fraction_read() == 1.0


def test_a_bad_line_names_file_line_and_reason(tmp_path: Path) -> None:
    path = write(tmp_path, b"\n".join([GOOD[0], b"", b"{}", GOOD[1]]))
    requests = iter(TraceReader(path))
    next(requests)
    with pytest.raises(TraceError) as caught:
        next(requests)
    assert (caught.value.path, caught.value.line) == (str(path), 3)
    assert str(caught.value) == f"{path}:3: neither token_ids nor hash_ids"


def test_skip_bad_counts(tmp_path: Path) -> None:
    path = write(tmp_path, b"\n".join([b"{}", GOOD[0], b'{"token_ids":[', b'{"hash_ids":[1]}', GOOD[1]]))
    reader = TraceReader(path, skip_bad=True)
    assert count_requests(reader) == 2
    assert reader.bad_lines == 3
    assert reader.first_bad is not None
    assert reader.first_bad.line == 1


def test_lines_too_long_are_bad_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_module, "MAX_LINE_BYTES", 100)
    monkeypatch.setattr(source_module, "_CHUNK_BYTES", 30)
    exact = b'{"token_ids":[7]}'.ljust(99) + b"\n"
    path = write(tmp_path, exact + b"x" * 1000 + b"\n" + GOOD[1] + b"\n" + b"y" * 101)
    with pytest.raises(TraceError, match="trace:2: longer than"):
        first_tokens(path)
    reader = TraceReader(path, skip_bad=True)
    assert [request.token_ids for request in reader] == [[7], [1]]
    assert reader.bad_lines == 2


@pytest.mark.parametrize("skip_bad", [False, True])
@pytest.mark.parametrize(
    "data",
    [b"", b"\n\n \n", gzip.compress(b""), zstd(b""), b"\xef\xbb\xbf"],
    ids=["nothing", "blank lines", "gzip of nothing", "zstd of nothing", "byte order mark"],
)
def test_a_trace_without_requests(tmp_path: Path, data: bytes, skip_bad: bool) -> None:
    with pytest.raises(TraceError, match="no requests") as caught:
        list(TraceReader(write(tmp_path, data), skip_bad=skip_bad))
    assert caught.value.line == 0


def test_a_trace_of_bad_lines_only(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"no requests, 2 bad lines; the first is line 1: not JSON"):
        list(TraceReader(write(tmp_path, b"{\n}"), skip_bad=True))


@pytest.mark.parametrize("skip_bad", [False, True])
@pytest.mark.parametrize("pack", [gzip.compress, zstd])
def test_a_truncated_archive_is_never_skipped(tmp_path: Path, pack: Any, skip_bad: bool) -> None:
    data = pack(b"\n".join(GOOD * 2000))
    for length in (5, len(data) // 2, len(data) - 1):
        with pytest.raises(TraceError, match="the compressed data ends in the middle"):
            list(TraceReader(write(tmp_path, data[:length]), skip_bad=skip_bad))


@pytest.mark.parametrize("skip_bad", [False, True])
@pytest.mark.parametrize("pack", [gzip.compress, zstd])
def test_garbage_in_and_after_an_archive(tmp_path: Path, pack: Any, skip_bad: bool) -> None:
    data = pack(os.urandom(1000).hex().encode())
    middle = len(data) // 2
    for damaged in (data + b"garbage", data[:middle] + bytes(60) + data[middle + 60 :]):
        with pytest.raises(TraceError):
            list(TraceReader(write(tmp_path, damaged), skip_bad=skip_bad))


def test_files_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        list(TraceReader(tmp_path / "nothing", skip_bad=True))
    with pytest.raises(IsADirectoryError):
        list(TraceReader(tmp_path, skip_bad=True))


@pytest.mark.parametrize("block_size", [0, -1, 2**31])
def test_block_size_out_of_range(block_size: int) -> None:
    with pytest.raises(ConfigError):
        TraceReader("demo", block_size=block_size)


def test_zstd_without_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, zstd(GOOD[0]))
    monkeypatch.setitem(sys.modules, "compression" if sys.version_info >= (3, 14) else "backports", None)
    with pytest.raises(MissingExtraError, match=r"\.\[cli\]"):
        list(TraceReader(path))

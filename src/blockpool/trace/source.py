"""Where a trace comes from: opens it, unpacks gzip and zstd, and hands out its lines one at a time.

The packing is told by the first bytes, never by the name. Nothing here knows JSON.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import shutil
import sys
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Literal, TypeAlias, cast

from blockpool.errors import ArgumentError, ConfigError, MissingExtraError, TraceError
from blockpool.trace.demo import DEMO_NAME, DEMO_TRACE

TracePath: TypeAlias = "str | os.PathLike[str]"
"""A file, or one of the strings "-" (standard input) and "demo" (the bundled trace)."""

MAX_LINE_BYTES = 64 * 2**20  # a prompt of ten million tokens; a longer line is no request
STDIN_NAME = "<stdin>"

_GZIP_MAGIC = b"\x1f\x8b"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_ZSTD_SKIPPABLE_MAGIC = b"\x2a\x4d\x18"  # bytes 1 to 3; byte 0 is 0x50 … 0x5f
_UTF8_BOM = b"\xef\xbb\xbf"
_MAGIC_BYTES = 4
_CHUNK_BYTES = 2**20


class TraceSource:
    """The lines of one trace.

    Attributes:
        name: The trace as errors name it.
        bytes_read: Bytes taken from the file so far, packed as they are.
        bytes_total: Size of the file, or None when it cannot be known.
        broke_off: Whether the archive ended in the middle.
    """

    def __init__(self, path: TracePath, *, name: str | None = None) -> None:
        """Notes where the trace is; opens nothing.

        Args:
            path: A file. The strings "-" and "demo" are standard input and the bundled trace;
                a file of such a name is `Path("demo")` or "./demo".
            name: What errors call it; by default the path.

        Raises:
            ConfigError: It is no path, or empty.
        """
        check_path(path)
        self._path = None if path == "-" else DEMO_TRACE if path == DEMO_NAME else Path(path)
        self.name = name or (STDIN_NAME if self._path is None else os.fspath(path))
        self.bytes_read = 0
        self.bytes_total: int | None = None
        self.broke_off = False

    def lines(self) -> Iterator[tuple[int, bytes | None]]:
        """Reads the trace from its start; standard input can be read once.

        Yields:
            Line number from 1 and the line; None instead of a line above `MAX_LINE_BYTES`.

        Raises:
            TraceError: The archive is truncated or damaged.
            OSError: The file cannot be opened or read.
            MissingExtraError: zstd data without the package that unpacks it.
        """
        number = 0
        with contextlib.ExitStack() as stack:
            try:
                stream = self._open(stack)
                for number, line in _split_lines(stream):
                    yield number, line
            except EOFError:
                self.broke_off = True
                raise TraceError(self.name, number + 1, "the compressed data ends in the middle") from None
            except gzip.BadGzipFile as error:
                raise TraceError(self.name, number + 1, f"damaged gzip data: {error}") from None
            except zlib.error as error:
                raise TraceError(self.name, number + 1, f"damaged gzip data: {error}") from None
            except Exception as error:
                # The class of zstd errors is known only where the package is, hence by name.
                if type(error).__name__ != "ZstdError":
                    raise
                raise TraceError(self.name, number + 1, f"damaged zstd data: {error}") from None

    def _open(self, stack: contextlib.ExitStack) -> BinaryIO:
        if self._path is None:
            file = _standard_input()
            self.bytes_total = None
        else:
            file = stack.enter_context(self._path.open("rb"))
            self.bytes_total = os.fstat(file.fileno()).st_size or None
        self.bytes_read = 0
        head = file.read(_MAGIC_BYTES)
        packed = cast(BinaryIO, io.BufferedReader(_CountedInput(self, head, file), _CHUNK_BYTES))
        if head.startswith(_GZIP_MAGIC):
            return cast(BinaryIO, stack.enter_context(gzip.GzipFile(fileobj=packed, mode="rb")))
        if head == _ZSTD_MAGIC or (head[1:] == _ZSTD_SKIPPABLE_MAGIC and head[0] >> 4 == 5):
            return stack.enter_context(open_zstd(packed, "rb"))
        return packed


class _CountedInput(io.RawIOBase):
    """A stream whose first bytes have been read already, put together again and counted."""

    def __init__(self, source: TraceSource, head: bytes, rest: BinaryIO) -> None:
        self._source = source
        self._head = head
        self._rest = rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._head or self._rest.read1(len(buffer))  # type: ignore[attr-defined]
        self._head = b""
        buffer[: len(data)] = data
        self._source.bytes_read += len(data)
        return len(data)


def _split_lines(stream: BinaryIO) -> Iterator[tuple[int, bytes | None]]:
    number = 0
    while line := stream.readline(MAX_LINE_BYTES + 1):
        number += 1
        if number == 1 and line.startswith(_UTF8_BOM):
            line = line[len(_UTF8_BOM) :]
        if len(line) <= MAX_LINE_BYTES:
            yield number, line
            continue
        while line and not line.endswith(b"\n"):
            line = stream.readline(_CHUNK_BYTES)
        yield number, None


def _standard_input() -> BinaryIO:
    if sys.stdin is None:
        raise TraceError(STDIN_NAME, 0, "standard input is closed")
    return sys.stdin.buffer


def open_zstd(file: BinaryIO, mode: Literal["rb", "wb"]) -> BinaryIO:
    """Wraps an open file in zstd, of any number of frames.

    Args:
        file: Stays open when the result is closed.
        mode: "rb" or "wb".

    Raises:
        MissingExtraError: Neither Python 3.14 nor the package `backports.zstd` is there.
    """
    try:
        if sys.version_info >= (3, 14):
            from compression import zstd
        else:
            from backports import zstd
    except ImportError:
        raise MissingExtraError("zstd", "cli") from None
    return cast(BinaryIO, zstd.ZstdFile(file, mode))


def check_path(path: object) -> None:
    """Raises ConfigError unless it is the path of a trace."""
    if not isinstance(path, (str, os.PathLike)):
        raise ArgumentError("trace", path, "a path is needed")
    if path == "":
        raise ConfigError("trace", path, "the name is empty")


def is_read_from(trace: TracePath, file: Path) -> bool:
    """Whether a trace is read from this file, under whatever name. False when either cannot be looked at.

    Args:
        trace: As `TraceSource` takes it.
        file: A file.
    """
    try:
        if trace == "-":
            opened = sys.stdin.fileno() if sys.stdin is not None else -1
            return os.path.samestat(os.fstat(opened), file.stat())
        return file.samefile(DEMO_TRACE if trace == DEMO_NAME else trace)
    except (OSError, ValueError):
        return False


@contextlib.contextmanager
def spooled(path: TracePath, *, again: bool) -> Iterator[tuple[TracePath, str | None]]:
    """Makes a trace readable more than once, by other processes too.

    Args:
        path: As `TraceSource` takes it.
        again: False: the trace will be read once, by this process, and nothing needs to be done.

    Yields:
        The path to read and the name that errors shall use (None: the path). What can be read only once
        (standard input, a pipe) is copied to a temporary file, which is gone after the block.
    """
    check_path(path)
    if not again or not _reads_once(path):
        yield path, None
        return
    with tempfile.TemporaryDirectory(prefix="blockpool-") as folder, contextlib.ExitStack() as stack:
        source = _standard_input() if path == "-" else stack.enter_context(Path(path).open("rb"))
        copy = Path(folder) / "trace"
        with copy.open("wb") as file:
            shutil.copyfileobj(source, file, _CHUNK_BYTES)
        yield copy, STDIN_NAME if path == "-" else os.fspath(path)


def _reads_once(path: TracePath) -> bool:
    if path in ("-", DEMO_NAME):
        return path == "-"
    file = Path(path)
    return file.is_fifo() or file.is_char_device() or file.is_socket()

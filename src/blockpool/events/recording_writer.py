"""`RecordingWriter`: a recording of events on its way into a file, whole lines at any time."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final, final

from blockpool.events.received import ReceivedBatch, Source, SourceStats
from blockpool.events.recording_format import RecordingHead, batch_line, end_line, head_line
from blockpool.trace.source import open_zstd

FLUSH_BYTES: Final = 1 << 20


@final
class RecordingWriter:
    """Writes what a subscriber hands out. Nothing is on disk before `flush`, and then whole lines.

    A write that fails, as on a full disk, is taken back as far as it went, and ends the recording: nothing is added.

    A packed recording consists of many archives, one per flush, as gzip and zstd allow: each is complete, so a process
    that is killed leaves a file that can be unpacked to its end.

    Args:
        path: Packed when it ends in .gz or .zst; the string "-" is standard output. What is there is overwritten.
        sources: Addresses that are listened to.
        topic: Prefix of the topics that are asked for.
        clock: Seconds since 1970.

    Attributes:
        num_batches: Batches written, or to be written by the next flush.
        num_bytes: Bytes on disk.

    Raises:
        OSError: The file cannot be written.
        MissingExtraError: zstd without the package that packs it.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        sources: list[str],
        topic: str = "",
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        name = os.fspath(path)
        self._packing = name.rpartition(".")[2] if name.endswith((".gz", ".zst")) else ""
        self._clock = clock
        self._lines: list[bytes] = []
        self._num_waiting = 0
        self._failed = False
        self.num_batches: int = 0
        self.num_bytes: int = 0
        head = self._packed(head_line(RecordingHead(clock(), sources, topic)) + b"\n")
        if name == "-":
            sys.stdout.flush()
            self._file: io.FileIO | None = io.FileIO(sys.stdout.fileno(), "wb", closefd=False)
        else:
            self._file = io.FileIO(os.fspath(Path(name)), "wb")
        self._write(head)

    def add(self, source: Source, batch: ReceivedBatch, stats: SourceStats) -> None:
        """Takes one batch; flushes when a mebibyte waits.

        Args:
            source: Who published it.
            batch: As the subscriber handed it out.
            stats: Of its address, as they are now.
        """
        self._take(batch_line(self._clock(), source, batch, stats))
        self.num_batches += 1
        if self._num_waiting >= FLUSH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Writes what waits."""
        if self._lines:
            lines = b"\n".join(self._lines) + b"\n"
            self._lines.clear()
            self._num_waiting = 0
            self._write(self._packed(lines))

    def close(self, stats: dict[str, SourceStats] | None = None) -> None:
        """Writes what waits, and the last line if the counts for it are given. May be called twice."""
        if self._file is None:
            return
        try:
            if stats is not None and not self._failed:
                self._take(end_line(self._clock(), stats))
            self.flush()
        finally:
            self._file.close()
            self._file = None

    def __enter__(self) -> RecordingWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _take(self, line: bytes) -> None:
        self._lines.append(line)
        self._num_waiting += len(line) + 1

    def _packed(self, lines: bytes) -> bytes:
        if not self._packing:
            return lines
        buffer = io.BytesIO()
        if self._packing == "gz":
            with gzip.GzipFile(filename="", fileobj=buffer, mode="wb", mtime=0) as packed:
                packed.write(lines)
        else:
            with open_zstd(buffer, "wb") as packed_zstd:
                packed_zstd.write(lines)
        return buffer.getvalue()

    def _write(self, data: bytes) -> None:
        assert self._file is not None
        left = memoryview(data)
        try:
            while left:  # a raw file may take less than it is given
                left = left[self._file.write(left) or 0 :]
        except BaseException:  # a signal in the middle, too
            self._failed = True
            if self._file.closefd:  # standard output may have begun before us
                with contextlib.suppress(OSError):  # a pipe keeps what it has
                    self._file.truncate(self.num_bytes)
            raise
        self.num_bytes += len(data)

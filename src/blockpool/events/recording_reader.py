"""`RecordingReader`: the batches of a recording of events, one at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import final

from blockpool.errors import EventDecodeError, TraceError
from blockpool.events.recording_format import RecordedBatch, RecordingEnd, RecordingHead, read_line
from blockpool.trace.source import MAX_LINE_BYTES, TracePath, TraceSource


@final
class RecordingReader:
    """Iterates over the batches of a recording in file order. Holds one line in memory.

    A last line without its end, or an archive that breaks off, is what a killed recorder or a copy of a recording that
    goes on may leave: the recording ends there, and `cut` says so.

    Args:
        path: A file, plain, gzip or zstd; or the string "-" for standard input.

    Attributes:
        name: The recording as errors name it.
        head: Its first line; None before the first batch was read.
        end: Its last line; None if there is none, or it was not read yet.
        cut: Whether it breaks off in the middle.

    Raises:
        ConfigError: The path is none or empty.
    """

    def __init__(self, path: TracePath) -> None:
        self._source = TraceSource(path)
        self.name: str = self._source.name
        self.head: RecordingHead | None = None
        self.end: RecordingEnd | None = None
        self.cut: bool = False

    def __iter__(self) -> Iterator[RecordedBatch]:
        """Reads the recording.

        Raises:
            TraceError: A bad line, damaged archive data, no recording.
            OSError: The file cannot be opened or read.
            MissingExtraError: zstd data without the package that unpacks it.
        """
        self.head, self.end, self.cut = None, None, False
        for number, line in self._lines():
            if not line.endswith(b"\n"):
                self.cut = True
                break
            try:
                read = read_line(line)
            except EventDecodeError as error:
                raise TraceError(self.name, number, error.reason) from None
            if self.end is not None:
                raise TraceError(self.name, number, "there is more after the last line")
            if isinstance(read, RecordingHead) != (self.head is None):
                reason = "no recording of events" if self.head is None else "another first line"
                raise TraceError(self.name, number, reason)
            if isinstance(read, RecordingHead):
                self.head = read
            elif isinstance(read, RecordingEnd):
                self.end = read
            else:
                yield read
        if self.head is None:
            raise TraceError(self.name, 0, "no recording of events: the first line is missing")

    def fraction_read(self) -> float | None:
        """How much of the file has been read, 0 … 1; None when its size is unknown."""
        if not self._source.bytes_total:
            return None
        return min(1.0, self._source.bytes_read / self._source.bytes_total)

    def _lines(self) -> Iterator[tuple[int, bytes]]:
        lines = self._source.lines()
        while True:
            try:
                number, line = next(lines)
            except StopIteration:
                return
            except TraceError:
                if not self._source.broke_off:
                    raise
                self.cut = True
                return
            if line is None:
                raise TraceError(self.name, number, f"longer than {MAX_LINE_BYTES:,} bytes")
            yield number, line

"""`TraceReader`: the requests of a trace, one at a time, however long it is."""

from __future__ import annotations

from collections.abc import Iterator

from blockpool.core.arguments import as_bool, as_int
from blockpool.errors import ConfigError, TraceError
from blockpool.trace.formats import MAX_BLOCK_SIZE, BadLineError, LineParser
from blockpool.trace.request import TraceRequest
from blockpool.trace.source import MAX_LINE_BYTES, TracePath, TraceSource
from blockpool.trace.time_order import TimeOrder, sorted_by_time


class TraceReader:
    """Iterates over the requests of a trace in file order, in which time must not go back. Holds one line in memory.

    With `sort` it goes by time instead, and holds all requests in memory. Each `iter()` reads from the start
    (standard input can be read once).

    Attributes:
        name: The trace as errors name it.
        format: "mooncake", "kvcache-simulator" or "token-ids"; None before the first request.
        requests: Requests handed out by the latest iteration.
        line: Line of the latest of them, from 1; 0 before the first.
        bad_lines: Lines skipped by the latest iteration; 0 unless `skip_bad`.
        first_bad: Why the first of them was skipped.
    """

    def __init__(
        self,
        path: TracePath,
        *,
        block_size: int | None = None,
        skip_bad: bool = False,
        sort: bool = False,
        name: str | None = None,
        tag_field: str | None = None,
    ) -> None:
        """Notes what to read; opens nothing.

        Args:
            path: A file, plain, gzip or zstd; or the string "-" (standard input) or "demo" (the bundled
                trace).
            block_size: Tokens per block, 1 … 2^31-1. None: 512 for mooncake, 16 for token ids, what the
                lines say for kvcache-simulator.
            skip_bad: Count bad lines instead of raising. A damaged archive and a trace without any request
                are errors all the same.
            sort: Hand the requests out by timestamp, those of one time in file order.
            name: What errors call the trace; by default its path.
            tag_field: Field of the lines that requests keep as their `tag`, as text.

        Raises:
            ConfigError: The block size is out of range, the path is none or empty.
        """
        if block_size is not None and not 1 <= as_int("block_size", block_size) <= MAX_BLOCK_SIZE:
            raise ConfigError("block_size", block_size, f"must be 1 … {MAX_BLOCK_SIZE}")
        self._source = TraceSource(path, name=name)
        self._block_size = block_size
        self._skip_bad = skip_bad
        self._sort = as_bool("sort", sort)
        self._tag_field = tag_field
        self.name = self._source.name
        self.format: str | None = None
        self.requests = 0
        self.line = 0
        self.bad_lines = 0
        self.first_bad: TraceError | None = None
        self._num_kept = 0

    def __iter__(self) -> Iterator[TraceRequest]:
        """Reads the trace.

        Raises:
            TraceError: A bad line, a damaged archive, a timestamp that goes back, or no request at all.
            ConfigError: With `sort`, when the trace has no timestamps.
            OSError: The file cannot be opened or read.
            MissingExtraError: zstd data without the package that unpacks it.
        """
        return self.by_time() if self._sort else self._in_file_order(TimeOrder("line"))

    def by_time(self) -> Iterator[TraceRequest]:
        """Reads the trace as with `sort`, whether or not that was asked for."""
        kept = sorted_by_time((request, self.line) for request in self._in_file_order(None))
        self._num_kept = len(kept)
        self.requests = 0
        for request, line in kept:
            self.requests += 1
            self.line = line
            yield request

    def _in_file_order(self, time_order: TimeOrder | None) -> Iterator[TraceRequest]:
        self._num_kept = 0
        parser = LineParser(self._block_size, self._tag_field)
        self.format, self.requests, self.line, self.bad_lines, self.first_bad = None, 0, 0, 0, None
        for number, line in self._source.lines():
            if line is not None and (not line or line.isspace()):
                continue
            try:
                if line is None:
                    raise BadLineError(f"longer than {MAX_LINE_BYTES:,} bytes")
                request = parser.parse(line)
            except BadLineError as error:
                self._note_bad(TraceError(self.name, number, str(error)))
                continue
            fault = time_order.fault(request.timestamp_ms, number) if time_order else None
            if fault:  # no bad line, so it is never skipped: which of the two times is wrong nobody knows
                raise TraceError(self.name, number, fault)
            self.format = parser.format
            self.requests += 1
            self.line = number
            yield request
        if not self.requests:
            raise TraceError(self.name, 0, self._why_empty())

    def fraction_read(self) -> float | None:
        """How much of the file has been read, 0 … 1; None when its size is unknown. Sorted: how much was handed out."""
        if self._num_kept:
            return self.requests / self._num_kept
        if not self._source.bytes_total:
            return None
        return min(1.0, self._source.bytes_read / self._source.bytes_total)

    def _note_bad(self, error: TraceError) -> None:
        if not self._skip_bad:
            raise error from None
        self.bad_lines += 1
        self.first_bad = self.first_bad or error

    def _why_empty(self) -> str:
        if self.first_bad is None:
            return "no requests"
        first = f"line {self.first_bad.line}: {self.first_bad.reason}"
        return f"no requests, {self.bad_lines:,} bad lines; the first is {first}"


def count_requests(reader: TraceReader) -> int:
    """Reads a trace once for its number of good requests.

    Raises:
        TraceError, OSError: As iterating does.
    """
    return sum(1 for _ in reader)

"""The lines of a recording: what a subscriber was handed, as JSON. No files here.

| line | fields |
|---|---|
| first | `recording` (the format), `at`, `sources` (a list of addresses), `topic` |
| batch | `at`, `source`, `topic`, `seq`, `ts`, `rank`, `origin`, `reset`, `lost`, `epoch`, `fingerprint`, `events` |
| last, if there was time for it | `end`, `stats` (the counts of the subscriber, by address) |
"""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any, Final, NamedTuple

import msgspec

from blockpool.errors import EventDecodeError
from blockpool.events.encoder import map_of
from blockpool.events.received import ReceivedBatch, Source, SourceStats
from blockpool.events.wire_events import MapClearedEvent, MapRemovedEvent, MapStoredEvent, WireEvent
from blockpool.trace.recording_mark import RECORDING_FORMAT

ORIGINS: Final = ("live", "replay", "snapshot", "notice")


class RecordingHead(NamedTuple):
    """The first line.

    Attributes:
        at: When the recording began, seconds since 1970.
        sources: Addresses that were listened to.
        topic: Prefix of the topics that were asked for.
    """

    at: float
    sources: list[str]
    topic: str


class RecordedBatch(NamedTuple):
    """A batch as it was handed out, and when and by whom. The fields that `ReceivedBatch` has mean the same.

    Attributes:
        at: When it was heard, seconds since 1970 at the recorder.
        source: Who published it.
        ts: Seconds since 1970 at the publisher; None: what it said was no time.
        epoch: Of the publisher, or None.
        fingerprint: Of the publisher, or None.
    """

    at: float
    source: Source
    seq: int
    ts: float | None
    events: list[WireEvent]
    data_parallel_rank: int | None
    origin: str
    reset: bool
    lost: int
    topic: str
    epoch: str | None
    fingerprint: str | None


class RecordingEnd(NamedTuple):
    """The last line: the recorder ended in good order.

    Attributes:
        at: When, seconds since 1970.
        stats: Counts of the subscriber by address, under the names of `SourceStats`.
    """

    at: float
    stats: dict[str, dict[str, Any]]


class _Line(msgspec.Struct, gc=False):
    """Every field of every kind of line."""

    recording: str | None = None
    sources: list[str] | None = None
    end: float | None = None
    stats: dict[str, dict[str, Any]] | None = None
    at: float | None = None
    source: str | None = None
    shared: bool = False
    topic: str = ""
    seq: int = -1
    ts: float | None = None
    rank: int | None = None
    origin: str = "live"
    reset: bool = False
    lost: int = 0
    epoch: str | None = None
    fingerprint: str | None = None
    events: list[MapStoredEvent | MapRemovedEvent | MapClearedEvent] | None = None


_encode: Final = msgspec.json.Encoder(enc_hook=repr).encode
_decode: Final = msgspec.json.Decoder(_Line).decode


def head_line(head: RecordingHead) -> bytes:
    """The first line, without its end."""
    return _encode(
        {"recording": RECORDING_FORMAT, "at": head.at, "sources": head.sources, "topic": head.topic}
    )


def batch_line(at: float, source: Source, batch: ReceivedBatch, stats: SourceStats) -> bytes:
    """The line of one batch, without its end. Fields that say nothing are left out.

    Extra keys that JSON has no form for become text.

    Args:
        at: When it was heard, seconds since 1970.
        source: Who published it.
        batch: As the subscriber handed it out.
        stats: Of the address, as they were then.
    """
    line: dict[str, Any] = {"at": at, "source": source.endpoint, "seq": batch.seq}
    if batch.origin != "notice" and math.isfinite(batch.ts):
        line["ts"] = batch.ts
    details = {
        "shared": bool(source.topic),
        "topic": batch.topic or source.topic,
        "rank": batch.data_parallel_rank,
        "reset": batch.reset,
        "lost": batch.lost,
        "epoch": stats.epoch,
        "fingerprint": stats.fingerprint,
    }
    line |= {name: value for name, value in details.items() if value or (name == "rank" and value == 0)}
    line["origin"] = batch.origin
    events = [map_of(event) for event in batch.events]
    line["events"] = events
    try:
        return _encode(line)
    except RecursionError:  # a publisher may nest extra keys more deeply than can be written
        for event in events:
            if event.get("extra_keys") is not None:
                event["extra_keys"] = [key and "nested too deeply" for key in event["extra_keys"]]
        return _encode(line)


def end_line(at: float, stats: dict[str, SourceStats]) -> bytes:
    """The last line, without its end."""
    return _encode({"end": at, "stats": {endpoint: asdict(counts) for endpoint, counts in stats.items()}})


def read_line(line: bytes) -> RecordingHead | RecordedBatch | RecordingEnd:
    """What one line says.

    Raises:
        EventDecodeError: If it is none of the three.
    """
    try:
        read = _decode(line)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise EventDecodeError(str(error)) from None
    if read.recording is not None:
        if read.recording != RECORDING_FORMAT:
            raise EventDecodeError(f"recording {read.recording!r} is not of the format {RECORDING_FORMAT}")
        if read.at is None or read.sources is None:
            raise EventDecodeError("`at` and `sources` are needed")
        return RecordingHead(read.at, read.sources, read.topic)
    if read.end is not None:
        for counts in (read.stats or {}).values():
            if type(counts.get("num_malformed", 0)) is not int:
                raise EventDecodeError("`num_malformed` is no integer")
        return RecordingEnd(read.end, read.stats or {})
    if read.at is None or read.source is None or read.events is None:
        raise EventDecodeError("`at`, `source` and `events` are needed")
    if read.origin not in ORIGINS:
        raise EventDecodeError(f"origin {read.origin!r} is none of {', '.join(ORIGINS)}")
    if read.lost < 0:
        raise EventDecodeError("`lost` is negative")
    return RecordedBatch(
        read.at,
        Source(read.source, read.topic if read.shared else ""),
        read.seq,
        read.ts,
        list(read.events),
        read.rank,
        read.origin,
        read.reset,
        read.lost,
        read.topic,
        read.epoch,
        read.fingerprint,
    )

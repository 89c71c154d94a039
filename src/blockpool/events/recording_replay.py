"""`replay_recording`: what publishers told, played back: the index, and what became of its blocks."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, final

from blockpool.events.index_view import IndexView
from blockpool.events.received import Source, place_among
from blockpool.events.recording_format import RecordedBatch
from blockpool.events.recording_reader import RecordingReader
from blockpool.events.recording_result import KnownPoint, RecordingResult, SourceRecord
from blockpool.events.wire_events import ClearedEvent, RemovedEvent, StoredEvent, WireEvent
from blockpool.replay.quantiles import QuantileSketch
from blockpool.replay.residency import quantiles_of
from blockpool.trace.source import TracePath

MAX_POINTS: Final = 256
_BATCHES_PER_PROGRESS: Final = 256

Key = tuple[str | None, int]
"""Medium and hash."""


def replay_recording(
    path: TracePath,
    *,
    each: Callable[[RecordedBatch], None] | None = None,
    progress: Callable[[float | None], None] | None = None,
) -> RecordingResult:
    """Plays a recording back. Memory follows the distinct blocks of the recording.

    Args:
        path: Of the recording; the string "-" is standard input.
        each: Called with every batch, in order, after it was counted.
        progress: Called every 256 batches with the fraction of the file that has been read, or None when its size is
            unknown.

    Raises:
        TraceError: A bad line, damaged archive data, no recording.
        OSError: The file cannot be read.
        MissingExtraError: zstd data without the package that unpacks it.
    """
    reader = RecordingReader(path)
    view = IndexView()
    lives: dict[Source, _SourceLife] = {}
    known = _KnownSeries()
    total = 0
    first_at: float | None = None
    last_at = 0.0
    for number, batch in enumerate(reader):
        first_at = batch.at if first_at is None else first_at
        last_at = max(batch.at, first_at)
        life = lives.setdefault(batch.source, _SourceLife(batch.source))
        before = life.num_known
        view.apply(batch.source, batch)
        life.apply(batch, last_at - first_at)
        total += life.num_known - before
        known.add(last_at - first_at, total)
        if each is not None:
            each(batch)
        if progress is not None and number % _BATCHES_PER_PROGRESS == 0:
            progress(reader.fraction_read())
    place = place_among(() if reader.head is None else reader.head.sources)
    malformed = None
    if reader.end is not None:
        malformed = sum(counts.get("num_malformed", 0) for counts in reader.end.stats.values())
    return RecordingResult(
        name=reader.name,
        seconds=last_at - (first_at or 0.0),
        complete=reader.end is not None,
        cut=reader.cut,
        sources=tuple(lives[source].record() for source in sorted(lives, key=place)),
        known_points=known.result(),
        view=view,
        malformed=malformed,
    )


@final
class _KnownSeries:
    """Points over time, at most `MAX_POINTS` and the last: whenever they are too many, every second one goes."""

    def __init__(self) -> None:
        self._points: list[KnownPoint] = []
        self._stride = 1
        self._num_samples = 0
        self._last: KnownPoint | None = None
        self.peak = 0

    def add(self, seconds: float, blocks: int) -> None:
        self.peak = max(self.peak, blocks)
        self._last = KnownPoint(seconds, blocks)
        if self._num_samples % self._stride == 0:
            if len(self._points) == MAX_POINTS:
                del self._points[1::2]
                self._stride *= 2
            if self._num_samples % self._stride == 0:
                self._points.append(self._last)
        self._num_samples += 1

    def result(self) -> tuple[KnownPoint, ...]:
        if self._last is None or self._points[-1] == self._last:
            return tuple(self._points)
        return (*self._points, self._last)


@final
class _SourceLife:
    """The blocks of one publisher, from when they were stored to when they went."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._births: dict[Key, deque[float | None]] = {}
        self._seen: set[Key] = set()
        self._known = _KnownSeries()
        self._lifetime = QuantileSketch()
        self._fingerprints: list[str] = []
        self._rank: int | None = None
        self._in_snapshot = False
        self._epoch: str | None = None
        self.num_known = 0
        self._batches = self._events = self._stored = self._removed = self._cleared = 0
        self._duplicates = self._stored_again = self._unmatched = self._unknown_births = 0
        self._gaps = self._lost = self._restarts = self._snapshots = self._snapshot_blocks = 0

    def apply(self, batch: RecordedBatch, seconds: float) -> None:
        """Counts one batch, `seconds` after the first of the recording."""
        is_snapshot = batch.origin == "snapshot"
        self._note_origin(batch, is_snapshot)
        now = batch.at if batch.ts is None else batch.ts
        for event in batch.events:
            self._apply_event(event, now, is_snapshot)
        self._known.add(seconds, self.num_known)

    def _note_origin(self, batch: RecordedBatch, is_snapshot: bool) -> None:
        if batch.reset:
            self._births.clear()
            self.num_known = 0
            if not is_snapshot or batch.epoch != self._epoch:
                self._seen.clear()  # another publisher: what the one before had stored it could not have kept
            self._snapshots += is_snapshot
            self._restarts += not is_snapshot
        elif is_snapshot and not self._in_snapshot:
            self._snapshots += 1
        self._epoch = batch.epoch
        self._in_snapshot = is_snapshot
        if not is_snapshot and batch.origin != "notice":
            self._batches += 1
            self._events += len(batch.events)
        self._gaps += batch.lost > 0
        self._lost += batch.lost
        if batch.data_parallel_rank is not None:
            self._rank = batch.data_parallel_rank
        if batch.fingerprint is not None and batch.fingerprint not in self._fingerprints:
            self._fingerprints.append(batch.fingerprint)

    def _apply_event(self, event: WireEvent, now: float, is_snapshot: bool) -> None:
        if isinstance(event, StoredEvent):
            keys = ((event.medium, block_hash) for block_hash in event.block_hashes)
            if is_snapshot:
                self._store_of_snapshot(keys)
            else:
                self._store(keys, now)
        elif isinstance(event, RemovedEvent):
            for block_hash in event.block_hashes:
                self._remove((event.medium, block_hash), now)
        elif isinstance(event, ClearedEvent):
            for births in self._births.values():
                self._cleared += len(births)
                for birth in births:
                    self._end_life(birth, now)
            self._births.clear()
            self._seen.clear()
            self.num_known = 0

    def _store(self, keys: Iterable[Key], now: float) -> None:
        for key in keys:
            self._stored += 1
            self.num_known += 1
            births = self._births.get(key)
            if births is not None:
                self._duplicates += 1
                births.append(now)
                continue
            self._births[key] = deque((now,))
            if key in self._seen:
                self._stored_again += 1
            else:
                self._seen.add(key)

    def _store_of_snapshot(self, keys: Iterable[Key]) -> None:
        for key in keys:
            self._snapshot_blocks += 1
            self.num_known += 1
            self._seen.add(key)
            self._births.setdefault(key, deque()).append(None)

    def _remove(self, key: Key, now: float) -> None:
        births = self._births.get(key)
        if births is None:
            self._unmatched += 1
            return
        self._removed += 1
        self.num_known -= 1
        self._end_life(births.popleft(), now)
        if not births:
            del self._births[key]

    def _end_life(self, birth: float | None, now: float) -> None:
        if birth is None:
            self._unknown_births += 1
        else:
            self._lifetime.add(max(now - birth, 0.0))

    def record(self) -> SourceRecord:
        """What has been counted."""
        known: dict[str | None, int] = {}
        for (medium, _), births in self._births.items():
            known[medium] = known.get(medium, 0) + len(births)
        return SourceRecord(
            source=self._source,
            data_parallel_rank=self._rank,
            batches=self._batches,
            events=self._events,
            stored=self._stored,
            removed=self._removed,
            cleared=self._cleared,
            duplicates=self._duplicates,
            stored_again=self._stored_again,
            unmatched=self._unmatched,
            gaps=self._gaps,
            lost=self._lost,
            restarts=self._restarts,
            snapshots=self._snapshots,
            snapshot_blocks=self._snapshot_blocks,
            fingerprints=tuple(self._fingerprints),
            known=known,
            peak_known=self._known.peak,
            known_points=self._known.result(),
            lifetime=quantiles_of(self._lifetime),
            unknown_births=self._unknown_births,
        )

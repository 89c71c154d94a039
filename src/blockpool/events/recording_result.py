"""What the replay of a recording found out, and the same as plain data for JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from blockpool.events.index_view import IndexView
from blockpool.events.received import Source
from blockpool.replay.residency import Quantiles

RECORDING_SCHEMA: Final = "blockpool.recording/1"


class KnownPoint(NamedTuple):
    """Blocks known after one batch, `seconds` after the first batch of the recording."""

    seconds: float
    blocks: int


@dataclass(frozen=True, slots=True)
class SourceRecord:
    """What one publisher told.

    Attributes:
        source: Address, and topic where several publishers share one.
        data_parallel_rank: Of the publisher, or None.
        batches: Batches heard, snapshots and notices not counted.
        events: Events in them.
        stored: Blocks that were stored.
        removed: Blocks that were removed one by one.
        cleared: Blocks that went when the whole index was emptied.
        duplicates: Of the stored, those whose hash was there already: another copy, or another KV cache group.
        stored_again: Of the stored, those whose hash had been there before and had been removed: what a larger cache
            might have kept. What went with a restart, or when the index was emptied, is not counted.
        unmatched: Removals of hashes that were not there: 0 unless batches were lost.
        gaps: Batches that told that some before them are lost.
        lost: Batches that are lost.
        restarts: Times that everything known was void and no snapshot took its place.
        snapshots: Times that the index was had anew.
        snapshot_blocks: Blocks in the snapshots.
        fingerprints: All that the publisher told, in order.
        known: Blocks known at the end, by medium, copies included.
        peak_known: The most blocks known after any batch.
        known_points: How many were known over time, evenly thinned.
        lifetime: Seconds from stored to removed or cleared, by the publisher's time, of the blocks of which both is
            recorded. Of several copies of a hash the oldest is taken to go first.
        unknown_births: Blocks that went and had been in a snapshot: when they were stored is not known.
    """

    source: Source
    data_parallel_rank: int | None
    batches: int
    events: int
    stored: int
    removed: int
    cleared: int
    duplicates: int
    stored_again: int
    unmatched: int
    gaps: int
    lost: int
    restarts: int
    snapshots: int
    snapshot_blocks: int
    fingerprints: tuple[str, ...]
    known: dict[str | None, int]
    peak_known: int
    known_points: tuple[KnownPoint, ...]
    lifetime: Quantiles
    unknown_births: int


@dataclass(frozen=True, slots=True)
class RecordingResult:
    """What a recording tells.

    Attributes:
        name: The recording as errors name it.
        seconds: From its first batch to its last, by the recorder's clock.
        complete: The recorder ended in good order: the last line is there.
        cut: The file breaks off in the middle.
        sources: In the order of the addresses that were listened to; of one address in order of appearance.
        known_points: Blocks known over time, all sources together.
        view: The reconstructed index: what a consumer knows that applied all batches.
        malformed: Batches that the recorder could not read; None if the recorder had no time to say.
    """

    name: str
    seconds: float
    complete: bool
    cut: bool
    sources: tuple[SourceRecord, ...]
    known_points: tuple[KnownPoint, ...]
    view: IndexView
    malformed: int | None

    @property
    def comparable(self) -> bool:
        """Whether all publishers that told a fingerprint told the same: else equal hashes mean nothing across them."""
        return len({name for record in self.sources for name in record.fingerprints}) <= 1


def recording_as_dict(result: RecordingResult, *, version: str) -> dict[str, Any]:
    """The result as plain data for `json.dumps`, without the index itself; docs/watch.md lists every field.

    Args:
        result: Of `replay_recording`.
        version: Of blockpool.
    """
    return {
        "schema": RECORDING_SCHEMA,
        "version": version,
        "recording": result.name,
        "seconds": result.seconds,
        "complete": result.complete,
        "cut": result.cut,
        "comparable": result.comparable,
        "malformed": result.malformed,
        "known_points": [point._asdict() for point in result.known_points],
        "sources": [_source_as_dict(record) for record in result.sources],
    }


def _source_as_dict(record: SourceRecord) -> dict[str, Any]:
    names = (name for name in SourceRecord.__slots__ if name not in ("source", "known", "known_points"))
    return {
        "source": str(record.source),
        **{name: getattr(record, name) for name in names},
        "fingerprints": list(record.fingerprints),
        "lifetime": record.lifetime._asdict(),
        "known": {medium or "unknown": blocks for medium, blocks in record.known.items()},
        "known_points": [point._asdict() for point in record.known_points],
    }

"""Recordings: whole lines on disk at any time, and what their replay tells."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from blockpool.errors import TraceError
from blockpool.events import ClearedEvent, ReceivedBatch, RemovedEvent, Source, SourceStats, StoredEvent
from blockpool.events.recording_reader import RecordingReader
from blockpool.events.recording_replay import MAX_POINTS, replay_recording
from blockpool.events.recording_result import recording_as_dict
from blockpool.events.recording_writer import RecordingWriter

from .support import Consumer, PoolRun, address_of, publisher

POD = Source("tcp://pod:1")


def stored(*hashes: int, parent: int | None = None, medium: str = "GPU") -> StoredEvent:
    return StoredEvent(list(hashes), parent, [0] * len(hashes), 1, medium=medium)


def removed(*hashes: int, medium: str = "GPU") -> RemovedEvent:
    return RemovedEvent(list(hashes), medium)


def batch(ts: float, *events: Any, origin: str = "live", **fields: Any) -> ReceivedBatch:
    return ReceivedBatch(int(ts), ts, list(events), None, origin, **fields)


def written(
    path: Path, batches: Iterable[ReceivedBatch], source: Source = POD, epochs: Iterable[str] = ()
) -> Path:
    times = iter(range(1_000_000))
    names = iter(epochs)
    with RecordingWriter(path, [source.endpoint], clock=lambda: float(next(times))) as writer:
        for each in batches:
            writer.add(source, each, SourceStats(epoch=next(names, "e"), fingerprint="f"))
        writer.close({source.endpoint: SourceStats(num_malformed=3)})
    return path


def test_counts_of_a_recording_worked_out_by_hand(tmp_path: Path) -> None:
    result = replay_recording(
        written(
            tmp_path / "r.jsonl",
            [
                batch(10, stored(1, 2, 3)),
                batch(12, stored(2), stored(1, medium="CPU")),  # a copy; another medium is none
                batch(15, removed(2, 3)),  # the older 2, after 5 seconds, and 3
                batch(16, removed(9), lost=4),
                batch(20, stored(3)),  # again
                batch(21, ClearedEvent()),  # 1, 2, 3, and 1 of the CPU: 11, 9, 1 and 9 seconds
                batch(22, stored(1)),
            ],
        )
    )
    (record,) = result.sources
    assert (record.batches, record.events) == (7, 8)
    assert (record.stored, record.removed, record.cleared) == (7, 2, 4)
    assert (record.duplicates, record.stored_again, record.unmatched) == (1, 1, 1)
    assert (record.gaps, record.lost, record.restarts, record.snapshots) == (1, 4, 0, 0)
    assert (record.known, record.peak_known, record.fingerprints) == ({"GPU": 1}, 5, ("f",))
    assert [point.blocks for point in result.known_points] == [3, 5, 3, 3, 4, 0, 1]
    assert record.lifetime.samples == 6
    assert record.lifetime.median == pytest.approx(5, rel=0.02)
    assert record.lifetime.p99 == pytest.approx(11, rel=0.02)
    assert (result.complete, result.cut, result.malformed, result.comparable) == (True, False, 3, True)
    assert dict(result.view.counts(POD)) == {1: 1}
    json.dumps(recording_as_dict(result, version="1"), allow_nan=False)


def test_snapshots_and_restarts_have_no_births(tmp_path: Path) -> None:
    result = replay_recording(
        written(
            tmp_path / "r.jsonl",
            [
                batch(1, stored(1), origin="snapshot"),
                batch(2, stored(2), origin="snapshot"),
                batch(3, removed(1), stored(1)),  # it had been there: again
                batch(4, stored(7), origin="snapshot", reset=True),
                batch(5, stored(2)),  # the same publisher had it before
                batch(6, stored(2), origin="live", reset=True),  # another one
            ],
            epochs=["e", "e", "e", "e", "e", "other"],
        )
    )
    (record,) = result.sources
    assert (record.snapshots, record.snapshot_blocks, record.restarts) == (2, 3, 1)
    assert (record.stored, record.stored_again, record.unknown_births) == (3, 2, 1)
    assert (record.batches, record.known, record.lifetime.samples) == (3, {"GPU": 1}, 0)


def test_sources_stand_as_they_were_listed_whoever_was_heard_first(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    listed = ["tcp://pod:3", "tcp://pod:1", "tcp://pod:2"]
    with RecordingWriter(path, listed) as writer:
        for endpoint in ("tcp://pod:2", "tcp://pod:1", "tcp://pod:3"):
            writer.add(Source(endpoint), batch(1, stored(1)), SourceStats())
        writer.close({})
    assert [record.source.endpoint for record in replay_recording(path).sources] == listed


def test_points_are_bounded_and_end_with_the_last(tmp_path: Path) -> None:
    batches = [batch(number, stored(number)) for number in range(3 * MAX_POINTS + 5)]
    result = replay_recording(written(tmp_path / "r.jsonl.gz", batches))
    assert len(result.known_points) <= MAX_POINTS + 1
    assert result.known_points[-1].blocks == len(batches)
    assert result.known_points[0].blocks == 1


@pytest.mark.parametrize("name", ["r.jsonl", "r.jsonl.gz", "r.jsonl.zst"])
def test_every_flush_leaves_a_whole_file(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    writer = RecordingWriter(path, ["tcp://pod:1"])
    for number in range(5):
        reader = RecordingReader(path)
        assert [each.seq for each in reader] == list(range(number))
        assert (reader.cut, reader.end) == (False, None)
        writer.add(POD, batch(number, stored(number)), SourceStats())
        writer.flush()
    writer.close()
    data = path.read_bytes()
    assert writer.num_bytes == len(data)
    path.write_bytes(data[:-3])  # a copy made while a line was being written
    reader = RecordingReader(path)
    assert [each.seq for each in reader][:4] == list(
        range(4)
    )  # the last too, if only its checksum is missing
    assert reader.cut


@pytest.mark.parametrize(
    ("lines", "line"),
    [
        (b"", 0),
        (b'{"at":1,"source":"a","events":[]}\n', 1),
        (b'{"recording":"blockpool.events/1","at":1,"sources":[]}\n' * 2, 2),
        (b'{"recording":"blockpool.events/1","at":1,"sources":[]}\n{"end":1}\n{"end":1}\n', 3),
        (b'{"recording":"blockpool.events/1","at":1,"sources":[]}\nnonsense\n', 2),
        (b'{"recording":"blockpool.events/2","at":1,"sources":[]}\n', 1),
    ],
)
def test_bad_recordings_name_the_line(tmp_path: Path, lines: bytes, line: int) -> None:
    path = tmp_path / "r.jsonl"
    path.write_bytes(lines)
    with pytest.raises(TraceError) as caught:
        replay_recording(path)
    assert (caught.value.path, caught.value.line) == (str(path), line)


@pytest.mark.parametrize("granularity", ["every_copy", "last_copy"])
def test_the_reconstructed_index_is_that_of_the_pool(tmp_path: Path, granularity: str) -> None:
    """Real sockets; the history is too short for a late joiner, so a snapshot is part of it."""
    run = PoolRun(5, event_granularity=granularity)
    path = tmp_path / "r.jsonl.zst"
    with publisher(buffer_steps=10) as made:
        for _ in range(40):
            made.publish(run.batch(3))
        assert made.flush(30.0)
        with Consumer(address_of(made)) as consumer:
            consumer.follow(lambda: consumer.index(made.endpoint) == run.index())
            for _ in range(60):
                last = made.publish(run.batch(3))
            consumer.follow(lambda: consumer.seqs()[-1:] == [last])
            with RecordingWriter(path, [made.endpoint]) as writer:
                for source, each in consumer.batches:
                    writer.add(source, each, consumer.subscriber.stats()[source.endpoint])
        result = replay_recording(path)
        (record,) = result.sources
        assert Counter(dict(result.view.counts(Source(made.endpoint)))) == run.index()
        assert sum(record.known.values()) == run.index().total()
        assert record.snapshots == 1
        assert record.unmatched == 0


@pytest.mark.parametrize("name", ["events.jsonl", "events.jsonl.gz", "events.jsonl.zst"])
def test_a_full_disk_leaves_what_was_whole(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    code = (
        "import resource, sys\n"
        "from blockpool.events import ReceivedBatch, Source, SourceStats\n"
        "from blockpool.events.recording_writer import RecordingWriter\n"
        "writer = RecordingWriter(sys.argv[1], ['a'])\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2000, resource.RLIM_INFINITY))\n"
        "try:\n"
        "    for number in range(100):\n"
        "        writer.add(Source('a'), ReceivedBatch(number, 1.0, [], None, 'live'), SourceStats())\n"
        "        writer.flush()\n"
        "except OSError as error:\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)\n"
        "    writer.close({})\n"
        "    sys.exit(str(error.strerror))"
    )
    command = [sys.executable, "-c", code, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (1, "File too large\n")
    reader = RecordingReader(path)
    assert [batch.seq for batch in reader] == list(range(len(list(reader))))
    assert len(list(reader)) > 5
    assert (reader.cut, reader.end) == (False, None)

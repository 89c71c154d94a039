"""`record`, as a process, against vLLM's own publisher: the replayed index is that of the pool behind it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("click", reason="the extra cli is not installed")

from blockpool.events import Source
from blockpool.events.recording_replay import replay_recording

from ..cli_support import run
from .test_vllm_publisher import Fleet, fleet, wait_until_sent

__all__ = ["fleet"]
pytestmark = pytest.mark.peer


@pytest.mark.parametrize("kept", [10_000, 20])
def test_recorded_and_replayed(fleet: Fleet, tmp_path: Path, kept: int) -> None:
    fleet.start(4, buffer_steps=kept)
    fleet.send(50)
    wait_until_sent(fleet)
    path = tmp_path / "events.jsonl.zst"
    num_kept = min(kept, 50)
    done = run(
        "record", fleet.address.endpoint, "--replay-endpoint", str(fleet.address.replay_endpoint),
        "-o", str(path), "--count", str(num_kept),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    result = replay_recording(path)
    (record,) = result.sources
    assert record.batches == num_kept
    assert record.lost == 50 - num_kept
    if record.lost == 0:
        index = Counter(dict(result.view.counts(Source(fleet.address.endpoint))))
        assert index == fleet.run.index()
        assert record.unmatched == 0

"""Prompts of a recording: what can be told is told to the token, and nothing is made up."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from blockpool.events import ClearedEvent, MapStoredEvent, RemovedEvent, Source, StoredEvent, WireEvent
from blockpool.events.derived_requests import SAME_REQUEST_SECONDS, DerivedRequests
from blockpool.events.recording_format import RecordedBatch
from blockpool.trace import TraceReader

POD, OTHER = Source("tcp://pod:1"), Source("tcp://other:1")


def stored(*hashes: int, parent: int | None = None, **fields: Any) -> StoredEvent:
    """Blocks of two tokens, both ten times the hash."""
    tokens = [10 * block_hash for block_hash in hashes for _ in range(2)]
    return StoredEvent(list(hashes), parent, tokens, 2, **fields)


def batch(ts: float, *events: WireEvent, source: Source = POD, **fields: Any) -> RecordedBatch:
    values: dict[str, Any] = {"origin": "live", "reset": False, "lost": 0} | fields
    return RecordedBatch(
        ts, source, 0, ts, list(events), None, topic="", epoch=None, fingerprint=None, **values
    )


def derived(*batches: RecordedBatch) -> DerivedRequests:
    made = DerivedRequests()
    for each in batches:
        made.add(each)
    return made


def prompts(made: DerivedRequests) -> list[tuple[float | None, list[int] | None]]:
    return [(request.timestamp_ms, request.token_ids) for request in made.requests()]


def test_a_run_brings_all_that_stands_before_it() -> None:
    made = derived(
        batch(100.0, stored(1, 2, 3)), batch(100.5, stored(4, parent=2)), batch(101.0, stored(5, parent=4))
    )
    assert prompts(made) == [
        (0.0, [10, 10, 20, 20, 30, 30]),
        (500.0, [10, 10, 20, 20, 40, 40, 50, 50]),  # 5 goes on where 4 ended: the same request
    ]


def test_a_chain_that_grows_late_is_another_request() -> None:
    late = 10 + SAME_REQUEST_SECONDS + 0.1
    made = derived(batch(10.0, stored(1)), batch(late, stored(2, parent=1)), batch(late, stored(3, parent=1)))
    assert [tokens for _, tokens in prompts(made)] == [[10, 10], [10, 10, 20, 20], [10, 10, 30, 30]]


def test_copies_are_no_requests_and_what_was_removed_is_computed_again() -> None:
    made = derived(
        batch(1.0, stored(1, 2)),
        batch(2.0, stored(1, 2), RemovedEvent([2])),  # a copy of 2 stays
        batch(3.0, stored(2, parent=1)),
        batch(20.0, RemovedEvent([2, 2]), stored(2, parent=1)),
    )
    assert made.num_copies == 2
    assert [tokens for _, tokens in prompts(made)] == [[10, 10, 20, 20]] * 2


def test_what_is_not_known_is_counted_and_left_out() -> None:
    made = derived(
        batch(1.0, stored(7, parent=6)),
        batch(2.0, stored(8, parent=7)),
        batch(3.0, StoredEvent([9], None, [1], 2)),  # half of its tokens
        batch(4.0, stored(10, extra_keys=[["image"]])),
        batch(5.0, StoredEvent([11], None, [-1, 2**32], 2)),
        batch(6.0, stored(12, parent=10)),
    )
    assert made.requests() == []
    assert made.counts() == {
        "requests": 0, "copies": 0, "without_beginning": 3, "unreadable": 3, "block_sizes": [2]
    }  # fmt: skip


def test_snapshots_are_known_and_are_no_requests() -> None:
    made = derived(
        batch(1.0, stored(1), origin="snapshot"), batch(2.0, stored(2, parent=1)), batch(3.0, stored(5), reset=True),
        batch(3.5, stored(3, parent=1)),
    )  # fmt: skip
    assert [tokens for _, tokens in prompts(made)] == [[10, 10, 20, 20], [50, 50]]
    assert made.num_without_beginning == 1


def test_sources_are_apart_and_cleared_is_forgotten() -> None:
    made = derived(
        batch(1.0, stored(1)),
        batch(1.1, stored(2, parent=1), source=OTHER),
        batch(1.2, ClearedEvent(), stored(3, parent=1)),
    )
    assert [tokens for _, tokens in prompts(made)] == [[10, 10]]
    assert made.num_without_beginning == 2


def test_a_circle_of_a_liar_ends() -> None:
    made = derived(batch(1.0, stored(1, parent=2), stored(2, parent=1)), batch(99.0, stored(3, parent=2)))
    assert made.requests() == []


def test_the_words_name_the_block_sizes_that_there_were() -> None:
    left_out = (
        "left out: 0 copies, 0 without their beginning, 0 unreadable\n"
        "prompts that were found whole are not in it: its hit rate is too low for the traffic"
    )
    assert derived().words("t.jsonl") == f"0 requests in t.jsonl; {left_out}"
    one = derived(batch(1.0, stored(1)))
    assert one.words("t.jsonl") == f"1 requests in t.jsonl, in blocks of 2 tokens; {left_out}"


def test_adapters_and_sessions_are_written() -> None:
    named = MapStoredEvent([1], None, [1, 1], 2, 4, None, "poet", [["poet"]], session_id="s")
    made = derived(batch(1.0, named), batch(2.0, stored(2, lora_id=7)))
    file = io.BytesIO()
    made.write(file)
    assert [json.loads(line) for line in file.getvalue().splitlines()] == [
        {"timestamp": 0.0, "session_id": "s", "lora": "poet", "token_ids": [1, 1]},
        {"timestamp": 1000.0, "lora": "adapter 7", "token_ids": [20, 20]},
    ]


def test_the_adapter_may_be_tagged_in_the_extra_keys() -> None:
    plain = stored(1, lora_name="poet", extra_keys=[["poet"]])
    tagged = stored(2, lora_name="poet", extra_keys=[[["lora", "poet"]]])
    image = stored(3, lora_name="poet", extra_keys=[[["lora", "poet"], ["mm", "cat", 0]]])
    made = derived(batch(1.0, plain), batch(2.0, tagged), batch(3.0, image))
    assert [(request.token_ids, request.lora) for request in made.requests()] == [
        ([10, 10], "poet"),
        ([20, 20], "poet"),
    ]
    assert made.num_unreadable == 1


@pytest.mark.parametrize(
    "batches",
    [
        [batch(-1.7e308, stored(1)), batch(1.7e308, stored(2))],  # times that no clock tells
        [batch(0.0, stored(1)), batch(1e300, stored(2))],
        [batch(0.0, stored(1, lora_name=""))],
    ],
)
def test_whatever_was_recorded_the_trace_can_be_read(batches: list[RecordedBatch], tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    with path.open("wb") as file:
        derived(*batches).write(file)
    assert len(list(TraceReader(path, block_size=2))) == len(batches)

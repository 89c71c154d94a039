"""Timestamps that go back: one error that names both places, or sorting."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockpool import ArgumentError, ConfigError, TraceError
from blockpool.replay import PlanSettings, ReplaySettings, curve, load_model_shape, plan_capacity, replay
from blockpool.trace import TraceReader, TraceRequest, count_requests

Play = Callable[[Any, ReplaySettings], object]

PLAYERS: list[Any] = [
    pytest.param(lambda trace, settings: replay(trace, 9, settings), id="replay"),
    pytest.param(lambda trace, settings: curve(trace, settings), id="curve"),
    pytest.param(
        lambda trace, settings: plan_capacity(
            trace, load_model_shape("llama-3-8b"), PlanSettings(gpu_memory=10**9), settings
        ),
        id="plan",
    ),
]


def request(timestamp_ms: float | None, block_id: int) -> TraceRequest:
    return TraceRequest(timestamp_ms, 16, 16, block_ids=[block_id])


def file_of(folder: Path, times: Iterable[float | None], *, bad_line: str = "") -> Path:
    """A trace whose block ids tell the lines apart, with a bad first line if one is given."""
    lines = [bad_line] if bad_line else []
    for number, time in enumerate(times):
        line = {"timestamp": time, "input_length": 16, "hash_ids": [number], "block_size": 16}
        lines.append(json.dumps(line))
    path = folder / "t"
    path.write_text("\n".join(lines), encoding="ascii")
    return path


def ids(requests: Iterable[TraceRequest]) -> list[int]:
    return [request.block_ids[0] for request in requests if request.block_ids]


def test_a_line_that_goes_back(tmp_path: Path) -> None:
    reader = TraceReader(file_of(tmp_path, [1, 9, 9, 5, 20]))
    requests = iter(reader)
    assert ids([next(requests) for _ in range(3)]) == [0, 1, 2]
    with pytest.raises(TraceError) as caught:
        next(requests)
    assert str(caught.value) == (
        f"{tmp_path / 't'}:4: timestamp 5 ms comes before 9 ms of line 3; --sort (in Python: sort=True) plays by time"
    )


def test_it_is_not_a_bad_line(tmp_path: Path) -> None:
    path = file_of(tmp_path, [9.5, 9.25], bad_line="{}")
    with pytest.raises(TraceError, match=r":3: timestamp 9\.25 ms comes before 9\.5 ms of line 2"):
        count_requests(TraceReader(path, skip_bad=True))


def test_sorting_is_stable_and_knows_the_lines(tmp_path: Path) -> None:
    reader = TraceReader(file_of(tmp_path, [3, 1, 2, 1, 3], bad_line="{}"), skip_bad=True, sort=True)
    seen = [(request.timestamp_ms, *ids([request]), reader.line) for request in reader]
    assert seen == [(1, 1, 3), (1, 3, 5), (2, 2, 4), (3, 0, 2), (3, 4, 6)]
    assert (reader.requests, reader.bad_lines, reader.format) == (5, 1, "kvcache-simulator")
    assert reader.fraction_read() == 1.0
    assert count_requests(reader) == 5


def test_progress_of_a_sorted_trace_is_what_was_handed_out(tmp_path: Path) -> None:
    reader = TraceReader(file_of(tmp_path, [3, 1, 2, 1]), sort=True)
    assert [reader.fraction_read() for _ in reader] == [0.25, 0.5, 0.75, 1.0]


def test_nothing_to_sort_by(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no timestamps to sort by"):
        count_requests(TraceReader(file_of(tmp_path, [None, None]), sort=True))
    (tmp_path / "t").write_bytes(b"")
    with pytest.raises(TraceError, match="no requests"):
        count_requests(TraceReader(tmp_path / "t", sort=True))
    with pytest.raises(ArgumentError, match="sort"):
        TraceReader("demo", sort=1)  # type: ignore[arg-type]


def test_sorting_standard_input(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    data = file_of(tmp_path, [2, 1]).read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert ids(TraceReader("-", sort=True)) == [1, 0]


@pytest.mark.parametrize("window", ["all", "last-half"])
@pytest.mark.parametrize("play", PLAYERS)
class TestEveryPlayer:
    def test_goes_by_the_order_of_the_file(self, tmp_path: Path, play: Play, window: str) -> None:
        path = file_of(tmp_path, [1, 9, 5])
        for settings in (ReplaySettings(window=window), ReplaySettings(window=window, skip_bad=True)):
            with pytest.raises(TraceError, match=":3: timestamp 5 ms comes before 9 ms of line 2"):
                play(path, settings)

    def test_goes_by_the_order_of_requests(self, play: Play, window: str) -> None:
        settings = ReplaySettings(window=window)
        with pytest.raises(TraceError, match="<requests>:3: timestamp 5 ms comes before 9 ms of request 2"):
            play([request(1, 1), request(9, 2), request(5, 3)], settings)
        with pytest.raises(TraceError, match="<requests>:2: timestamp missing"):
            play([request(1, 1), request(None, 2)], settings)
        with pytest.raises(TraceError, match="<requests>:2: timestamp, but none before"):
            play([request(None, 1), request(1, 2)], settings)

    def test_refuses_to_sort_without_times(self, tmp_path: Path, play: Play, window: str) -> None:
        settings = ReplaySettings(window=window, sort=True)
        for trace in (file_of(tmp_path, [None] * 3), [request(None, 1), request(None, 2)]):
            with pytest.raises(ConfigError, match="no timestamps to sort by"):
                play(trace, settings)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), min_size=1, max_size=30))
def test_sorted_play_is_play_of_what_was_sorted(drawn: list[tuple[int, int]]) -> None:
    requests = [request(time, block_id) for time, block_id in drawn]
    in_order = sorted(requests, key=lambda one: one.timestamp_ms or 0)
    results = [
        replay(trace, 2, settings, perf_counter=lambda: 0.0)
        for trace, settings in ((requests, ReplaySettings(sort=True)), (in_order, ReplaySettings()))
    ]
    assert results[0] == results[1]
    assert curve(requests, ReplaySettings(sort=True), perf_counter=lambda: 0.0).at(3) == curve(
        in_order, perf_counter=lambda: 0.0
    ).at(3)


def test_a_reader_from_python_is_sorted_when_the_settings_say_so(tmp_path: Path) -> None:
    reader = TraceReader(file_of(tmp_path, [9, 5]))
    with pytest.raises(TraceError, match="t:2: timestamp 5 ms comes before 9 ms of line 1"):
        replay(reader, 2)
    assert replay(reader, 2, ReplaySettings(sort=True)).counts.requests == 2

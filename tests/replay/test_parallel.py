"""replay_many: the same results as one by one, one clear error, and standard input read once."""

from __future__ import annotations

import io
import json
import multiprocessing
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from blockpool import BlockPoolError, ConfigError, TraceError
from blockpool.replay import ReplaySettings, replay, replay_many

SIZES = [900, 500, 2_000]


class DeadlyPath:
    """A path that kills every process but the one that made it."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __fspath__(self) -> str:
        if multiprocessing.parent_process() is not None:
            os._exit(9)
        return self.path


def test_equal_to_one_by_one_in_the_given_order(small_demo: Path) -> None:
    settings = ReplaySettings(window="last-half")
    finished: list[int] = []
    results = replay_many(small_demo, SIZES, settings, jobs=2, finished=finished.append)
    assert finished == [1, 2, 3]
    for size, result in zip(SIZES, results, strict=True):
        assert replace(result, seconds=0.0) == replace(replay(small_demo, size, settings), seconds=0.0)


def test_in_this_process(small_demo: Path) -> None:
    finished: list[int] = []
    results = replay_many(small_demo, SIZES, jobs=1, finished=finished.append)
    assert [result.blocks for result in results] == SIZES
    assert finished == [1, 2, 3]


@pytest.mark.parametrize("jobs", [1, 2])
def test_standard_input_is_read_once(monkeypatch: pytest.MonkeyPatch, jobs: int) -> None:
    lines = "\n".join(json.dumps({"token_ids": [number // 2] * 16}) for number in range(4))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines.encode())))
    results = replay_many("-", [5, 6], jobs=jobs)
    assert [result.counts.hit_blocks for result in results] == [2, 2]


@pytest.mark.parametrize("jobs", [1, 2])
def test_errors_name_the_trace_not_the_copy(monkeypatch: pytest.MonkeyPatch, jobs: int) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\n{")))
    with pytest.raises(TraceError, match="<stdin>:2: not JSON"):
        replay_many("-", [5, 6], jobs=jobs)


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this platform has no named pipes")
def test_a_pipe_is_spooled_as_well(tmp_path: Path, jobs: int) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = multiprocessing.get_context("spawn").Process(target=_write_line, args=(str(path),))
    writer.start()
    try:
        assert [result.counts.requests for result in replay_many(path, [5, 6], jobs=jobs)] == [1, 1]
    finally:
        writer.join()


def _write_line(path: str) -> None:
    Path(path).write_text('{"token_ids":[1]}\n', encoding="ascii")


def test_the_error_of_a_process_is_the_one_error(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_text('{"token_ids":[1]}\n{"token_ids":[]}\n', encoding="ascii")
    with pytest.raises(TraceError) as caught:
        replay_many(path, SIZES, jobs=2)
    assert (caught.value.path, caught.value.line) == (str(path), 2)
    with pytest.raises(FileNotFoundError):
        replay_many(tmp_path / "nothing", SIZES, jobs=2)
    assert not multiprocessing.active_children()


def test_a_process_that_dies(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_text('{"token_ids":[1]}\n', encoding="ascii")
    with pytest.raises(BlockPoolError, match="out of memory, or a script that calls replay_many without"):
        replay_many(DeadlyPath(str(path)), SIZES, jobs=2)  # type: ignore[arg-type]


@pytest.mark.parametrize("sizes", [[], [5, 0]])
def test_bad_sizes(sizes: list[int]) -> None:
    with pytest.raises(ConfigError):
        replay_many("demo", sizes)

"""replay(): windows, progress, speed figures, and memory that does not follow the trace."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from pathlib import Path

import pytest

from blockpool import ConfigError, InvariantError, TraceError
from blockpool.replay import PoolRun, ReplaySettings, replay
from blockpool.trace import TraceReader, TraceRequest, generate, open_trace_for_writing, write_trace


def request(*ids: int) -> TraceRequest:
    return TraceRequest(None, 16 * len(ids), 16, block_ids=list(ids))


def test_repeats_exactly() -> None:
    for rules in ("trace", "engine"):
        results = [
            replay("demo", 900, ReplaySettings(rules=rules, sample_rate=0.1), perf_counter=lambda: 0.0)
            for _ in range(2)
        ]
        assert results[0] == results[1]
        assert results[0].residency.lifetime.samples > 1000


def test_requests_from_python_equal_the_file() -> None:
    from_file = replay("demo", 900, perf_counter=lambda: 0.0)
    from_python = replay(TraceReader("demo"), 900, perf_counter=lambda: 0.0)
    assert from_file.trace_format == "kvcache-simulator"
    assert from_python.trace_format is None
    assert from_file.counts == from_python.counts
    assert from_file.occupancy_points == from_python.occupancy_points


@pytest.mark.parametrize("num_requests", [1, 2, 5, 6])
def test_the_last_half_begins_at_n_over_2_with_a_warm_pool(num_requests: int) -> None:
    requests = [request(7) for _ in range(num_requests)]
    counts = replay(requests, 3, ReplaySettings(window="last-half")).counts
    measured = num_requests - num_requests // 2
    assert (counts.requests, counts.prompt_blocks) == (measured, measured)
    assert counts.hit_blocks == (measured if num_requests > 1 else 0)


def test_the_last_half_counts_good_lines_only(tmp_path: Path) -> None:
    good = [json.dumps({"token_ids": [number] * 16}) for number in range(4)]
    path = tmp_path / "t"
    path.write_text("\n".join(["{}", "{}", "{}", *good]), encoding="utf-8")
    result = replay(path, 5, ReplaySettings(window="last-half", skip_bad=True))
    assert (result.counts.requests, result.played_requests, result.bad_lines) == (2, 4, 3)


def test_evictions_and_residency_of_the_window_only() -> None:
    requests = [request(number) for number in range(20)]
    result = replay(requests, 4, ReplaySettings(window="last-half"))
    assert result.counts.evictions == 10
    assert result.residency.lifetime.samples == 10
    assert result.occupancy_points[0].request == 10


def test_the_last_half_of_what_has_no_length() -> None:
    with pytest.raises(ConfigError, match="window"):
        replay(iter([request(1)]), 5, ReplaySettings(window="last-half"))


def test_no_request_that_fits() -> None:
    result = replay([request(*range(9))], 5)
    assert result.counts.token_hit_rate == result.counts.block_hit_rate == result.blocks_per_second == 0.0
    assert result.occupancy_means is None


def test_speed_is_wall_time_of_the_loop() -> None:
    ticks = iter([10.0, 12.0])
    result = replay(
        [request(1, 2), request(1, 2, 3), request(*range(9))], 5, perf_counter=lambda: next(ticks)
    )
    assert result.seconds == 2.0
    assert (result.played_requests, result.requests_per_second) == (2, 1.0)
    assert (result.played_blocks, result.blocks_per_second) == (5, 2.5)


def test_progress_is_told() -> None:
    seen: list[float | None] = []
    replay("demo", 900, progress=seen.append)
    assert len(seen) == 16
    assert all(value is not None and 0 < value <= 1 for value in seen)
    unknown: list[float | None] = []
    replay([request(1)], 900, progress=unknown.append)
    assert unknown == [None]


@pytest.mark.parametrize("blocks", [0, -1, 100_000_001])
def test_pool_sizes_out_of_range(blocks: int) -> None:
    with pytest.raises(ConfigError, match="blocks"):
        replay("demo", blocks)


@pytest.mark.parametrize(
    "wrong",
    [
        {"rules": "house"},
        {"window": "first-half"},
        {"hash_algorithm": "md5"},
        {"check_every": -1},
        {"block_size": 0},
        {"sample_rate": 0.0},
        {"sample_rate": 1.5},
        {"sample_rate": float("nan")},
    ],
)
def test_settings_are_checked(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError) as caught:
        ReplaySettings(**wrong)  # type: ignore[arg-type]
    assert caught.value.field in wrong


def test_the_pool_is_checked_as_often_as_asked() -> None:
    for check_every, failing in ((0, None), (1, 1), (3, 3)):
        run = PoolRun(5, ReplaySettings(check_every=check_every))
        run.pool.blocks[5].ref_cnt = -7
        for number in range(1, 6):
            if number == failing:
                with pytest.raises(InvariantError):
                    run.play(request(1))
                break
            run.play(request(1))


def test_a_bad_line_stops_the_replay(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_text('{"token_ids":[1]}\n{"token_ids":[-1]}\n', encoding="utf-8")
    for window in ("all", "last-half"):
        with pytest.raises(TraceError, match=":2: "):
            replay(path, 5, ReplaySettings(window=window))


def long_trace(path: Path, num_requests: int) -> Path:
    with gzip.open(path, "wt", encoding="ascii") as file:
        for number in range(num_requests):
            ids = list(range(number * 10, number * 10 + 20))
            fields = {"timestamp": number, "input_length": 20 * 512, "output_length": 3, "hash_ids": ids}
            file.write(json.dumps(fields) + "\n")
    return path


def peak_memory(path: Path, settings: ReplaySettings) -> int:
    tracemalloc.start()
    try:
        replay(path, 300, settings)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("window", ["all", "last-half"])
def test_memory_follows_the_pool_not_the_trace(tmp_path: Path, window: str) -> None:
    settings = ReplaySettings(window=window)
    short = long_trace(tmp_path / "short", 200)
    long = long_trace(tmp_path / "long", 2_000)
    peak_memory(short, settings)  # what is loaded on first use
    # Slack for buffers that come and go; ten times the requests would be megabytes more.
    assert peak_memory(long, settings) < peak_memory(short, settings) + 150_000


def test_generated_requests_can_be_played_without_a_file(tmp_path: Path) -> None:
    requests = list(generate("agent", 100, seed=4))
    with open_trace_for_writing(tmp_path / "t") as file:
        write_trace(requests, file, "token-ids", block_size=16)
    settings = ReplaySettings(rules="engine")
    assert replay(requests, 3_000, settings).counts == replay(tmp_path / "t", 3_000, settings).counts


@pytest.mark.parametrize(
    "algorithm", ["sha256", "sha256_cbor", "xxhash", "xxhash_cbor", "blake2b_raw", "xxh3_raw"]
)
def test_counts_do_not_depend_on_the_hash(algorithm: str) -> None:
    if algorithm.startswith("xxh"):
        pytest.importorskip("xxhash", reason="xxhash is not installed")
    requests = list(generate("documents", 60, seed=4))
    expected = replay(requests, 3_000, ReplaySettings(rules="engine")).counts
    assert (
        replay(requests, 3_000, ReplaySettings(rules="engine", hash_algorithm=algorithm)).counts == expected
    )

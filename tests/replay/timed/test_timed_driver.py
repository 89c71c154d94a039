"""replay_timed: the bundled trace, windows, determinism, and what goes wrong."""

from __future__ import annotations

import gzip
import itertools
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from blockpool import ArgumentError, BlockPoolError, ConfigError, InvariantError, TraceError
from blockpool.replay import (
    ReplaySettings,
    TimedResult,
    TimedSettings,
    replay,
    replay_timed,
    replay_timed_many,
)
from blockpool.replay.timed import timed_driver
from blockpool.trace import TraceReader, TraceRequest, generate
from blockpool.trace.demo import demo_requests


def timed(trace: Any, blocks: int, settings: ReplaySettings | None = None, **fields: Any) -> TimedResult:
    return replay_timed(trace, blocks, TimedSettings(**fields), settings, perf_counter=lambda: 0.0)


SMALL = 100  # requests of `small_demo`


def far_apart(requests: Iterator[TraceRequest]) -> list[TraceRequest]:
    return [replace(request, timestamp_ms=number * 10**6) for number, request in enumerate(requests)]


def first_of_demo(count: int) -> list[TraceRequest]:
    return list(itertools.islice(TraceReader("demo"), count))


# --- the bundled trace


# blocks: hit blocks, hit tokens, evictions, preemptions, found again, recomputed, steps. With engine rules and
# the default engine; the numbers of this implementation, so that a change of them is seen.
DEMO = {
    1_500: (75_841, 1_213_456, 69_854, 119, 271_216, 15_692, 12_805),
    3_000: (107_652, 1_722_432, 35_978, 1, 1_952, 117, 12_853),
}


@pytest.mark.parametrize("blocks", [1_500, 3_000])
def test_golden_counts(blocks: int) -> None:
    result = timed("demo", blocks)
    counts, preemption = result.counts, result.preemption
    assert (
        counts.hit_blocks,
        counts.hit_tokens,
        counts.evictions,
        preemption.preemptions,
        preemption.resumed_hit_tokens,
        preemption.recomputed_tokens,
        result.steps,
    ) == DEMO[blocks]
    assert (counts.requests, counts.refused, counts.prompt_blocks) == (1_000, 0, 147_206)


@pytest.mark.parametrize("rules", ["trace", "engine"])
def test_the_demo_one_at_a_time_is_replay(rules: str) -> None:
    """With its tokens, so that outputs are in both."""
    requests = far_apart(itertools.islice(demo_requests(), 400))
    settings = ReplaySettings(rules=rules)
    result = timed(requests, 1_500, settings, max_running=1, max_batched_tokens=1_000)
    assert result.counts == replay(requests, 1_500, settings).counts == result.sequential
    assert result.preemption.preemptions == 0
    assert result.queueing.p99 == 0.0


def test_held_blocks_lower_the_hit_rate() -> None:
    requests = first_of_demo(400)
    sequential = replay(requests, 1_500, ReplaySettings(rules="engine")).counts
    result = timed(requests, 1_500)
    assert result.sequential == sequential
    assert result.counts.token_hit_rate < 0.9 * sequential.token_hit_rate
    # The slower the requests go, the more of them hold blocks.
    faster = timed(requests, 1_500, decode_rate=400.0)
    assert result.counts.hit_tokens < faster.counts.hit_tokens <= sequential.hit_tokens
    assert faster.running_mean < result.running_mean


def test_a_compressed_trace_waits_longer() -> None:
    requests = first_of_demo(300)
    slow, fast = (timed(requests, 1_500, speed=speed) for speed in (0.25, 2))
    assert (slow.queueing.p99 or 0) < (fast.queueing.p99 or 0)
    assert slow.counts.hit_tokens > fast.counts.hit_tokens
    assert slow.makespan == pytest.approx(4 * (requests[-1].timestamp_ms or 0) / 1000, rel=0.05)
    assert fast.makespan < slow.makespan / 4


def test_requests_from_python_equal_the_file(small_demo: Path) -> None:
    from_file, from_python = timed(small_demo, 900), timed(first_of_demo(SMALL), 900)
    assert replace(from_file, trace_format=None) == from_python
    assert from_file.trace_format == "kvcache-simulator"


def test_equal_seeds_give_equal_results() -> None:
    requests = [replace(request, timestamp_ms=None) for request in first_of_demo(100)]
    drawn = [timed(requests, 1_500, arrival_rate=2.5, seed=seed) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1]
    assert drawn[0].queueing != drawn[2].queueing


def test_progress_is_told(small_demo: Path) -> None:
    seen: list[float | None] = []
    replay_timed(small_demo, 900, progress=seen.append)
    assert len(seen) >= SMALL // 64
    assert seen == sorted(seen, key=lambda fraction: fraction or 0)


# --- the window


def test_the_last_half_is_measured_from_a_warm_pool() -> None:
    requests = first_of_demo(200)
    whole, half = (
        timed(requests, 3_000, ReplaySettings(rules="engine", window=window))
        for window in ("all", "last-half")
    )
    assert (half.counts.requests, half.played_requests) == (100, 200)
    assert half.queueing.samples == half.first_token.samples == 100
    assert 0 < half.makespan < whole.makespan
    assert half.occupancy_points[0].request == 100
    assert half.occupancy_points[0].cached_idle > 0
    assert (
        half.sequential == replay(requests, 3_000, ReplaySettings(rules="engine", window="last-half")).counts
    )


# --- several sizes


@pytest.mark.parametrize("jobs", [1, 2])
def test_several_sizes(jobs: int, small_demo: Path) -> None:
    done: list[int] = []
    found = replay_timed_many(small_demo, [3_000, 900], TimedSettings(), jobs=jobs, finished=done.append)
    assert done == [1, 2]
    assert [replace(result, seconds=0.0) for result in found] == [
        timed(small_demo, 3_000),
        timed(small_demo, 900),
    ]


# --- what goes wrong


def test_all_requests_are_refused() -> None:
    requests = [TraceRequest(time, 64, 16, block_ids=[1, 2, 3, 4]) for time in (1, 5)]
    result = timed(requests, 3)
    assert (result.counts.requests, result.counts.refused, result.counts.largest_refused_blocks) == (2, 2, 4)
    assert (result.steps, result.running_max, result.played_requests) == (0, 0, 0)
    assert result.queueing.median is None


def test_prompt_and_output_must_fit_together() -> None:
    # 32 + 17 - 1 tokens fill 3 blocks, one more needs a fourth.
    requests = [TraceRequest(0, 32, 16, block_ids=[1, 2], output_tokens=tokens) for tokens in (17, 18)]
    assert timed(requests, 3).counts.refused == 1
    assert timed(requests, 3).counts.largest_refused_blocks == 4
    assert timed(requests, 3, ReplaySettings(rules="trace")).counts.refused == 0


def test_times_that_are_missing_or_go_back(tmp_path: Path) -> None:
    bare = [TraceRequest(None, 16, 16, block_ids=[1])]
    with pytest.raises(ConfigError, match="arrival_rate"):
        timed(bare, 5)
    with pytest.raises(ConfigError, match="speed"):
        timed(bare, 5, speed=2)
    back = [TraceRequest(time, 16, 16, block_ids=[time]) for time in (9, 5)]
    with pytest.raises(TraceError, match="<requests>:2: timestamp 5 ms comes before 9 ms of request 1"):
        timed(back, 5)
    result = timed(back, 5, ReplaySettings(rules="engine", sort=True))
    assert result.counts.requests == 2
    path = tmp_path / "t"
    path.write_text(
        "\n".join(json.dumps({"timestamp": time, "token_ids": [1]}) for time in (9, 5)), encoding="ascii"
    )
    for settings in (None, ReplaySettings(rules="engine", skip_bad=True)):
        with pytest.raises(TraceError, match="t:2: timestamp 5 ms comes before 9 ms of line 1"):
            timed(path, 5, settings)


def test_a_fault_in_the_middle_of_a_trace(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_text('{"timestamp":0,"token_ids":[1]}\n{"timestamp":0,"token_ids":[]}\n', encoding="ascii")
    with pytest.raises(TraceError, match="t:2: token_ids is empty"):
        timed(path, 5)
    assert timed(path, 5, ReplaySettings(rules="engine", skip_bad=True)).bad_lines == 1
    path.write_bytes(gzip.compress(b'{"timestamp":0,"token_ids":[1]}\n' * 9)[:-4])
    with pytest.raises(TraceError, match="ends in the middle"):
        timed(path, 5)


@pytest.mark.parametrize(
    "call",
    [
        lambda: replay_timed([], 5),
        lambda: replay_timed("demo", 0),
        lambda: replay_timed(5, 5),  # type: ignore[arg-type]
        lambda: replay_timed("demo", 5, 5),  # type: ignore[arg-type]
        lambda: replay_timed("demo", 5, None, 5),  # type: ignore[arg-type]
        lambda: replay_timed([5], 5),  # type: ignore[list-item]
        lambda: replay_timed(
            iter(generate("chat", 2)), 900, None, ReplaySettings(rules="engine", window="last-half")
        ),
        lambda: replay_timed_many("demo", []),
        lambda: replay_timed_many([], [5]),  # type: ignore[arg-type]
        lambda: replay_timed_many("demo", [5], jobs=0),
    ],
)
def test_bad_calls(call: Any) -> None:
    with pytest.raises((ArgumentError, ConfigError, TraceError)):
        call()


def test_invariants_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody writes to the insides of the pool while requests run."""
    scheduler_class = timed_driver.Scheduler

    class Meddling(scheduler_class):  # type: ignore[misc, valid-type]
        def step(self) -> bool:
            more: bool = super().step()
            if self.taken == 20:
                self.pool.blocks[5].ref_cnt += 1
            return more

    monkeypatch.setattr(timed_driver, "Scheduler", Meddling)
    with pytest.raises(BlockPoolError) as caught:
        timed(first_of_demo(60), 900, ReplaySettings(rules="engine", check_every=7))
    assert isinstance(caught.value, InvariantError)


def test_checking_changes_nothing() -> None:
    requests = first_of_demo(60)
    assert timed(requests, 900) == timed(requests, 900, ReplaySettings(rules="engine", check_every=5))

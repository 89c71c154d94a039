"""Prompts of so many tokens that nobody could play their steps one by one."""

from __future__ import annotations

from blockpool.replay import ReplaySettings, TimedSettings, WindowCounts
from blockpool.replay.timed.arrivals import Arrivals
from blockpool.replay.timed.scheduler import Scheduler
from blockpool.trace import TraceRequest

from .test_scheduler import PREFILL_NS, RATES


def test_a_prompt_of_two_billion_tokens_in_chunks_of_one() -> None:
    """As many steps as it has tokens; taken together they are few."""
    size = 2**30
    request = TraceRequest(0, 2 * size, size, block_ids=[1, 2], output_tokens=1)
    scheduler = Scheduler(
        Arrivals(iter([request]), TimedSettings(max_running=1, max_batched_tokens=1, **RATES)),
        2,
        TimedSettings(max_running=1, max_batched_tokens=1, **RATES),
        ReplaySettings(rules="engine"),
    )
    played = 0
    while scheduler.step():
        played += 1
        assert played < 20
    result = scheduler.statistics.result(WindowCounts(), 0.0)
    assert (result.steps, result.makespan) == (2 * size, 2 * size * PREFILL_NS / 1e9)

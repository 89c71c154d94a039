"""Generated traces against the PyPI package kvcache-simulator, which is not ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from blockpool.replay import ReplaySettings, replay
from blockpool.trace import WORKLOAD_KINDS, TraceReader, generate, open_trace_for_writing, write_trace

kvcache_sim = pytest.importorskip("kvcache_sim", reason="kvcache-simulator is not installed")

NUM_REQUESTS = 300


@pytest.mark.parametrize(("block_size", "seed"), [(16, 1), (128, 2), (512, 3)])
@pytest.mark.parametrize("kind", WORKLOAD_KINDS)
def test_generated_traces(tmp_path: Path, kind: str, block_size: int, seed: int) -> None:
    from kvcache_sim.plan import build_execution_plan
    from kvcache_sim.policies import simulate_policy
    from kvcache_sim.trace import parse_trace_file

    path = tmp_path / "trace.jsonl"
    with open_trace_for_writing(path) as file:
        write_trace(generate(kind, NUM_REQUESTS, seed=seed), file, "mooncake", block_size=block_size)
    requests = list(TraceReader(path))
    plan = build_execution_plan(parse_trace_file(path, block_size=block_size), warmup_fraction=0.5)
    smallest = max(request.num_prompt_blocks for request in requests)
    distinct_in_warm_up = len(
        {i for request in requests[: NUM_REQUESTS // 2] for i in request.block_ids or []}
    )
    # Its numbers are for caches that are full before the measured half begins.
    compared = 0
    for blocks in sorted({smallest + (distinct_in_warm_up - smallest) * step // 6 for step in range(7)}):
        expected = simulate_policy(plan, "lru", blocks)
        if expected.measurementMode == "underfilled_at_window":
            continue
        counts = replay(path, blocks, ReplaySettings(window="last-half", check_every=50)).counts
        assert (blocks, counts.hit_tokens) == (blocks, expected.hitTokens)
        assert counts.prompt_tokens == expected.totalTokens
        compared += 1
    assert compared >= 5

"""Exact counts on public traces that others have measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from blockpool import COMPILED
from blockpool.replay import ReplaySettings, replay
from blockpool.trace import TraceReader, TraceRequest

CONVERSATION = {
    256: (12_092, 6_190_664),
    1_000: (12_847, 6_575_459),
    4_000: (24_964, 12_772_896),
    10_000: (61_046, 31_238_981),
    30_000: (93_978, 48_093_740),
    100_000: (104_924, 53_695_979),
    200_000: (105_710, 54_098_411),
}
# Every so many of the 100 capacities: the interpreted pool is slow, and the curve has all of them on both builds.
RAGPULSE_STEP = 1 if COMPILED else 4
RAGPULSE_PARTS = 4  # that spread over the workers


@pytest.mark.parametrize("blocks", CONVERSATION)
def test_conversation_trace(traces: Path, blocks: int) -> None:
    result = replay(traces / "mooncake_conversation.jsonl", blocks)
    counts = result.counts
    assert (counts.hit_blocks, counts.hit_tokens) == CONVERSATION[blocks]
    assert (counts.requests, counts.refused, counts.prompt_blocks) == (12_031, 0, 288_500)
    assert result.trace_format == "mooncake"
    assert counts.evictions == max(0, counts.prompt_blocks - counts.hit_blocks - blocks)


@pytest.fixture(scope="module")
def ragpulse(traces: Path) -> list[TraceRequest]:
    return list(TraceReader(traces / "ragpulse_chained.jsonl"))


@pytest.mark.parametrize("part", range(RAGPULSE_PARTS))
def test_ragpulse_equals_the_published_results(traces: Path, ragpulse: list[TraceRequest], part: int) -> None:
    published = json.loads((traces / "ragpulse_published_lru.json").read_text(encoding="utf-8"))
    hit_tokens = published["lru_hit_tokens_by_capacity_blocks"]
    assert len(hit_tokens) == 100
    # Residency has tests of its own; following almost nothing makes these runs faster.
    settings = ReplaySettings(window="last-half", sample_rate=1e-9)
    for blocks in list(hit_tokens)[::RAGPULSE_STEP][part::RAGPULSE_PARTS]:
        counts = replay(ragpulse, int(blocks), settings).counts
        assert (blocks, counts.hit_tokens) == (blocks, hit_tokens[blocks])
        assert counts.prompt_tokens == published["measured_tokens"]
        assert (counts.requests, counts.refused) == (3_553, 0)

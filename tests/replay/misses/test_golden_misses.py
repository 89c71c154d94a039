"""Sums on the bundled and on a public trace."""

from __future__ import annotations

from pathlib import Path

import pytest

from blockpool.replay import ReplaySettings, replay

DEMO = {
    "trace": {"never seen": (1_730, 27_224), "differs": (20_034, 313_436), "evicted": (25_529, 408_464)},
    "engine": {
        "never seen": (16_389, 262_224),
        "differs": (4_434, 70_944),
        "evicted": (25_529, 408_464),
        "partial block": (941, 7_492),
    },
}
CONVERSATION = {
    "trace": {
        "never seen": (47, 21_291),
        "differs": (182_743, 90_674_121),
        "evicted": (44_664, 22_859_430),
    },
    "engine": {
        "never seen": (12_307, 6_301_184),
        "differs": (158_592, 81_199_104),
        "evicted": (44_621, 22_845_952),
        "partial block": (12_009, 3_230_431),
    },
}


@pytest.mark.parametrize("rules", DEMO)
def test_demo_trace(rules: str) -> None:
    misses = replay("demo", 2_000, ReplaySettings(rules=rules, explain=True)).misses
    assert misses is not None
    assert {row.reason: row[1:] for row in misses.reasons if row.blocks} == DEMO[rules]
    assert (misses.tag, misses.num_tags, misses.cases[0].line) == ("session_id", 261, 996)
    assert (misses.cases[0].tag, misses.cases[0].blocks_too_few) == ("agent-237", 454)


@pytest.mark.parametrize("rules", CONVERSATION)
def test_conversation_trace(traces: Path, rules: str) -> None:
    """Under trace rules, what was evicted is the hits of a pool without end less those of this one."""
    settings = ReplaySettings(rules=rules, explain=True, sample_rate=1e-9)
    result = replay(traces / "mooncake_conversation.jsonl", 10_000, settings)
    assert result.misses is not None
    assert {row.reason: row[1:] for row in result.misses.reasons if row.blocks} == CONVERSATION[rules]
    if rules == "trace":
        endless = (105_710, 54_098_411)
        evicted = (endless[0] - result.counts.hit_blocks, endless[1] - result.counts.hit_tokens)
        assert evicted == CONVERSATION[rules]["evicted"]

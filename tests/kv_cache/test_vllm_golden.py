"""What vLLM 0.16.0's KVCacheManager did in some random workloads, in integers: ours does it too, with no vLLM at hand.

After ``make test-vllm``, this writes them anew, from vLLM imported whole::

    PYTHONPATH=.build/with-vllm-interpreted .build/vllm/bin/python -m tests.kv_cache.test_vllm_golden
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.manager_sides import Side, our_side, their_side
from tests.kv_cache.diary import Scenario
from tests.kv_cache.random_scheduler import play
from tests.kv_cache.scenarios import SCENARIOS

GOLDEN = Path(__file__).with_name("vllm_golden.json")
SEED = 16
STEPS = 300
NAMES = (
    "full", "full-drafts", "full-eagle", "full-external", "full-off", "sliding-9", "sliding-external", "chunked",
    "full+sliding", "full-8+sliding-12", "full+sliding+sliding", "full+mamba-all", "full+mamba-align-drafts",
    "full+cross", "sink+sliding",
)  # fmt: skip


def numbers(side: Side) -> dict[str, dict[str, int]]:
    """Every chosen scenario on that side."""
    chosen = [scenario for scenario in SCENARIOS if scenario.name in NAMES]
    return {scenario.name: play(side, scenario, SEED, STEPS).numbers() for scenario in chosen}


@pytest.mark.parametrize("scenario", [s for s in SCENARIOS if s.name in NAMES], ids=lambda s: s.name)
def test_as_vllm_did(scenario: Scenario) -> None:
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    assert set(golden) == set(NAMES)
    assert play(our_side(), scenario, SEED, STEPS).numbers() == golden[scenario.name]


if __name__ == "__main__":
    from benchmarks.peer import load_whole

    written = json.dumps(numbers(their_side(load_whole())), indent=1)
    GOLDEN.write_text(written + "\n", encoding="utf-8")

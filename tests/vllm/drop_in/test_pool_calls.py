"""Random calls to vLLM's own pool and to ours: the same results, and the same queue, counts, hashes and events.

Also in step, as `BLOCKPOOL_VLLM=check` runs them: it must find nothing, but a call of ours that is broken.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from .conftest import HALF_AN_HOUR

pytestmark = [pytest.mark.peer, pytest.mark.timeout(HALF_AN_HOUR)]

Report = Callable[..., Any]
NUM_SEEDS = 40
NUM_CALLS = 250
ALWAYS = {
    "cache_full_blocks", "evict_blocks", "find_longest_cache_hit", "free_blocks", "get_cached_block", "get_new_blocks",
    "reset_prefix_cache", "take_events", "touch",
}  # fmt: skip
SINCE_0_32 = {
    "_insert_block_hash", "_maybe_evict_cached_block", "cache_partial_block", "emit_cached_block_events",
    "is_block_writable", "move_block_hashes", "unpin_blocks",
}  # fmt: skip
HAPPENS = {"hits", "events", "resets", "get_new_blocks: ValueError"}
HAPPENS_SINCE_0_32 = {
    "masked",
    "two hashes",
    "free_blocks, of two pools",
    "move_block_hashes: AssertionError",
}
BROKEN = {"touch: broken", "get_new_blocks, one is broken: AssertionError"}
"""Not in step: there, vLLM's own block would be broken alone."""


def expected(version: str, always: set[str], since_0_32: set[str]) -> set[str]:
    return always if version.startswith("0.16.") else always | since_0_32


@pytest.mark.parametrize("which", ["ours", "check"])
def test_the_same_after_every_call(report: Report, version: str, which: str) -> None:
    found = report("pool_calls", which, "0", str(NUM_SEEDS), str(NUM_CALLS))
    assert found["different"] == {}
    calls = expected(version, ALWAYS, SINCE_0_32)
    happened = expected(version, HAPPENS, HAPPENS_SINCE_0_32)
    happened |= expected(version, set(), BROKEN if which == "ours" else set())
    assert {name for name in calls | happened if found["seen"].get(name, 0) < 20} == set()
    assert (found["compared"] > 20_000) is (which == "check")


def test_a_fault_of_ours_is_found_and_does_no_harm(report: Report, version: str) -> None:
    found = report("planted")
    assert found.keys() == expected(version, ALWAYS | {"get_usage"}, SINCE_0_32)
    assert [name for name, told in found.items() if told is None] == []

"""Random workloads through vLLM 0.16.0's own KVCacheManager and through ours: the same, call by call.

Block ids, hit lengths, refusals, order of the free queue, counts, hashes, usage and events are compared after every
call. Where the two differ on purpose, `test_manager_differences.py` shows what each does.
"""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.manager_sides import Side
from tests.kv_cache.diary import Diary, Scenario, first_difference
from tests.kv_cache.random_scheduler import PlainRequests, play
from tests.kv_cache.scenarios import SCENARIOS, random_scenario

pytestmark = pytest.mark.peer

WHOLE_SEEDS = range(3)
WHOLE_STEPS = 400
FILES_STEPS = 200


def runs(scenario: Scenario, side: Side, requests_for: Any, whole: bool) -> list[Diary]:
    """Few runs with the files, which `make test` has; many with the whole."""
    size = scenario.setting.hash_block_size
    if not whole:
        return [play(side, scenario, 0, FILES_STEPS, requests_for(size))]
    diaries = [play(side, scenario, seed, WHOLE_STEPS, requests_for(size)) for seed in WHOLE_SEEDS]
    return [*diaries, play(side, scenario, len(WHOLE_SEEDS), WHOLE_STEPS, PlainRequests(size))]


ALL = [*SCENARIOS, *map(random_scenario, range(30))]


@pytest.mark.parametrize("scenario", ALL, ids=lambda scenario: scenario.name)
def test_same_calls_same_answers(
    scenario: Scenario, ours: Side, theirs: Side, requests_for: Any, whole: bool
) -> None:
    for our, their in zip(
        runs(scenario, ours, requests_for, whole), runs(scenario, theirs, requests_for, whole), strict=True
    ):
        difference = first_difference(our, their)
        assert difference is None, difference
        assert our.numbers() == their.numbers()
        if scenario.setting.log_stats:
            # vLLM counts a look-up, ours an admission: each is held to what it means to count.
            assert their.counted == +their.looked_up
            assert our.counted == +our.admitted


def test_a_run_is_the_same_twice(theirs: Side, requests_for: Any) -> None:
    scenario = SCENARIOS[0]
    first, second = (play(theirs, scenario, 3, FILES_STEPS, requests_for(4)) for _ in range(2))
    assert first_difference(first, second) is None
    assert first.numbers() == second.numbers()
    other = play(theirs, scenario, 4, FILES_STEPS, requests_for(4))
    assert first_difference(first, other) is not None


def test_the_workloads_do_all_that_a_scheduler_does(theirs: Side, requests_for: Any) -> None:
    """What never happens in a run proves nothing: hits, refusals, preemptions, all in most of the scenarios."""
    diaries = [
        play(theirs, scenario, 0, FILES_STEPS, requests_for(scenario.setting.hash_block_size))
        for scenario in SCENARIOS
        if scenario.setting.enable_caching
    ]
    for what in ("hit_tokens", "refused", "preempted", "finished", "events"):
        assert sum(getattr(diary, what) > 0 for diary in diaries) >= 0.6 * len(diaries), what
    calls = {entry.call[0] for diary in diaries for entry in diary.entries}
    assert calls == {
        "get_computed_blocks", "allocate_slots", "free", "cache_blocks", "evict_blocks",
        "get_num_common_prefix_blocks", "remove_skipped_blocks", "reset_prefix_cache",
    }  # fmt: skip
    resets = {e.answer for diary in diaries for e in diary.entries if e.call[0] == "reset_prefix_cache"}
    assert resets == {True, False}

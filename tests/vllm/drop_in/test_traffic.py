"""vLLM's real scheduler does the same with the drop-in as without, step by step; the pool's rules hold at every step.

Compared after every step: all of `schedule()`'s output, block ids included, what is told to the clients, the waiting
queue, the free queue, every block's hash, and the KV cache events. Prompts share prefixes, the pool is small enough to
evict and preempt, some requests have an adapter or a salt, some are aborted, and the cache is reset now and then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from .conftest import HALF_AN_HOUR
from .traffic import SETTINGS

pytestmark = [pytest.mark.peer, pytest.mark.timeout(HALF_AN_HOUR)]

Report = Callable[..., Any]
NUM_REQUESTS = 150
SOAK = 2_000


@pytest.fixture(scope="module")
def theirs(report: Report) -> Any:
    """What vLLM does by itself."""
    return report("traffic", "own", "1", str(NUM_REQUESTS))


@pytest.mark.parametrize("which", ["ours", "check"])
def test_every_step_is_the_same(report: Report, theirs: Any, which: str) -> None:
    ours = report("traffic", which, "1", str(NUM_REQUESTS))
    assert ours.keys() == theirs.keys() == SETTINGS.keys()
    for name, found in ours.items():
        assert found["pool"].startswith("blockpool.integrations.vllm.")
        assert theirs[name]["pool"] == "vllm.v1.core.block_pool.BlockPool"
        assert found["steps"] == theirs[name]["steps"], name
        assert found["seen"] == theirs[name]["seen"]
        assert found["mismatches"] == []
        assert (found["compared"] > 1000) is (which == "check")
    small = theirs["full, events"]["seen"]
    assert min(small[one] for one in ("hits", "preempted", "finished", "events", "resets")) > 0


def test_soak(report: Report) -> None:
    """Two thousand requests, and the rules of the pool after every step."""
    theirs = report("traffic", "own", "2", str(SOAK), "full, events")["full, events"]
    ours = report("traffic", "ours", "2", str(SOAK), "full, events")["full, events"]
    assert ours["pool"].startswith("blockpool.integrations.vllm.")
    assert ours["steps"] == theirs["steps"]
    assert ours["seen"] == theirs["seen"]
    assert ours["seen"]["finished"] >= SOAK - 10

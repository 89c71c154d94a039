"""How vLLM's Scheduler is set for a comparison of the managers under it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from benchmarks.manager_sides import Group
from tests.kv_cache.scenarios import chunked, full, sliding


@dataclass(frozen=True)
class Habits:
    """What a scheduler is set to.

    Attributes:
        drafts: Speculative tokens per step of a running request; some are rejected.
        more: For vLLM's `SchedulerConfig`.
    """

    groups: tuple[Group, ...]
    num_blocks: int = 60
    enable_caching: bool = True
    drafts: int = 0
    more: tuple[tuple[str, Any], ...] = ()


WHOLE_PROMPTS = (("enable_chunked_prefill", False), ("max_num_batched_tokens", 128))
HABITS = {
    "full": Habits((full(),)),
    "roomy": Habits((full(),), num_blocks=400),
    "caching off": Habits((full(),), enable_caching=False),
    "by priority": Habits((full(),), more=(("policy", "priority"),)),
    "whole prompts only": Habits((full(),), more=WHOLE_PROMPTS),
    "drafts": Habits((full(),), drafts=3),
    "window": Habits((sliding(16),), num_blocks=50),
    "full and window": Habits((full(), sliding(16)), num_blocks=100),
    "full and window, drafts": Habits((full(), sliding(16)), num_blocks=100, drafts=3),
    "full and chunks": Habits((full(), chunked(16)), num_blocks=100),
}

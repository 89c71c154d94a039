"""What the tests of the differences share: a manager of either side in one line, and requests for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.manager_sides import Group, Setting, Side
from tests.kv_cache.random_scheduler import PlainRequests

REQUESTS = PlainRequests(4)


def manager(side: Side, *groups: Group, num_blocks: int = 60, **more: Any) -> Any:
    smallest = min(group.block_size for group in groups)
    usual = {"hash_block_size": smallest, "max_model_len": 256, "enable_kv_cache_events": True}
    return side.manager(Setting(groups, num_blocks, **{**usual, **more}))


def request(name: str, token_ids: Sequence[int]) -> Any:
    return REQUESTS.make(name, list(token_ids), 0, None)


def computed(made: Any, request: Any) -> Any:
    """The request, after all its tokens got slots and were computed."""
    made.allocate_slots(request, request.num_tokens - request.num_computed_tokens)
    request.num_computed_tokens = request.num_tokens
    return request

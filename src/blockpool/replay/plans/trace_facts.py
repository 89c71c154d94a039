"""What must be known of a trace before a pool can be sized for it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from blockpool.replay.rules import blocks_to_hold
from blockpool.replay.settings import LAST_HALF, ReplaySettings
from blockpool.trace.request import TraceRequest


@dataclass(frozen=True, slots=True)
class TraceFacts:
    """Of the whole trace, warm-up included.

    Attributes:
        requests: Requests in the trace.
        first_measured: Number of the first request that is counted, from 0.
        prompt_tokens: Prompt tokens of the counted requests.
        warm_up_tokens: Those of the others.
        block_size: Tokens per block; the largest block when they are of unequal size.
        equal_blocks: All full blocks have `block_size` tokens.
        largest_request: Number of the request that needs the most blocks, from 1; the first of several.
        largest_request_blocks: Blocks that it needs.
    """

    requests: int
    first_measured: int
    prompt_tokens: int
    warm_up_tokens: int
    block_size: int
    equal_blocks: bool
    largest_request: int
    largest_request_blocks: int


def trace_facts(requests: Iterable[TraceRequest], settings: ReplaySettings) -> TraceFacts:
    """Reads a trace once. Keeps one number per request when only the last half is counted.

    Args:
        requests: At least one.
    """
    prompts: list[int] = []
    prompt_tokens = num_requests = block_size = largest = largest_blocks = 0
    equal_blocks = True
    for num_requests, request in enumerate(requests, start=1):
        prompt_tokens += request.prompt_tokens
        if settings.window == LAST_HALF:
            prompts.append(request.prompt_tokens)
        if request.block_tokens is not None:
            equal_blocks = False
        block_size = max(block_size, request.block_size or max(request.block_tokens or [0]))
        num_blocks = blocks_to_hold(request, settings.rules)
        if num_blocks > largest_blocks:
            largest, largest_blocks = num_requests, num_blocks
    first_measured = num_requests // 2 if settings.window == LAST_HALF else 0
    warm_up_tokens = sum(prompts[:first_measured])
    return TraceFacts(
        requests=num_requests,
        first_measured=first_measured,
        prompt_tokens=prompt_tokens - warm_up_tokens,
        warm_up_tokens=warm_up_tokens,
        block_size=block_size,
        equal_blocks=equal_blocks,
        largest_request=largest,
        largest_request_blocks=largest_blocks,
    )

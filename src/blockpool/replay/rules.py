"""The two sets of rules by which a request uses the pool.

| | trace rules | engine rules |
|---|---|---|
| indexed | every block, the partial last one too | full blocks |
| can hit | the whole prompt | at most (prompt - 1) // block_size blocks: one token is always computed |
| output | takes no blocks | extends the chain, when the trace has the generated tokens |

With output, prompt + output - 1 tokens have their KV computed: the last token generated is never fed back.
Trace rules are those of published simulators, so numbers can be compared to the token; engine rules are those
of a vLLM engine. A trace of block ids does not say what was generated, so there outputs are not modelled.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from blockpool.replay.keys import KeyMaker
from blockpool.replay.settings import ENGINE_RULES
from blockpool.trace.request import TraceRequest


class RequestPlan(NamedTuple):
    """What one request wants of the pool.

    Attributes:
        keys: Keys of the blocks to index, in order from the first block on, as the key maker makes them.
        num_blocks: Blocks to hold, at least `len(keys)`.
        max_hit_blocks: How many leading blocks may come from the cache, at most `len(keys)`.
    """

    keys: list[Any]
    num_blocks: int
    max_hit_blocks: int


def plan_request(request: TraceRequest, rules: str, key_maker: KeyMaker) -> RequestPlan:
    """What a request wants under the given rules ("trace" or "engine")."""
    if rules == ENGINE_RULES:
        return _engine_plan(request, key_maker)
    keys = key_maker.prompt_keys(request)
    return RequestPlan(keys, len(keys), len(keys))


def blocks_to_hold(request: TraceRequest, rules: str) -> int:
    """`num_blocks` of the plan, without the keys."""
    if rules != ENGINE_RULES or not request.output_token_ids:
        return request.num_prompt_blocks
    assert request.block_size is not None
    return -(-computed_tokens(request) // request.block_size)


def computed_tokens(request: TraceRequest) -> int:
    """Tokens whose KV is computed: the last one generated is never fed back."""
    return request.prompt_tokens + max(len(request.output_token_ids or ()) - 1, 0)


def _engine_plan(request: TraceRequest, key_maker: KeyMaker) -> RequestPlan:
    keys = key_maker.full_keys(request, computed_tokens(request))
    # All blocks but the last are full, so this is (prompt - 1) // block_size, for unequal ones too.
    max_hit_blocks = request.num_prompt_blocks - 1
    return RequestPlan(keys, blocks_to_hold(request, ENGINE_RULES), max_hit_blocks)

"""`TimedRequest`: a request on its way through the engine."""

from __future__ import annotations

from blockpool.core.block import KVCacheBlock
from blockpool.replay.attention.managed_pool import ManagedRequest
from blockpool.replay.rules import RequestPlan
from blockpool.replay.timed.arrivals import Arrival
from blockpool.replay.timed.block_layout import BlockLayout
from blockpool.trace.request import TraceRequest

NO_PLAN = RequestPlan([], 0, 0)


class TimedRequest:
    """One request and how far it has come.

    Tokens are counted over prompt and output, from 1. A request computes tokens 1 … `total_tokens`: the last token
    generated is never fed back. It first prefills tokens 1 … `prefill_target`, which yields one generated token, then
    decodes one token per step.

    Attributes:
        request: As the trace has it.
        number: Its place in the trace, from 0.
        arrival_ns: When it came.
        line: Where it stands in its file, or None.
        layout: Its blocks.
        plan: Has the cache keys of the blocks that can be indexed. Set when it is first considered; what it says of
            blocks to hold is without output of which only the length is known.
        total_tokens: Prompt + output - 1, where an output that is not known or empty counts as one token.
        prefill_target: The prompt; after a preemption also what had been generated.
        num_blocks: Blocks that it needs when it runs alone. Set when it is first considered.
        blocks: By trace rules, blocks that it holds, in order.
        num_indexed: By trace rules, so many of them have been offered to the index.
        managed: By engine rules, itself as the manager sees it.
        position: By engine rules and full attention, how far the manager thinks it is.
        computed: Tokens computed, while it prefills.
        most_computed: Tokens that have been computed at any time, also before a preemption.
        step_offset: While it decodes, step s computes token s - `step_offset`.
        was_admitted: It has been admitted before.
        has_first_token: Its first token has been generated.
    """

    __slots__ = (
        "arrival_ns",
        "blocks",
        "computed",
        "has_first_token",
        "layout",
        "line",
        "managed",
        "most_computed",
        "num_blocks",
        "num_indexed",
        "number",
        "plan",
        "position",
        "prefill_target",
        "request",
        "step_offset",
        "total_tokens",
        "was_admitted",
    )

    def __init__(self, arrival: Arrival, number: int, rules: str) -> None:
        request = arrival.request
        self.request = request
        self.number = number
        self.arrival_ns = arrival.time_ns
        self.line = arrival.line
        self.layout = BlockLayout(request, rules)
        self.plan = NO_PLAN
        self.total_tokens = request.prompt_tokens + max(num_output_tokens(request), 1) - 1
        self.prefill_target = request.prompt_tokens
        self.num_blocks = 0
        self.blocks: list[KVCacheBlock] = []
        self.num_indexed = 0
        self.managed: ManagedRequest | None = None
        self.position = 0
        self.computed = 0
        self.most_computed = 0
        self.step_offset = 0
        self.was_admitted = False
        self.has_first_token = False

    def next_change(self, *, num_blocks: int) -> int:
        """While it prefills, the next token at which more happens than being computed.

        Args:
            num_blocks: Blocks that it holds: all from the first on.

        Returns:
            The first of: the one that fills a block, the one that needs a new block, the last of the prefill.
        """
        capacity = self.layout.tokens_in(num_blocks)
        if self.computed < capacity:
            return min(capacity, self.prefill_target)
        # Under trace rules there may be tokens behind the last block: output that is computed again.
        return (
            self.prefill_target
            if self.layout.blocks_for(self.prefill_target) == num_blocks
            else self.computed + 1
        )

    def next_event(self, token: int, *, num_blocks: int) -> int:
        """The next token, after `token`, at which more happens than being computed, where output takes blocks.

        Args:
            token: The one computed last, below `total_tokens`.
            num_blocks: Blocks that it holds: all from the first on.

        Returns:
            The first of: the one that fills a block that can be indexed, the one that needs a new block, the last.
        """
        capacity = self.layout.tokens_in(num_blocks)
        if token >= capacity or num_blocks > len(self.plan.keys):
            capacity += 1
        return min(capacity, self.total_tokens)


def num_output_tokens(request: TraceRequest) -> int:
    """Tokens that the request generates, as far as the trace says; else 1."""
    if request.output_token_ids is not None:
        return len(request.output_token_ids)
    return 1 if request.output_tokens is None else request.output_tokens

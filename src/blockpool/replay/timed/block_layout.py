"""`BlockLayout`: which tokens of a request, prompt and output, lie in which of its blocks."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate

from blockpool.replay.settings import ENGINE_RULES
from blockpool.trace.request import TraceRequest


class BlockLayout:
    """Blocks and tokens of one request.

    | rules | blocks |
    |---|---|
    | engine | prompt and output, in order; the last block of the prompt is filled up by the output |
    | trace | the prompt's only; its partial last block counts as full |

    Where the trace gives the tokens of each block, output goes into blocks of `block_size` tokens or, without
    one, as large as the largest of the prompt.
    """

    __slots__ = ("_base", "_ends", "_limit", "_size")

    def __init__(self, request: TraceRequest, rules: str) -> None:
        self._ends: list[int] = []
        if request.block_tokens is not None:
            self._ends = list(accumulate(request.block_tokens[:-1]))
            self._size = request.block_size or max(request.block_tokens)
        else:
            assert request.block_size is not None
            self._size = request.block_size
        self._base = self._ends[-1] if self._ends else 0
        self._limit = None if rules == ENGINE_RULES else request.prompt_tokens

    def blocks_for(self, num_tokens: int) -> int:
        """Blocks that the first tokens fill or begin. Never falls as `num_tokens` grows."""
        if self._limit is not None and num_tokens > self._limit:
            num_tokens = self._limit
        if num_tokens <= self._base:
            return bisect_left(self._ends, num_tokens) + 1 if num_tokens else 0
        return len(self._ends) - (self._base - num_tokens) // self._size

    def full_blocks(self, num_tokens: int) -> int:
        """Blocks that are full, and so can be indexed, when the first tokens are computed."""
        if self._limit is not None and num_tokens >= self._limit:
            return self.blocks_for(self._limit)
        if num_tokens < self._base:
            return bisect_right(self._ends, num_tokens)
        return len(self._ends) + (num_tokens - self._base) // self._size

    def tokens_in(self, num_blocks: int) -> int:
        """Tokens that the first blocks hold when they are full."""
        if num_blocks <= len(self._ends):
            return self._ends[num_blocks - 1] if num_blocks else 0
        tokens = self._base + (num_blocks - len(self._ends)) * self._size
        return tokens if self._limit is None else min(tokens, self._limit)

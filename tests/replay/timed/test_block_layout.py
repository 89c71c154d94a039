"""BlockLayout against plain enumeration of the tokens of every block."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from blockpool.replay.timed.block_layout import BlockLayout
from blockpool.trace import TraceRequest

REACH = 60


def check(layout: BlockLayout, ends: list[int], limit: int | None) -> None:
    """`ends`: the last token of each block when it is full."""
    for tokens in range(REACH):
        counted = tokens if limit is None else min(tokens, limit)
        blocks = 0
        while counted > ([0, *ends][blocks]):
            blocks += 1
        assert layout.blocks_for(tokens) == blocks
        full = sum(end <= counted for end in ends)
        if limit is not None and tokens >= limit:
            full = blocks
        assert layout.full_blocks(tokens) == full
    for blocks in range(20):
        end = [0, *ends][blocks]
        assert layout.tokens_in(blocks) == (end if limit is None else min(end, limit))


@given(st.integers(1, 40), st.integers(1, 9))
def test_equal_blocks(prompt_tokens: int, block_size: int) -> None:
    request = TraceRequest(None, prompt_tokens, block_size, token_ids=[1] * prompt_tokens)
    ends = [block_size * number for number in range(1, REACH + 20)]
    check(BlockLayout(request, "engine"), ends, None)
    check(BlockLayout(request, "trace"), ends, prompt_tokens)


@given(st.lists(st.integers(1, 6), min_size=1, max_size=8), st.sampled_from([None, 6, 9]))
def test_unequal_blocks(block_tokens: list[int], block_size: int | None) -> None:
    prompt_tokens = sum(block_tokens)
    request = TraceRequest(
        None, prompt_tokens, block_size, block_ids=list(range(len(block_tokens))), block_tokens=block_tokens
    )
    size = block_size or max(block_tokens)
    ends = [sum(block_tokens[:count]) for count in range(1, len(block_tokens))]
    start = sum(block_tokens[:-1])
    ends += [start + size * number for number in range(1, REACH + 20)]
    check(BlockLayout(request, "engine"), ends, None)
    # Under trace rules all ends with the prompt, so nothing can be asked about blocks after it.
    layout = BlockLayout(request, "trace")
    assert layout.blocks_for(REACH) == layout.full_blocks(prompt_tokens) == len(block_tokens)
    assert layout.tokens_in(len(block_tokens)) == prompt_tokens
    for tokens in range(prompt_tokens):
        assert layout.full_blocks(tokens) == sum(end <= tokens for end in ends)

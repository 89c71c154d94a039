"""The one block size that a trace must have where attention looks at positions of tokens."""

from __future__ import annotations

from blockpool.errors import ConfigError
from blockpool.trace.request import TraceRequest


def block_size_for(attention: str, request: TraceRequest) -> int:
    """Tokens per block of a request.

    Args:
        attention: What was asked for, for the error.
        request: The request.

    Raises:
        ConfigError: Its blocks are of unequal size.
    """
    if request.block_tokens is None:
        assert request.block_size is not None
        return request.block_size
    block_size = request.block_size or max(request.block_tokens)
    *others, last = request.block_tokens
    if any(tokens != block_size for tokens in others) or last > block_size:
        raise ConfigError(
            "attention", attention, "needs blocks of one size, and the trace has them unequal (block_tokens)"
        )
    return block_size


def require_block_size(attention: str, request: TraceRequest, block_size: int) -> None:
    """Raises ConfigError unless the blocks of a request are of this size, the last one perhaps partial."""
    found = block_size_for(attention, request)
    if found != block_size:
        raise ConfigError(
            "attention",
            attention,
            f"needs blocks of one size, and the trace has {block_size} and {found} tokens",
        )

"""`TraceRequest`: what a replay needs to know of one request, whatever format it was written in."""

from __future__ import annotations

from dataclasses import dataclass

from blockpool.core.extra_keys import MultiModalInput


@dataclass(slots=True)
class TraceRequest:
    """One request of a trace.

    Either `block_ids` or `token_ids` is set, never both. The readers check every field; a request that was
    built by hand is checked when it is played.

    Attributes:
        timestamp_ms: Arrival in milliseconds since the trace began, or None when the trace has no times.
        prompt_tokens: Length of the prompt, at least 1. With `block_tokens` it is their sum.
        block_size: Tokens per full block, at least 1. None only when `block_tokens` says it all.
        block_ids: One id per block of the prompt, the partial last one included; an id stands for the whole
            prefix up to the end of its block.
        block_tokens: Tokens in each block, when the blocks are of unequal size.
        token_ids: The prompt itself, each token in 0 … 2^32-1.
        output_token_ids: What was generated, when the trace has it.
        output_tokens: How many tokens were generated, or None when the trace does not say.
        session_id: Which conversation the request belongs to. Kept for writers and tags, never used for matching; 1 and
            "1" are two.
        lora: Name of the adapter; requests of different adapters share nothing. Used with `token_ids` only.
        salt: Cache salt; requests of different salts share nothing. Used with `token_ids` only.
        images: Where images, or the like, stand in the prompt, in order and without overlap; blocks that hold other
            images are other blocks. Used with `token_ids` only.
        tag: Value of the one field that the reader was asked to keep, as `tag_text` has it.
    """

    timestamp_ms: float | None
    prompt_tokens: int
    block_size: int | None
    block_ids: list[int] | None = None
    block_tokens: list[int] | None = None
    token_ids: list[int] | None = None
    output_token_ids: list[int] | None = None
    output_tokens: int | None = None
    session_id: str | int | None = None
    lora: str | None = None
    salt: str | None = None
    images: list[MultiModalInput] | None = None
    tag: str | None = None

    @property
    def num_prompt_blocks(self) -> int:
        """Blocks that the prompt fills or begins."""
        if self.block_ids is not None:
            return len(self.block_ids)
        assert self.block_size is not None
        return -(-self.prompt_tokens // self.block_size)

    def tokens_in_first(self, num_blocks: int) -> int:
        """Prompt tokens in the first blocks of the prompt.

        Args:
            num_blocks: 0 … `num_prompt_blocks`.
        """
        if self.block_tokens is not None:
            return sum(self.block_tokens[:num_blocks])
        assert self.block_size is not None
        return min(num_blocks * self.block_size, self.prompt_tokens)

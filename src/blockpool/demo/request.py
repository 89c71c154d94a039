"""A request of the demo's engine: one prompt on its way to its output."""

from __future__ import annotations

from collections.abc import Sequence

from blockpool.core.hasher import BlockHasher
from blockpool.demo.arithmetic import Floats
from blockpool.kv_cache import TokenRequest


class EngineRequest(TokenRequest):
    """What the manager reads of a request, and what the engine keeps beside it.

    Args:
        request_id: Its name, of which there is one at a time.
        prompt_token_ids: At least one.
        max_tokens: Tokens to generate, at least 1; nothing ends a request earlier.
        hasher: Hashes its blocks, now and as it grows.

    Attributes:
        num_prompt_tokens: Tokens of the prompt.
        max_tokens: As given.
        num_cached_tokens: So many were found in the cache when the request was admitted, the last time.
        logits: Of each generated token, [vocabulary].
    """

    __slots__ = ("logits", "max_tokens", "num_cached_tokens", "num_prompt_tokens")

    def __init__(
        self, request_id: str, prompt_token_ids: Sequence[int], max_tokens: int, hasher: BlockHasher
    ) -> None:
        super().__init__(request_id, prompt_token_ids, hasher)
        self.num_prompt_tokens = self.num_tokens
        self.max_tokens = max_tokens
        self.num_cached_tokens = 0
        self.logits: list[Floats] = []

    @property
    def output_token_ids(self) -> list[int]:
        """What was generated so far."""
        return self.all_token_ids[self.num_prompt_tokens :]

    @property
    def is_finished(self) -> bool:
        """Whether all tokens were generated."""
        return self.num_tokens == self.num_prompt_tokens + self.max_tokens

    def append_output(self, token_id: int, logits: Floats) -> None:
        """Adds a generated token; when it fills a block, that block gets its hash."""
        self.append_output_token_ids(token_id)
        self.logits.append(logits)

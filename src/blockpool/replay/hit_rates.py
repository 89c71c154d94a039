"""`HitRates`: what share of the prompts was found in the cache."""

from __future__ import annotations


class HitRates:
    """Rates of what has counts of hits and of what could have been hit."""

    __slots__ = ()

    prompt_tokens: int
    hit_tokens: int
    prompt_blocks: int
    hit_blocks: int

    @property
    def token_hit_rate(self) -> float:
        """Hit tokens per prompt token, 0 … 1; 0 when nothing was played."""
        return self.hit_tokens / self.prompt_tokens if self.prompt_tokens else 0.0

    @property
    def block_hit_rate(self) -> float:
        """Hit blocks per prompt block, 0 … 1; 0 when nothing was played."""
        return self.hit_blocks / self.prompt_blocks if self.prompt_blocks else 0.0

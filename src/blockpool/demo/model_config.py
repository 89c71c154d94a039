"""The size of the demo's model."""

from __future__ import annotations

import dataclasses

from blockpool.core.arguments import as_count, as_list, as_size
from blockpool.errors import ConfigError


@dataclasses.dataclass(frozen=True, slots=True)
class ModelConfig:
    """A small transformer in the style of Llama. Its weights are random: it speaks nonsense, always the same.

    Attributes:
        windows: Per layer, how many tokens it sees (sliding window), or None for all of them (full attention).
        vocab_size: Tokens are 0 … vocab_size - 1.
        hidden_size: Numbers per token between layers.
        num_heads: Heads of queries, a multiple of `num_kv_heads`.
        num_kv_heads: Heads of keys and values, each shared by a group of query heads.
        head_size: Numbers per head; even, because RoPE turns pairs.
        intermediate_size: Width of the MLP.
        max_model_len: Longest request, prompt and output, in tokens.
        seed: Of the weights, 0 or more.

    Raises:
        ArgumentError: For an argument of the wrong type.
        ConfigError: For a value out of range, and for heads that do not fit together.
    """

    windows: tuple[int | None, ...] = (None, None, None, None)
    vocab_size: int = 256
    hidden_size: int = 32
    num_heads: int = 4
    num_kv_heads: int = 2
    head_size: int = 8
    intermediate_size: int = 64
    max_model_len: int = 256
    seed: int = 0

    def __post_init__(self) -> None:
        windows = [
            None if window is None else as_size("windows", window)
            for window in as_list("windows", self.windows)
        ]
        object.__setattr__(self, "windows", tuple(windows))
        if not windows:
            raise ConfigError("windows", self.windows, "there must be at least one layer")
        for field in (
            "vocab_size", "hidden_size", "num_heads", "num_kv_heads", "head_size", "intermediate_size", "max_model_len"
        ):  # fmt: skip
            as_size(field, getattr(self, field))
        as_count("seed", self.seed)
        if self.num_heads % self.num_kv_heads:
            raise ConfigError("num_heads", self.num_heads, f"is no multiple of {self.num_kv_heads} KV heads")
        if self.head_size % 2:
            raise ConfigError("head_size", self.head_size, "must be even: RoPE turns pairs")


FULL_ATTENTION = (None, None, None, None)
"""Windows of four layers that see everything: one KV cache group."""

HYBRID_ATTENTION = (None, 24, None, 24)
"""Full and sliding-window layers in turn: two KV cache groups, which share one pool."""

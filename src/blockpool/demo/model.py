"""The demo's model: RMSNorm, RoPE, grouped-query attention over the paged cache, SiLU MLP, greedy sampling."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from blockpool.demo.arithmetic import Floats, Integers, multiply_rows, rms_norm, silu
from blockpool.demo.kv_groups import layer_places
from blockpool.demo.model_config import ModelConfig
from blockpool.demo.paged_attention import PagedKVCache, paged_attention
from blockpool.demo.weights import LayerWeights, random_weights


class Batch(NamedTuple):
    """The tokens of one step, of all requests, in one flat row.

    Attributes:
        token_ids: [tokens].
        positions: [tokens], of each in its request.
        slots: Per KV cache group, [tokens]: where each token's keys and values go.
        block_tables: Per KV cache group, [tokens, blocks]: where each token's request has its own.
        sampled_rows: Which of the tokens are the last known one of their request: those give a next token.
    """

    token_ids: Integers
    positions: Integers
    slots: tuple[Integers, ...]
    block_tables: tuple[Integers, ...]
    sampled_rows: Integers


class Model:
    """Computes tokens. It holds no state of a request: that is the cache's.

    Args:
        config: Its size and seed.
    """

    def __init__(self, config: ModelConfig) -> None:
        self.config = config
        self.weights = random_weights(config)
        self._places = layer_places(config.windows)

    def forward(self, batch: Batch, cache: PagedKVCache) -> Floats:
        """Computes the tokens of a step and writes their keys and values into the cache.

        Layer by layer, all tokens write before any of them reads: so a request can use blocks that another fills in the
        same step, which the manager has promised to it.

        Returns:
            Logits of the sampled rows, [sampled rows, vocabulary].
        """
        hidden = self.weights.embedding[batch.token_ids]
        for layer, place, window in zip(self.weights.layers, self._places, self.config.windows, strict=True):
            queries, keys, values = self._project(layer, hidden, batch.positions)
            cache.write(place.tensor, batch.slots[place.group], keys, values)
            tables = batch.block_tables[place.group]
            mixed = paged_attention(cache, place.tensor, queries, batch.positions, tables, window)
            hidden = hidden + multiply_rows(mixed.reshape(len(hidden), -1), layer.attention_output)
            inputs = rms_norm(hidden, layer.mlp_gain)
            gated = silu(multiply_rows(inputs, layer.gate)) * multiply_rows(inputs, layer.up)
            hidden = hidden + multiply_rows(gated, layer.down)
        last = rms_norm(hidden[batch.sampled_rows], self.weights.final_gain)
        return multiply_rows(last, self.weights.head)

    def _project(
        self, layer: LayerWeights, hidden: Floats, positions: Integers
    ) -> tuple[Floats, Floats, Floats]:
        """Queries, keys and values of each token, [tokens, heads, head size]; queries and keys turned by position."""
        inputs = rms_norm(hidden, layer.attention_gain)
        shape = (len(hidden), -1, self.config.head_size)
        queries, keys, values = (
            multiply_rows(inputs, matrix).reshape(shape) for matrix in (layer.query, layer.key, layer.value)
        )
        return self._rotate(queries, positions), self._rotate(keys, positions), values

    def _rotate(self, heads: Floats, positions: Integers) -> Floats:
        """RoPE: turns each pair (n, n + half) by the position times the pair's frequency."""
        cosines, sines = self.weights.cosines[positions][:, None], self.weights.sines[positions][:, None]
        half = self.config.head_size // 2
        first, second = heads[..., :half], heads[..., half:]
        return np.concatenate([first * cosines - second * sines, second * cosines + first * sines], axis=-1)


def sample_greedily(logits: Floats) -> list[int]:
    """The token of the highest logit of each row; of equal ones the lowest token.

    Raises:
        AssertionError: If a logit is NaN: somebody read a slot of the cache that was never written for him.
    """
    assert np.isfinite(logits).all(), "a block was read that its request does not have"
    return [int(token) for token in logits.argmax(axis=1)]

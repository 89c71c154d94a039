"""The random weights of the demo's model."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from blockpool.demo.arithmetic import Floats
from blockpool.demo.model_config import ModelConfig


@dataclasses.dataclass(frozen=True, slots=True)
class LayerWeights:
    """One layer; matrices are [inputs, outputs]."""

    attention_gain: Floats
    query: Floats
    key: Floats
    value: Floats
    attention_output: Floats
    mlp_gain: Floats
    gate: Floats
    up: Floats
    down: Floats


@dataclasses.dataclass(frozen=True, slots=True)
class ModelWeights:
    """All of them.

    Attributes:
        embedding: [vocabulary, hidden size].
        layers: In order.
        final_gain: Of the last norm, [hidden size].
        head: [hidden size, vocabulary].
        cosines: Of RoPE, [max_model_len, head_size / 2].
        sines: As cosines.
    """

    embedding: Floats
    layers: tuple[LayerWeights, ...]
    final_gain: Floats
    head: Floats
    cosines: Floats
    sines: Floats


def random_weights(config: ModelConfig) -> ModelWeights:
    """Draws the weights: equal seeds give equal ones, on every platform and with every NumPy."""
    source = np.random.PCG64(config.seed)

    def matrix(inputs: int, outputs: int) -> Floats:
        # Raw bits, which NumPy promises to keep for a seed, as it does not for distributions.
        uniform = (source.random_raw(inputs * outputs) >> np.uint64(11)).astype(np.float64) * 2.0**-53
        scale = math.sqrt(3 / inputs)  # a variance of 1 / inputs
        drawn: Floats = ((2 * uniform - 1) * scale).astype(np.float32).reshape(inputs, outputs)
        return drawn

    def gain() -> Floats:
        return np.ones(config.hidden_size, dtype=np.float32)

    queries = config.num_heads * config.head_size
    keys = config.num_kv_heads * config.head_size
    hidden, middle = config.hidden_size, config.intermediate_size
    embedding = matrix(hidden, config.vocab_size).T.copy() * np.float32(math.sqrt(hidden))
    layers = tuple(
        LayerWeights(
            attention_gain=gain(),
            query=matrix(hidden, queries),
            key=matrix(hidden, keys),
            value=matrix(hidden, keys),
            attention_output=matrix(queries, hidden),
            mlp_gain=gain(),
            gate=matrix(hidden, middle),
            up=matrix(hidden, middle),
            down=matrix(middle, hidden),
        )
        for _ in config.windows
    )
    angles = _rope_angles(config)
    return ModelWeights(
        embedding=embedding,
        layers=layers,
        final_gain=gain(),
        head=matrix(hidden, config.vocab_size),
        cosines=np.array([[math.cos(angle) for angle in row] for row in angles], dtype=np.float32),
        sines=np.array([[math.sin(angle) for angle in row] for row in angles], dtype=np.float32),
    )


def _rope_angles(config: ModelConfig) -> list[list[float]]:
    pairs = config.head_size // 2
    frequencies = [10_000.0 ** (-pair / pairs) for pair in range(pairs)]
    return [[position * frequency for frequency in frequencies] for position in range(config.max_model_len)]

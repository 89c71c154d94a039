"""The same model without pages, chunks or batches: one sequence at a time, matrix products, float64."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockpool.demo.model_config import ModelConfig
from blockpool.demo.weights import random_weights

Doubles = NDArray[np.float64]


def reference_logits(config: ModelConfig, token_ids: Sequence[int]) -> Doubles:
    """Logits after every token of a sequence: [tokens, vocabulary]."""
    weights = random_weights(config)
    positions = np.arange(len(token_ids))
    cosines = weights.cosines[positions].astype(np.float64)[None]
    sines = weights.sines[positions].astype(np.float64)[None]
    hidden = weights.embedding[list(token_ids)].astype(np.float64)
    for layer, window in zip(weights.layers, config.windows, strict=True):
        w: dict[str, Any] = {
            field.name: getattr(layer, field.name).astype(np.float64) for field in dataclasses.fields(layer)
        }
        inputs = _norm(hidden) * w["attention_gain"]
        queries = _rotate(_heads(inputs @ w["query"], config), cosines, sines)
        keys = _rotate(_heads(inputs @ w["key"], config), cosines, sines)
        values = _heads(inputs @ w["value"], config)
        sharing = config.num_heads // config.num_kv_heads
        keys, values = np.repeat(keys, sharing, axis=0), np.repeat(values, sharing, axis=0)
        hidden = hidden + _attention(queries, keys, values, window) @ w["attention_output"]
        inputs = _norm(hidden) * w["mlp_gain"]
        gate = inputs @ w["gate"]
        hidden = hidden + (gate / (1 + np.exp(-gate)) * (inputs @ w["up"])) @ w["down"]
    return _norm(hidden) * weights.final_gain @ weights.head.astype(np.float64)


def _norm(rows: Doubles) -> Doubles:
    return rows / np.sqrt((rows**2).mean(axis=1, keepdims=True) + 1e-6)


def _heads(rows: Doubles, config: ModelConfig) -> Doubles:
    """[heads, tokens, head size]"""
    return rows.reshape(len(rows), -1, config.head_size).transpose(1, 0, 2)


def _rotate(heads: Doubles, cosines: Doubles, sines: Doubles) -> Doubles:
    half = heads.shape[-1] // 2
    turned = (heads[..., :half] + 1j * heads[..., half:]) * (cosines + 1j * sines)
    return np.concatenate([turned.real, turned.imag], axis=-1)


def _attention(queries: Doubles, keys: Doubles, values: Doubles, window: int | None) -> Doubles:
    num_heads, length, head_size = queries.shape
    scores = queries @ keys.transpose(0, 2, 1) / np.sqrt(head_size)
    ahead = np.arange(length)[None, :] - np.arange(length)[:, None]
    hidden = (ahead > 0) if window is None else (ahead > 0) | (ahead <= -window)
    scores = np.where(hidden, -np.inf, scores)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    mixed: Doubles = (weights @ values).transpose(1, 0, 2).reshape(length, num_heads * head_size)
    return mixed

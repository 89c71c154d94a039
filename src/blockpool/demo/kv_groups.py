"""Which layers share a KV cache group, and what the manager is told of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from blockpool.demo.model_config import ModelConfig
from blockpool.kv_cache import (
    FullAttentionSpec,
    KVCacheConfig,
    KVCacheGroupSpec,
    SlidingWindowSpec,
    max_blocks_per_request,
)


class LayerPlace(NamedTuple):
    """Where a layer keeps its keys and values.

    Attributes:
        group: Its KV cache group: the layers that see equally far, and so need the same blocks.
        tensor: Its place among the layers of its group; layers of other groups share this tensor, in other blocks.
    """

    group: int
    tensor: int


def group_windows(windows: Sequence[int | None]) -> list[int | None]:
    """The window of each KV cache group, in the order of the groups' first layers."""
    return list(dict.fromkeys(windows))


def layer_places(windows: Sequence[int | None]) -> list[LayerPlace]:
    """The place of each layer."""
    groups = group_windows(windows)
    sizes = [0] * len(groups)
    places = []
    for window in windows:
        group = groups.index(window)
        places.append(LayerPlace(group, sizes[group]))
        sizes[group] += 1
    return places


def make_kv_cache_config(config: ModelConfig, num_blocks: int, block_size: int) -> KVCacheConfig:
    """What `KVCacheManager` is told of the model: a group per window, all with blocks of one size."""
    places = layer_places(config.windows)
    groups = []
    for group, window in enumerate(group_windows(config.windows)):
        names = [f"layers.{number}" for number, place in enumerate(places) if place.group == group]
        heads, size = config.num_kv_heads, config.head_size
        spec = (
            FullAttentionSpec(block_size, num_kv_heads=heads, head_size=size, dtype="float32")
            if window is None
            else SlidingWindowSpec(
                block_size, num_kv_heads=heads, head_size=size, dtype="float32", sliding_window=window
            )
        )
        groups.append(KVCacheGroupSpec(names, spec))
    return KVCacheConfig(num_blocks, groups)


def blocks_of_longest_request(config: ModelConfig, block_size: int, max_num_scheduled_tokens: int) -> int:
    """Blocks that a request of `max_model_len` tokens holds at most, when it is alone."""
    layout = make_kv_cache_config(config, 1, block_size)
    return max_blocks_per_request(layout, config.max_model_len, max_num_scheduled_tokens)

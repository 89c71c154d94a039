"""Makes pool, managers and coordinator of a configuration, and tells what is wrong with it."""

from __future__ import annotations

import logging

from blockpool.core.block_hash import scale_factor
from blockpool.core.pool import BlockPool
from blockpool.errors import ConfigError
from blockpool.kv_cache.caching_coordinators import (
    CachingCoordinator,
    HybridKVCacheCoordinator,
    UnitaryKVCacheCoordinator,
)
from blockpool.kv_cache.chunked_local import ChunkedLocalAttentionManager
from blockpool.kv_cache.config import KVCacheConfig
from blockpool.kv_cache.coordinator import KVCacheCoordinator
from blockpool.kv_cache.cross_attention import CrossAttentionManager
from blockpool.kv_cache.full_attention import FullAttentionManager, SinkFullAttentionManager
from blockpool.kv_cache.mamba import MambaManager
from blockpool.kv_cache.single_type_manager import SingleTypeKVCacheManager
from blockpool.kv_cache.sliding_window import SlidingWindowManager
from blockpool.kv_cache.specs import (
    ChunkedLocalAttentionSpec,
    CrossAttentionSpec,
    FullAttentionSpec,
    KVCacheSpec,
    MambaSpec,
    SinkFullAttentionSpec,
    SlidingWindowSpec,
)

logger = logging.getLogger("blockpool")


def manager_for(
    spec: KVCacheSpec, block_pool: BlockPool, enable_caching: bool, group_id: int, context_parallel_size: int
) -> SingleTypeKVCacheManager:
    """The manager of one group.

    Raises:
        ConfigError: For a spec of no known type.
    """
    if isinstance(spec, SinkFullAttentionSpec):
        return SinkFullAttentionManager(spec, block_pool, enable_caching, group_id, context_parallel_size)
    if isinstance(spec, FullAttentionSpec):
        return FullAttentionManager(spec, block_pool, enable_caching, group_id, context_parallel_size)
    if isinstance(spec, SlidingWindowSpec):
        return SlidingWindowManager(spec, block_pool, enable_caching, group_id, context_parallel_size)
    if isinstance(spec, ChunkedLocalAttentionSpec):
        return ChunkedLocalAttentionManager(spec, block_pool, enable_caching, group_id, context_parallel_size)
    if isinstance(spec, MambaSpec):
        return MambaManager(spec, block_pool, enable_caching, group_id, context_parallel_size)
    if isinstance(spec, CrossAttentionSpec):
        return CrossAttentionManager(spec, block_pool, enable_caching, group_id, context_parallel_size)
    raise ConfigError("kv_cache_spec", spec, "no manager is known for it")


def make_coordinator(
    config: KVCacheConfig,
    block_pool: BlockPool,
    max_model_len: int,
    use_eagle: bool,
    context_parallel_size: int,
) -> KVCacheCoordinator:
    """The coordinator of all groups, with a manager for each.

    Raises:
        ConfigError: If the groups cannot work, or can never hit while caching is on.
    """
    enable_caching = block_pool.enable_caching
    _check_groups(config, enable_caching, context_parallel_size)
    managers = tuple(
        [
            manager_for(group.kv_cache_spec, block_pool, enable_caching, group_id, context_parallel_size)
            for group_id, group in enumerate(config.kv_cache_groups)
        ]
    )
    if not enable_caching:
        return KVCacheCoordinator(block_pool, managers, use_eagle)
    for manager in managers:
        scale_factor(block_pool.hash_block_size, manager.block_size)
    coordinator: CachingCoordinator
    if len(managers) == 1:
        coordinator = UnitaryKVCacheCoordinator(block_pool, managers, use_eagle)
    else:
        coordinator = HybridKVCacheCoordinator(block_pool, managers, use_eagle)
    _check_reach(coordinator, max_model_len)
    return coordinator


def _check_groups(config: KVCacheConfig, enable_caching: bool, context_parallel_size: int) -> None:
    groups = config.kv_cache_groups
    if context_parallel_size > 1 and not (
        len(groups) == 1 and isinstance(groups[0].kv_cache_spec, FullAttentionSpec)
    ):
        raise ConfigError("dcp_world_size", context_parallel_size, "it needs full attention in all layers")
    if not enable_caching:
        return
    if not groups:
        raise ConfigError("enable_caching", True, "there is no group that could be cached")
    for group in groups:
        if isinstance(group.kv_cache_spec, CrossAttentionSpec):
            raise ConfigError("enable_caching", True, "a cross-attention group never hits, so nothing would")
        if isinstance(group.kv_cache_spec, MambaSpec) and group.kv_cache_spec.mamba_cache_mode == "none":
            logger.warning(
                "mamba_cache_mode is 'none' and caching is on: hits are right only if the engine writes the state at "
                "the end of every block"
            )


def _check_reach(coordinator: CachingCoordinator, max_model_len: int) -> None:
    """Whether a prompt can hit at all, and how long it must be."""
    unit = coordinator.alignment_tokens
    sizes = [manager.block_size for manager in coordinator.single_type_managers]
    shortest = unit + coordinator.num_dropped_tokens() + 1
    if shortest > max_model_len:
        logger.warning(
            "caching is on and nothing can hit: a prompt must have %d tokens to, and max_model_len is %d",
            shortest,
            max_model_len,
        )
    elif unit > min(sizes):
        logger.warning(
            "prompts of less than %d tokens cannot hit: the block sizes %s have the least common multiple %d",
            shortest,
            sorted(set(sizes)),
            unit,
        )

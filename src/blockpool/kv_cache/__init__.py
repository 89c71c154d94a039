"""KV cache managers: the layer between a scheduler and the block pool, for every attention type and hybrids of them."""

from blockpool.kv_cache.blocks import KVCacheBlocks
from blockpool.kv_cache.config import KVCacheConfig, KVCacheGroupSpec
from blockpool.kv_cache.dtypes import DTYPE_BYTES
from blockpool.kv_cache.manager import KVCacheManager
from blockpool.kv_cache.prefix_cache_stats import PrefixCacheStats
from blockpool.kv_cache.sizing import max_blocks_per_request
from blockpool.kv_cache.specs import (
    MAMBA_CACHE_MODES,
    AttentionSpec,
    ChunkedLocalAttentionSpec,
    CrossAttentionSpec,
    FullAttentionSpec,
    KVCacheSpec,
    MambaSpec,
    MLAAttentionSpec,
    SinkFullAttentionSpec,
    SlidingWindowSpec,
)
from blockpool.kv_cache.token_request import TokenRequest
from blockpool.kv_cache.types import KVCacheRequest

__all__ = [
    "DTYPE_BYTES",
    "MAMBA_CACHE_MODES",
    "AttentionSpec",
    "ChunkedLocalAttentionSpec",
    "CrossAttentionSpec",
    "FullAttentionSpec",
    "KVCacheBlocks",
    "KVCacheConfig",
    "KVCacheGroupSpec",
    "KVCacheManager",
    "KVCacheRequest",
    "KVCacheSpec",
    "MLAAttentionSpec",
    "MambaSpec",
    "PrefixCacheStats",
    "SinkFullAttentionSpec",
    "SlidingWindowSpec",
    "TokenRequest",
    "max_blocks_per_request",
]

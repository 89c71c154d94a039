"""What is replaced in vLLM 0.16.x: the pool with all its parts, the block hashes, the look-up of full attention."""

from __future__ import annotations

from typing import Any

from vllm.v1.core import block_pool, kv_cache_metrics, kv_cache_utils, single_type_kv_cache_manager

from blockpool.core.block import KVCacheBlock
from blockpool.core.block_map import BlockHashToBlockMap
from blockpool.core.free_queue import FreeKVCacheBlockQueue
from blockpool.integrations.vllm import metrics
from blockpool.integrations.vllm.checked_pool import make_checked_pool
from blockpool.integrations.vllm.common_parts import (
    is_replaced,
    replace_hasher,
    replace_look_up,
    require_all,
)
from blockpool.integrations.vllm.full_attention import hit_0_16
from blockpool.integrations.vllm.pool_0_16 import BlockPool
from blockpool.integrations.vllm.replacement import Replacements, require_tested

__all__ = ["is_replaced", "prepare"]

CLASSES = (
    (block_pool, "BlockPool", BlockPool, "c514a4ff29bd"),
    (block_pool, "BlockHashToBlockMap", BlockHashToBlockMap, "a845f5b5a086"),
    (kv_cache_utils, "FreeKVCacheBlockQueue", FreeKVCacheBlockQueue, "63822aa6c96e"),
    (kv_cache_utils, "KVCacheBlock", KVCacheBlock, "2c4293bd768e"),
    (kv_cache_metrics, "KVCacheMetricsCollector", metrics.KVCacheMetricsCollector, "e287daa4d102"),
    (kv_cache_metrics, "BlockMetricsState", metrics.BlockMetricsState, "6fd74ea354ff"),
)
HASHER = "259a6756bae9"
LOOK_UP = "4df5060fa810"
RELIED_ON = (
    (kv_cache_utils, "hash_block_tokens", "d8d0eb5a3f77"),
    (kv_cache_utils, "generate_block_hash_extra_keys", "eeac3b75f043"),
    (single_type_kv_cache_manager, "SingleTypeKVCacheManager", "4b6e8a7e3d4f"),
)


def prepare(replacements: Replacements, check: bool) -> None:
    """Looks whether everything is as it was when this was tested, and notes what to replace.

    Args:
        check: Whether vLLM's own parts stay, and ours run in step with them.

    Raises:
        Incompatible: If something is not.
    """
    require_all(RELIED_ON)
    for module, name, ours, fingerprint in CLASSES:
        own = require_tested(module, name, fingerprint)
        if not check:
            replacements.replace(module, name, ours)
        elif name == "BlockPool":
            replacements.replace(module, name, make_checked_pool(own, ours))
    replace_hasher(replacements, HASHER, _first_feature, check)
    replace_look_up(replacements, LOOK_UP, hit_0_16, check)


def _first_feature(request: Any, start: int, block_size: int) -> int:
    """0.16 looks at the last multimodal input only, once a prompt's first blocks are hashed."""
    return -1

"""What is replaced in vLLM 0.16.x: the pool with all its parts, the block hashes, the look-up of full attention."""

from __future__ import annotations

from typing import Any

from vllm.distributed import kv_events
from vllm.v1.core import block_pool, kv_cache_metrics, kv_cache_utils, single_type_kv_cache_manager
from vllm.v1.metrics import stats

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

# Where vLLM's is, its name, ours in its place, and the fingerprint of vLLM's.
CLASSES = (
    (block_pool, "BlockPool", BlockPool, "0fb181e8b54a"),
    (block_pool, "BlockHashToBlockMap", BlockHashToBlockMap, "6d2e624e2569"),
    (kv_cache_utils, "FreeKVCacheBlockQueue", FreeKVCacheBlockQueue, "b145502feaf0"),
    (kv_cache_utils, "KVCacheBlock", KVCacheBlock, "1ecab12ef09e"),
    (kv_cache_metrics, "KVCacheMetricsCollector", metrics.KVCacheMetricsCollector, "46dc1fc0ace1"),
    (kv_cache_metrics, "BlockMetricsState", metrics.BlockMetricsState, "69f54a842068"),
)
# Fingerprints of what else is replaced, and of what those who replace it call or imitate.
HASHER = "3fe16a401c05"
LOOK_UP = "621b860886e2"
RELIED_ON = (
    (kv_cache_utils, "hash_block_tokens", "bba1f7f35a57"),
    (kv_cache_utils, "generate_block_hash_extra_keys", "8eeacc956878"),
    (kv_cache_utils, "_gen_mm_extra_hash_keys", "2910cb90e365"),
    (kv_cache_utils, "_gen_lora_extra_hash_keys", "9b98f3e05cd7"),
    (kv_cache_utils, "_gen_prompt_embeds_extra_hash_keys", "793d00181586"),
    (kv_cache_utils, "maybe_convert_block_hash", "6f3b4b938a71"),
    (single_type_kv_cache_manager, "SingleTypeKVCacheManager", "cd13f9541934"),
    (kv_events, "BlockStored", "27273362bac0"),
    (kv_events, "BlockRemoved", "efa92ac94f90"),
    (kv_events, "AllBlocksCleared", "7b7fc2dca547"),
    (stats, "KVCacheEvictionEvent", "41bf44a8e5ba"),
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

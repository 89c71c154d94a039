"""What is replaced in vLLM 0.16.x: the pool with all its parts, the block hashes, the look-up of full attention."""

from __future__ import annotations

from typing import Any

from vllm.utils import hashing
from vllm.v1.core import block_pool, kv_cache_metrics, kv_cache_utils, single_type_kv_cache_manager

from blockpool.core.block import KVCacheBlock
from blockpool.core.block_map import BlockHashToBlockMap
from blockpool.core.free_queue import FreeKVCacheBlockQueue
from blockpool.integrations.vllm import metrics
from blockpool.integrations.vllm.checked_pool import (
    make_checked_hasher,
    make_checked_look_up,
    make_checked_pool,
)
from blockpool.integrations.vllm.full_attention_0_16 import make_find_longest_cache_hit
from blockpool.integrations.vllm.pool_0_16 import BlockPool
from blockpool.integrations.vllm.replacement import Replacements, require_tested
from blockpool.integrations.vllm.request_hasher import HasherMaker

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


def is_replaced() -> bool:
    """Whether our parts are in place already."""
    return str(block_pool.BlockPool.__module__).startswith("blockpool.")


def prepare(replacements: Replacements, check: bool) -> None:
    """Looks whether everything is as it was when this was tested, and notes what to replace.

    Args:
        check: Whether vLLM's own parts stay, and ours run in step with them.

    Raises:
        Incompatible: If something is not.
    """
    for owner, name, fingerprint in RELIED_ON:
        require_tested(owner, name, fingerprint)
    for module, name, ours, fingerprint in CLASSES:
        own = require_tested(module, name, fingerprint)
        if not check:
            replacements.replace(module, name, ours)
        elif name == "BlockPool":
            replacements.replace(module, name, make_checked_pool(own, ours))
    own_maker = require_tested(kv_cache_utils, "get_request_block_hasher", HASHER)
    maker = HasherMaker(kv_cache_utils, hashing, own_maker, _first_feature)

    def get_request_block_hasher(block_size: int, caching_hash_fn: Any) -> Any:
        ours = maker.make(block_size, caching_hash_fn)
        return make_checked_hasher(own_maker(block_size, caching_hash_fn), ours) if check else ours

    replacements.replace(kv_cache_utils, "get_request_block_hasher", get_request_block_hasher)

    manager = single_type_kv_cache_manager.FullAttentionManager
    own_look_up = require_tested(manager, "find_longest_cache_hit", LOOK_UP).__func__
    look_up = make_find_longest_cache_hit(own_look_up)
    if check:
        look_up = make_checked_look_up(own_look_up, look_up)
    replacements.replace(manager, "find_longest_cache_hit", classmethod(look_up))


def _first_feature(request: Any, start: int, block_size: int) -> int:
    """0.16 looks at the last multimodal input only, once a prompt's first blocks are hashed."""
    return -1

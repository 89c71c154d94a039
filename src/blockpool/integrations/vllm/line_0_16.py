"""What is replaced in vLLM 0.16.x: the pool with all its parts, the block hashes, the look-up of full attention."""

from __future__ import annotations

from typing import Any

from vllm.utils import hashing
from vllm.v1.core import block_pool, kv_cache_metrics, kv_cache_utils, single_type_kv_cache_manager

from blockpool.core.block import KVCacheBlock
from blockpool.core.block_map import BlockHashToBlockMap
from blockpool.core.free_queue import FreeKVCacheBlockQueue
from blockpool.integrations.vllm import metrics
from blockpool.integrations.vllm.full_attention_0_16 import make_find_longest_cache_hit
from blockpool.integrations.vllm.pool_0_16 import BlockPool
from blockpool.integrations.vllm.replacement import (
    Replacements,
    require_own,
    require_same_calls,
    require_same_parameters,
)
from blockpool.integrations.vllm.request_hasher import HasherMaker

CLASSES = (
    (block_pool, "BlockPool", BlockPool),
    (block_pool, "BlockHashToBlockMap", BlockHashToBlockMap),
    (kv_cache_utils, "FreeKVCacheBlockQueue", FreeKVCacheBlockQueue),
    (kv_cache_utils, "KVCacheBlock", KVCacheBlock),
    (kv_cache_metrics, "KVCacheMetricsCollector", metrics.KVCacheMetricsCollector),
    (kv_cache_metrics, "BlockMetricsState", metrics.BlockMetricsState),
)


def is_replaced() -> bool:
    """Whether our parts are in place already."""
    return block_pool.BlockPool is BlockPool


def prepare(replacements: Replacements, check: bool) -> None:
    """Looks whether everything is as it was when this was tested, and notes what to replace.

    Args:
        check: Whether both pools shall run in step.

    Raises:
        Incompatible: If something is not.
    """
    for module, name, ours in CLASSES:
        theirs = require_own(module, name, module.__name__)
        if name not in ("KVCacheBlock", "BlockHashToBlockMap"):
            require_same_calls(theirs, ours)
        replacements.replace(module, name, ours)
    _prepare_hashes(replacements)
    _prepare_look_up(replacements)


def _prepare_hashes(replacements: Replacements) -> None:
    own = require_own(kv_cache_utils, "get_request_block_hasher", kv_cache_utils.__name__)
    maker = HasherMaker(kv_cache_utils, hashing, own, _last_feature)

    def get_request_block_hasher(block_size: int, caching_hash_fn: Any) -> Any:
        return maker.make(block_size, caching_hash_fn)

    require_same_parameters(own, get_request_block_hasher, "get_request_block_hasher")
    replacements.replace(kv_cache_utils, "get_request_block_hasher", get_request_block_hasher)


def _last_feature(request: Any, start: int, block_size: int) -> int:
    """0.16 looks at the last multimodal input only, once a prompt's first blocks are hashed."""
    return -1


def _prepare_look_up(replacements: Replacements) -> None:
    manager = single_type_kv_cache_manager.FullAttentionManager
    own = require_own(manager, "find_longest_cache_hit", manager.__module__).__func__
    ours = make_find_longest_cache_hit(own)
    require_same_parameters(own, ours, "FullAttentionManager.find_longest_cache_hit")
    replacements.replace(manager, "find_longest_cache_hit", classmethod(ours))

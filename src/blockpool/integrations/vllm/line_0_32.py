"""What is replaced in vLLM 0.32.x: block hashes, the look-up of full attention, and the pool by a subclass of it."""

from __future__ import annotations

from typing import Any

from vllm.multimodal import utils as multimodal
from vllm.v1.core import block_pool, kv_cache_utils

from blockpool.integrations.vllm.checked_pool import make_checked_pool
from blockpool.integrations.vllm.common_parts import (
    is_replaced,
    replace_hasher,
    replace_look_up,
    require_all,
)
from blockpool.integrations.vllm.full_attention import hit_0_32
from blockpool.integrations.vllm.pool_0_32 import BlockPool
from blockpool.integrations.vllm.replacement import Replacements, require_tested

__all__ = ["is_replaced", "prepare"]

# Fingerprints of what is replaced, and of what those who replace it call or imitate.
POOL = "73075aa34bf7"
HASHER = "6436c508c519"
LOOK_UP = "106b6cdd1641"
RELIED_ON = (
    (block_pool, "BlockHashToBlockMap", "b82380ebc68f"),
    (kv_cache_utils, "FreeKVCacheBlockQueue", "5e91bb117b16"),
    (kv_cache_utils, "KVCacheBlock", "ee750bfd92d3"),
    (kv_cache_utils, "BlockHashListWithBlockSize", "163b7888d62d"),
    (kv_cache_utils, "resolve_block_hashes", "e05598034ccf"),
    (kv_cache_utils, "hash_block_tokens", "bba1f7f35a57"),
    (kv_cache_utils, "generate_block_hash_extra_keys", "2083351f83cf"),
    (kv_cache_utils, "_gen_mm_extra_hash_keys", "85b8f53bbc8f"),
    (kv_cache_utils, "_gen_lora_extra_hash_keys", "5de56e75adfc"),
    (kv_cache_utils, "_gen_prompt_embeds_extra_hash_keys", "04b9a2689eb1"),
    (kv_cache_utils, "make_block_hash_with_group_id", "e2faf6ba6183"),
    (multimodal, "get_mm_features_in_window", "6d11f3dcc5c7"),
)


def prepare(replacements: Replacements, check: bool) -> None:
    """Looks whether everything is as it was when this was tested, and notes what to replace.

    Args:
        check: Whether vLLM's own parts stay, and ours run in step with them.

    Raises:
        Incompatible: If something is not.
    """
    require_all(RELIED_ON)
    own = require_tested(block_pool, "BlockPool", POOL)
    replacements.replace(block_pool, "BlockPool", make_checked_pool(own, BlockPool) if check else BlockPool)
    replace_hasher(replacements, HASHER, _first_feature, check)
    replace_look_up(replacements, LOOK_UP, hit_0_32, check)


def _first_feature(request: Any, start: int, block_size: int) -> int:
    """The first multimodal input that may reach into the tokens from `start` on."""
    last = request.mm_features[-1].mm_position
    if last.offset + last.length <= start:
        return 0
    first: int = multimodal.get_mm_features_in_window(request.mm_features, start, start + block_size)[0]
    return first

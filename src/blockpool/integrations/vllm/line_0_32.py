"""What is replaced in vLLM 0.32.x: block hashes, the look-up of full attention, and the pool by a subclass of it."""

from __future__ import annotations

from typing import Any

from vllm.multimodal.utils import get_mm_features_in_window
from vllm.utils import hashing
from vllm.v1.core import block_pool, kv_cache_utils, single_type_kv_cache_manager

from blockpool.integrations.vllm.checked_pool import (
    make_checked_hasher,
    make_checked_look_up,
    make_checked_pool,
)
from blockpool.integrations.vllm.full_attention_0_32 import make_find_longest_cache_hit
from blockpool.integrations.vllm.pool_0_32 import BlockPool
from blockpool.integrations.vllm.replacement import Replacements, require_tested
from blockpool.integrations.vllm.request_hasher import HasherMaker

POOL = "a39cd6b72dd0"
HASHER = "e919a7e523a8"
LOOK_UP = "6dd4e4634b36"
RELIED_ON = (
    (block_pool, "BlockHashToBlockMap", "1db2580e83f9"),
    (kv_cache_utils, "FreeKVCacheBlockQueue", "755bad937294"),
    (kv_cache_utils, "KVCacheBlock", "7ef96531d90e"),
    (kv_cache_utils, "BlockHashListWithBlockSize", "9c2c4f5b24ca"),
    (kv_cache_utils, "resolve_block_hashes", "5d7720996b15"),
    (kv_cache_utils, "hash_block_tokens", "d8d0eb5a3f77"),
    (kv_cache_utils, "generate_block_hash_extra_keys", "b476f81e1631"),
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
    own_pool = require_tested(block_pool, "BlockPool", POOL)
    replacements.replace(
        block_pool, "BlockPool", make_checked_pool(own_pool, BlockPool) if check else BlockPool
    )
    own_maker = require_tested(kv_cache_utils, "get_request_block_hasher", HASHER)
    maker = HasherMaker(kv_cache_utils, hashing, own_maker, _first_feature)

    def get_request_block_hasher(hash_block_size: int, caching_hash_fn: Any) -> Any:
        ours = maker.make(hash_block_size, caching_hash_fn)
        return make_checked_hasher(own_maker(hash_block_size, caching_hash_fn), ours) if check else ours

    replacements.replace(kv_cache_utils, "get_request_block_hasher", get_request_block_hasher)

    manager = single_type_kv_cache_manager.FullAttentionManager
    own_look_up = require_tested(manager, "find_longest_cache_hit", LOOK_UP).__func__
    look_up = make_find_longest_cache_hit(own_look_up)
    if check:
        look_up = make_checked_look_up(own_look_up, look_up)
    replacements.replace(manager, "find_longest_cache_hit", classmethod(look_up))


def _first_feature(request: Any, start: int, block_size: int) -> int:
    """The first multimodal input that may reach into the tokens from `start` on."""
    last = request.mm_features[-1].mm_position
    if last.offset + last.length <= start:
        return 0
    first: int = get_mm_features_in_window(request.mm_features, start, start + block_size)[0]
    return first

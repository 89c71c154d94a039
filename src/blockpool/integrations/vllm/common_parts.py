"""What is replaced alike in both lines of vLLM: the block hashes, and the look-up of full attention."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any, Final

from vllm.utils import hashing
from vllm.v1.core import block_pool, kv_cache_utils, single_type_kv_cache_manager

from blockpool.integrations.vllm.checked_pool import make_checked_hasher, make_checked_look_up
from blockpool.integrations.vllm.full_attention import make_find_longest_cache_hit
from blockpool.integrations.vllm.replacement import Replacements, require_tested
from blockpool.integrations.vllm.request_hasher import HasherMaker

Requirement = tuple[Any, str, str]
"""A module or class, a name in it, and the fingerprint of what was tested."""

HASH_FUNCTIONS: Final = (
    (hashing, "sha256", "7602fdbc96c0"),
    (hashing, "sha256_cbor", "d71ef0ed409e"),
    (hashing, "xxhash", "b245f1cb5d65"),
    (hashing, "xxhash_cbor", "6a6c1546e82c"),
    (hashing, "_xxhash_digest", "64abad0ac636"),
)
"""What our hasher must give the bytes of; the same source in both lines."""


def is_replaced() -> bool:
    """Whether our parts are in place already."""
    return str(block_pool.BlockPool.__module__).startswith("blockpool.")


def require_all(relied_on: Iterable[Requirement]) -> None:
    """Looks whether all of it is as it was when this was tested.

    Raises:
        Incompatible: If something is not.
    """
    for owner, name, fingerprint in relied_on:
        require_tested(owner, name, fingerprint)


def replace_hasher(
    replacements: Replacements, fingerprint: str, first_feature: Callable[[Any, int, int], int], check: bool
) -> None:
    """Notes that requests are hashed by us.

    Args:
        fingerprint: Of vLLM's `get_request_block_hasher`.
        first_feature: See `HasherMaker`.
        check: Whether vLLM's own hashes are used, and ours compared with them.

    Raises:
        Incompatible: If vLLM's is not what was tested, or a hash function of it is not.
    """
    require_all(HASH_FUNCTIONS)
    own = require_tested(kv_cache_utils, "get_request_block_hasher", fingerprint)
    maker = HasherMaker(kv_cache_utils, hashing, own, first_feature)
    signature = inspect.signature(own)  # the lines have other names for the arguments

    def get_request_block_hasher(*arguments: Any, **named: Any) -> Any:
        block_size, hash_function = signature.bind(*arguments, **named).args
        ours = maker.make(block_size, hash_function)
        return make_checked_hasher(own(block_size, hash_function), ours) if check else ours

    replacements.replace(kv_cache_utils, "get_request_block_hasher", get_request_block_hasher)


def replace_look_up(
    replacements: Replacements, fingerprint: str, hit: Callable[..., Any], check: bool
) -> None:
    """Notes that prompts are looked up by us, where full attention is all there is to look at.

    Args:
        fingerprint: Of vLLM's `FullAttentionManager.find_longest_cache_hit`.
        hit: See `make_find_longest_cache_hit`.
        check: Whether vLLM's own hits are used, and ours compared with them.

    Raises:
        Incompatible: If vLLM's is not what was tested.
    """
    manager = single_type_kv_cache_manager.FullAttentionManager
    own = require_tested(manager, "find_longest_cache_hit", fingerprint).__func__
    look_up = make_find_longest_cache_hit(own, hit)
    if check:
        look_up = make_checked_look_up(own, look_up)
    replacements.replace(manager, "find_longest_cache_hit", classmethod(look_up))

"""What the managers refuse of a scheduler, before anything has changed."""

from __future__ import annotations

from collections.abc import Sequence

from blockpool.core.block import KVCacheBlock
from blockpool.core.pool import BlockPool
from blockpool.core.refusals import is_own, not_own
from blockpool.errors import ArgumentError, BlockStateError, ConfigError
from blockpool.kv_cache.types import KVCacheRequest


def num_idle(blocks: Sequence[KVCacheBlock], first: int) -> int:
    """How many of the blocks from number `first` on nobody holds: a hit on them takes them out of the free queue."""
    count = 0
    for block in blocks[first:] if first > 0 else blocks:
        if block.ref_cnt == 0 and not block.is_null:
            count += 1
    return count


def require_computed(blocks: Sequence[KVCacheBlock], num_blocks: int, pool: BlockPool) -> None:
    """Checks the computed blocks of one group: so many, of this pool, each null or still indexed. O(len(blocks)).

    Raises:
        ArgumentError: If something is not a block.
        BlockStateError: If a block belongs to another pool, or has been recycled since it was looked up.
        ConfigError: If it is another number of blocks.
    """
    if len(blocks) != num_blocks:
        raise ConfigError("new_computed_blocks", len(blocks), f"{num_blocks} blocks hold the computed tokens")
    owner = pool.free_block_queue.owner
    for item in blocks:
        if not isinstance(item, KVCacheBlock) or not is_own(item, owner):
            raise not_own("new_computed_blocks", item)
        if item._hash is None and not item.is_null:
            raise BlockStateError(item.block_id, "indexed since it was looked up", "it no longer is")


def require_hashes(request: KVCacheRequest, start: int, stop: int, factor: int) -> None:
    """Checks that the request has hashes for blocks start … stop - 1, each of `factor` hashes. O(stop - start).

    Raises:
        ArgumentError: If it has no sequence of bytes.
        ConfigError: If it has too few.
    """
    try:
        hashes = request.block_hashes
        count = len(hashes)
    except (AttributeError, TypeError):
        raise ArgumentError("request", request, "a sequence block_hashes is needed") from None
    if stop * factor > count:
        raise ConfigError("request.block_hashes", count, f"{stop * factor} are needed: one per full block")
    for position in range(start * factor, stop * factor):
        if not isinstance(hashes[position], bytes):
            raise ArgumentError("request.block_hashes", hashes[position], "bytes are needed")


def require_event_fields(request: KVCacheRequest, num_tokens: int) -> None:
    """Checks that the request has what events tell of its first tokens.

    Raises:
        ArgumentError: If it lacks tokens or LoRA.
        ConfigError: If it has fewer tokens.
    """
    try:
        tokens = request.all_token_ids
        count = len(tokens)
        last = len(tokens[num_tokens - 1 : num_tokens])
        lora = request.lora_request
        lora_id = None if lora is None else lora.adapter_id
        lora_name = None if lora is None else lora.name
    except (AttributeError, TypeError, KeyError) as error:
        raise ArgumentError("request", request, f"events need its tokens and LoRA: {error}") from None
    if count < num_tokens or last != 1:
        raise ConfigError("request.all_token_ids", count, f"{num_tokens} tokens are to be indexed")
    if lora_id is not None and not isinstance(lora_id, int):
        raise ArgumentError("request.lora_request.adapter_id", lora_id, "an integer is needed")
    if lora_name is not None and not isinstance(lora_name, str):
        raise ArgumentError("request.lora_request.name", lora_name, "a string is needed")


def as_request_id(request: KVCacheRequest) -> str:
    """The id of a request.

    Raises:
        ArgumentError: If it has none, or one that is no string.
    """
    try:
        request_id = request.request_id
    except AttributeError as error:
        raise ArgumentError("request", request, str(error)) from None
    if not isinstance(request_id, str):
        raise ArgumentError("request.request_id", request_id, "a string is needed")
    return request_id

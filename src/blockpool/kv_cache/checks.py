"""What the managers refuse of a scheduler, before anything has changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from mypy_extensions import i64

from blockpool.core.block import OWNER_MASK, KVCacheBlock, home_of
from blockpool.core.block_hash import coarse_hash
from blockpool.core.pool import BlockPool
from blockpool.core.refusals import first_stranger, is_own, not_own
from blockpool.errors import ArgumentError, BlockPoolError, BlockStateError, ConfigError
from blockpool.kv_cache.types import RequestArg


def num_idle(blocks: Sequence[KVCacheBlock], first: int, null_block: KVCacheBlock) -> int:
    """How many of the blocks from number `first` on nobody holds: a hit on them takes them out of the free queue."""
    count = 0
    for block in blocks[first:] if first > 0 else blocks:
        if block.ref_cnt == 0 and block is not null_block:
            count += 1
    return count


def require_computed(blocks: Sequence[object], num_blocks: int, pool: BlockPool, group_id: int) -> None:
    """Checks the computed blocks of one group: so many, of this pool, each null or still indexed. O(len(blocks)).

    The group only tells where to expect them: comparing with that is quicker.

    Raises:
        ArgumentError: If something is not a block.
        BlockStateError: If a block belongs to another pool, or has been recycled since it was looked up.
        ConfigError: If it is another number of blocks.
    """
    if len(blocks) != num_blocks:
        raise ConfigError("new_computed_blocks", len(blocks), f"{num_blocks} blocks hold the computed tokens")
    owner = pool.free_block_queue.owner
    null_block = pool.null_block
    home = home_of(owner, group_id)
    try:
        for block in cast("Sequence[KVCacheBlock]", blocks):
            if (
                block._hash is None or (block._home != home and block._home & OWNER_MASK != owner)
            ) and block is not null_block:
                raise _not_computed(block, owner)
    except (AttributeError, TypeError):  # how both builds tell what is no block
        raise not_own("new_computed_blocks", blocks[first_stranger(blocks)]) from None


def require_still_there(
    request: RequestArg, blocks: Sequence[KVCacheBlock], factor: int, pool: BlockPool
) -> None:
    """Checks that the last computed block still has the request's content, which it lost first if any did. O(1).

    Args:
        request: The request.
        blocks: Its computed blocks of one group, at least one.
        factor: Hashes per block.
        pool: Their pool.

    Raises:
        ArgumentError: If the request has no sequence of bytes.
        BlockStateError: If the block has been recycled and filled again since it was looked up.
        ConfigError: If the request has too few hashes.
    """
    last = len(blocks) - 1
    block = blocks[last]
    if block is pool.null_block:
        return
    require_hashes(request, last, last + 1, factor)
    if block._hash != coarse_hash(request.block_hashes, factor, last):
        raise BlockStateError(block.block_id, "filled as when it was looked up", "it holds something else")


def _not_computed(block: KVCacheBlock, owner: i64) -> BlockPoolError:
    if not is_own(block, owner):
        return not_own("new_computed_blocks", block)
    return BlockStateError(block.block_id, "indexed since it was looked up", "it no longer is")


def require_hashes(request: RequestArg, start: int, stop: int, factor: int) -> None:
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
    if not isinstance(hashes, list) and not isinstance(hashes, Sequence):
        raise ArgumentError("request.block_hashes", hashes, "a sequence of hashes is needed")
    if stop * factor > count:
        raise ConfigError("request.block_hashes", count, f"{stop * factor} are needed: one per full block")
    for block_hash in cast("Sequence[object]", hashes[start * factor : stop * factor]):
        if not isinstance(block_hash, bytes):
            raise ArgumentError("request.block_hashes", block_hash, "bytes are needed")


def require_event_fields(request: RequestArg, num_tokens: int) -> None:
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


def as_request_id(request: RequestArg) -> str:
    """The id of a request.

    Raises:
        ArgumentError: If it has none, or one that is no string.
    """
    try:
        request_id = request.request_id
    except AttributeError as error:
        raise ArgumentError("request", request, str(error)) from None
    return as_id("request.request_id", request_id)


def as_id(field: str, request_id: object) -> str:
    """The id of a request.

    Raises:
        ArgumentError: If it is no string.
    """
    if not isinstance(request_id, str):
        raise ArgumentError(field, request_id, "a string is needed")
    return request_id

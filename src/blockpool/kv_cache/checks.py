"""What the managers refuse of a scheduler, before anything has changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

from mypy_extensions import i64

from blockpool.core.arguments import as_count
from blockpool.core.block import KVCacheBlock, group_of, home_of
from blockpool.core.block_hash import coarse_hash
from blockpool.core.pool import BlockPool
from blockpool.core.refusals import first_stranger, is_own, not_own
from blockpool.errors import ArgumentError, BlockPoolError, BlockStateError, ConfigError
from blockpool.kv_cache.types import RequestArg

MAX_TOKENS: Final = 0x1FFFFFFFFFFFFF
"""Whatever counts tokens is at most that: sums and products of such numbers fit into machine words."""


def as_num_tokens(field: str, value: object) -> int:
    """A number of tokens, 0 … `MAX_TOKENS`.

    Raises:
        ArgumentError: For anything but an integer.
        ConfigError: If it is out of range.
    """
    number = as_count(field, value)
    if number > MAX_TOKENS:
        raise ConfigError(field, number, f"must be at most {MAX_TOKENS}")
    return number


def num_idle(blocks: Sequence[KVCacheBlock], first: int, null_block: KVCacheBlock) -> int:
    """How many of the blocks from number `first` on nobody holds: a hit on them takes them out of the free queue."""
    count = 0
    for block in blocks[first:] if first > 0 else blocks:
        if block.ref_cnt == 0 and block is not null_block:
            count += 1
    return count


def require_hits(
    request: RequestArg,
    blocks: Sequence[object],
    num_blocks: int,
    num_skipped: int,
    pool: BlockPool,
    group_id: int,
    factor: int,
) -> None:
    """Checks the computed blocks of one group: so many, each still holding what the request's hash there names.

    Null blocks stand only where attention does not look. O(num_blocks).

    Args:
        request: The request.
        blocks: Its computed blocks of the group.
        num_blocks: How many there must be.
        num_skipped: Of the first so many, any may be null.
        pool: Their pool.
        group_id: The group they must be indexed in.
        factor: Hashes per block.

    Raises:
        ArgumentError: If something is not a block, or the request has no sequence of bytes.
        BlockStateError: If a block belongs to another pool or group, is null, or has been recycled since it was looked
            up, and perhaps filled again.
        ConfigError: If it is another number of blocks, or the request has too few hashes.
    """
    if len(blocks) != num_blocks:
        raise ConfigError("new_computed_blocks", len(blocks), f"{num_blocks} blocks hold the computed tokens")
    if num_blocks == 0:
        return
    require_hashes(request, num_blocks, num_blocks, factor)
    hashes = request.block_hashes
    null_block = pool.null_block
    owner = pool.free_block_queue.owner
    home = home_of(owner, group_id)
    try:
        if num_skipped > 0:
            for position in range(num_skipped):
                block = cast("KVCacheBlock", blocks[position])
                if block is not null_block and (
                    block._home != home or block._hash != coarse_hash(hashes, factor, position)
                ):
                    raise _not_computed(block, owner, group_id)
            blocks = blocks[num_skipped:]
        if factor > 1 or num_skipped > 0:
            hashes = [coarse_hash(hashes, factor, position) for position in range(num_skipped, num_blocks)]
        # No `strict`: the hashes go on, and mypyc has a loop of its own for a plain zip.
        for block, block_hash in zip(cast("Sequence[KVCacheBlock]", blocks), hashes):  # noqa: B905
            if block._hash != block_hash or block._home != home:
                raise _not_computed(block, owner, group_id)
    except (
        AttributeError,
        TypeError,
        ValueError,
    ) as error:  # how both builds tell what is no block, or no hash
        if isinstance(error, BlockPoolError):
            raise
        require_hashes(request, 0, num_blocks, factor)
        raise not_own("new_computed_blocks", blocks[first_stranger(blocks)]) from None


def _not_computed(block: KVCacheBlock, owner: i64, group_id: int) -> BlockPoolError:
    if not isinstance(block, KVCacheBlock) or not is_own(block, owner):
        return not_own("new_computed_blocks", block)
    block_id = block.block_id
    if block.is_null:
        return BlockStateError(block_id, "a computed block", "it is the null block, where attention looks")
    if block._hash is None:
        return BlockStateError(block_id, "indexed since it was looked up", "it no longer is")
    if group_of(block._home) != group_id:
        found = f"it is of group {group_of(block._home)}"
        return BlockStateError(block_id, f"a computed block of group {group_id}", found)
    return BlockStateError(block_id, "filled as when it was looked up", "it holds something else")


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

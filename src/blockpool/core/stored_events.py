"""Makes the `BlockStored` events of blocks that are about to be indexed."""

from __future__ import annotations

from collections.abc import Sequence

from blockpool.core.arguments import as_list
from blockpool.core.block import KVCacheBlock
from blockpool.core.block_hash import external_block_hash
from blockpool.core.events import MEDIUM_GPU, BlockStored, ExternalBlockHash, KVCacheEvent
from blockpool.core.types import Request
from blockpool.errors import ArgumentError, ConfigError


def external(block_hash: bytes, as_integer: bool) -> ExternalBlockHash:
    """A hash in the form that events carry."""
    return external_block_hash(block_hash) if as_integer else block_hash


def stored_events(
    request: Request,
    blocks: list[KVCacheBlock],
    block_hashes: Sequence[bytes],
    parent_hash: bytes | None,
    first_block: int,
    block_size: int,
    int_block_hashes: bool,
) -> list[KVCacheEvent]:
    """One event per run of blocks with no null block in between, each with its true parent. Changes nothing.

    Args:
        request: Gives the tokens and the LoRA.
        blocks: The new blocks.
        block_hashes: Their hashes.
        parent_hash: Hash of the block before them, or None.
        first_block: Position of the first of them in the prompt.
        block_size: Tokens per block.
        int_block_hashes: Which form the hashes take.

    Raises:
        ArgumentError: If the request lacks an attribute.
        ConfigError: If it has fewer tokens than the blocks hold.
    """
    try:
        all_token_ids = request.all_token_ids
        lora = request.lora_request
        lora_id = None if lora is None else lora.adapter_id
        lora_name = None if lora is None else lora.name
    except AttributeError as error:
        raise ArgumentError("request", request, f"events need its tokens and LoRA: {error}") from None
    last_token = (first_block + len(blocks)) * block_size
    if last_token > len(all_token_ids):
        raise ConfigError("all_token_ids", len(all_token_ids), f"the full blocks hold {last_token} tokens")
    hashes = [external(block_hash, int_block_hashes) for block_hash in block_hashes]
    before = None if parent_hash is None else external(parent_hash, int_block_hashes)
    events: list[KVCacheEvent] = []
    count = len(blocks)
    start = 0
    while start < count:
        if blocks[start].is_null:
            start += 1
            continue
        stop = start + 1
        while stop < count and not blocks[stop].is_null:
            stop += 1
        parent = before if start == 0 else hashes[start - 1]
        tokens = all_token_ids[(first_block + start) * block_size : (first_block + stop) * block_size]
        token_ids = as_list("all_token_ids", tokens)
        events.append(
            BlockStored(hashes[start:stop], parent, token_ids, block_size, lora_id, MEDIUM_GPU, lora_name)  # type: ignore[arg-type]
        )
        start = stop
    return events

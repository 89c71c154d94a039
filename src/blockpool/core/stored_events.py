"""What the pool takes from a request, the hashes of its new blocks, and the events that tell of them."""

from __future__ import annotations

from collections.abc import Sequence

from blockpool.core.arguments import as_bytes, as_list
from blockpool.core.block import KVCacheBlock
from blockpool.core.block_hash import coarse_hash, external_block_hash
from blockpool.core.events import MEDIUM_GPU, BlockRemoved, BlockStored, ExternalBlockHash, KVCacheEvent
from blockpool.core.refusals import not_own
from blockpool.core.types import Request
from blockpool.errors import ArgumentError, ConfigError


def new_block_hashes(request: Request, start: int, stop: int, factor: int) -> tuple[list[object], int]:
    """The hashes of blocks start … stop - 1 and of the one before, each of `factor` fine hashes.

    Returns:
        A list and the position of its first entry in the prompt; the request's own list when that serves.

    Raises:
        ArgumentError: If the request has no sequence of hashes.
        ConfigError: If it has too few.
    """
    try:
        hashes = request.block_hashes
        count = len(hashes)
    except (AttributeError, TypeError):
        raise ArgumentError("request", request, "a sequence block_hashes is needed") from None
    if not isinstance(hashes, list) and (
        isinstance(hashes, (str, bytes, bytearray, memoryview)) or not isinstance(hashes, Sequence)
    ):
        raise ArgumentError("request.block_hashes", hashes, "a sequence of hashes is needed")
    if stop * factor > count:
        raise ConfigError("num_full_blocks", stop, f"there are hashes for {count // factor} blocks")
    if factor == 1 and isinstance(hashes, list):
        return hashes, 0
    first = max(start - 1, 0)
    return [coarse_hash(hashes, factor, position) for position in range(first, stop)], first


def removed_events(block_hashes: list[bytes], int_block_hashes: bool) -> list[KVCacheEvent]:
    """One event per hash that was dropped from the index."""
    return [BlockRemoved([_event_hash(digest, int_block_hashes)], MEDIUM_GPU) for digest in block_hashes]


def stored_events(
    request: Request,
    blocks: list[object],
    block_hashes: list[object],
    first: int,
    start: int,
    stop: int,
    block_size: int,
    int_block_hashes: bool,
) -> list[KVCacheEvent]:
    """One event per run of `blocks[start:stop]` with no null block in between, with its true parent. Changes nothing.

    Args:
        request: Gives the tokens and the LoRA.
        blocks: All blocks of the request.
        block_hashes: Hashes of its blocks from number `first` on.
        first: At most start - 1, or 0.
        start: First of the new blocks.
        stop: End of the new blocks.
        block_size: Tokens per block.
        int_block_hashes: Which form the hashes take.

    Raises:
        ArgumentError: If the request lacks tokens or LoRA, or something is no block or no hash.
        ConfigError: If there are fewer tokens than the blocks hold.
    """
    try:
        all_token_ids = request.all_token_ids
        num_tokens = len(all_token_ids)
        lora = request.lora_request
        lora_id = None if lora is None else lora.adapter_id
        lora_name = None if lora is None else lora.name
    except (AttributeError, TypeError) as error:
        raise ArgumentError("request", request, f"events need its tokens and LoRA: {error}") from None
    if lora_id is not None and not isinstance(lora_id, int):
        raise ArgumentError("lora_request.adapter_id", lora_id, "an integer is needed")
    if lora_name is not None and not isinstance(lora_name, str):
        raise ArgumentError("lora_request.name", lora_name, "a string is needed")
    if stop * block_size > num_tokens:
        raise ConfigError("all_token_ids", num_tokens, f"the full blocks hold {stop * block_size} tokens")
    events: list[KVCacheEvent] = []
    while start < stop:
        end = _end_of_run(blocks, start, stop)
        if end > start:
            hashes = [_event_hash(block_hashes[i - first], int_block_hashes) for i in range(start, end)]
            parent = None if start == 0 else _event_hash(block_hashes[start - 1 - first], int_block_hashes)
            tokens = _token_slice(all_token_ids, start * block_size, end * block_size)
            events.append(
                BlockStored(hashes, parent, tokens, block_size, lora_id, MEDIUM_GPU, lora_name)  # type: ignore[arg-type]
            )
        start = end + 1
    return events


def _token_slice(all_token_ids: Sequence[int], start: int, stop: int) -> list[object]:
    """Tokens start … stop - 1 of the request."""
    try:
        tokens = as_list("all_token_ids", all_token_ids[start:stop])
    except (TypeError, KeyError):
        raise ArgumentError("all_token_ids", all_token_ids, "a sequence of tokens is needed") from None
    if len(tokens) != stop - start:
        raise ConfigError("all_token_ids", len(tokens), f"tokens {start} to {stop - 1} were asked for")
    return tokens


def _end_of_run(blocks: list[object], start: int, stop: int) -> int:
    """Position of the first null block from `start` on, or `stop`."""
    for position in range(start, stop):
        block = blocks[position]
        if not isinstance(block, KVCacheBlock):
            raise not_own("blocks", block)
        if block.is_null:
            return position
    return stop


def _event_hash(block_hash: object, as_integer: bool) -> ExternalBlockHash:
    """A hash in the form that events carry."""
    digest = as_bytes("block_hashes", block_hash)
    return external_block_hash(digest) if as_integer else digest

"""What the pool takes from a request: the hashes of its new blocks, and what its events tell of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from blockpool.core.arguments import as_bytes, as_list
from blockpool.core.block import KVCacheBlock
from blockpool.core.block_hash import coarse_hash
from blockpool.core.event_log import StoredRun
from blockpool.core.group_index import GroupIndex
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


def stored_run(
    request: Request, block_hashes: list[object], first: int, start: int, stop: int, block_size: int
) -> StoredRun:
    """What events tell of the blocks start … stop - 1, if none of them is left out. Changes nothing.

    Args:
        request: Gives the tokens and the LoRA.
        block_hashes: Hashes of its blocks from number `first` on.
        first: At most start - 1, or 0.
        start: First of the new blocks.
        stop: End of the new blocks.
        block_size: Tokens per block.

    Raises:
        ArgumentError: If the request lacks tokens or LoRA, or a hash is not bytes.
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
    parent = None if start == 0 else as_bytes("block_hashes", block_hashes[start - 1 - first])
    hashes = block_hashes[start - first : stop - first]
    for digest in hashes:
        if not isinstance(digest, bytes):
            raise ArgumentError("block_hashes", digest, "bytes are needed")
    tokens = _token_slice(all_token_ids, start * block_size, stop * block_size)
    return StoredRun(hashes, parent, tokens, block_size, lora_id, lora_name)


def runs_without(run: StoredRun, blocks: list[object], start: int, known: set[object] | None) -> list[object]:
    """The run in pieces: `blocks[start:]` are its blocks, and those that are null or known are left out."""
    pieces: list[object] = []
    begin = 0
    num_blocks = len(run.block_hashes)
    for offset in range(num_blocks):
        block = blocks[start + offset]
        if (isinstance(block, KVCacheBlock) and block.is_null) or (known is not None and offset in known):
            if begin < offset:
                pieces.append(run.piece(begin, offset))
            begin = offset + 1
    if begin < num_blocks:
        pieces.append(run.piece(begin, num_blocks))
    return pieces


def known_blocks(run: StoredRun, blocks: list[object], start: int, index: GroupIndex) -> set[object]:
    """Which of its blocks, `blocks[start:]`, counted from 0, have a hash that is indexed, or that one before them has.

    Null blocks are not indexed: their hash counts for nothing.
    """
    met: set[object] = set()
    found: set[object] = set()
    for offset, digest in enumerate(cast("list[bytes]", run.block_hashes)):
        block = blocks[start + offset]
        if isinstance(block, KVCacheBlock) and block.is_null:
            continue
        if digest in met or index.get(digest) is not None:
            found.add(offset)
        met.add(digest)
    return found


def _token_slice(all_token_ids: Sequence[int], start: int, stop: int) -> list[object]:
    """Tokens start … stop - 1 of the request."""
    try:
        tokens = as_list("all_token_ids", all_token_ids[start:stop])
    except (TypeError, KeyError):
        raise ArgumentError("all_token_ids", all_token_ids, "a sequence of tokens is needed") from None
    if len(tokens) != stop - start:
        raise ConfigError("all_token_ids", len(tokens), f"tokens {start} to {stop - 1} were asked for")
    return tokens

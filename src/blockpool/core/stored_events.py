"""What the pool takes from a request: the hashes of its new blocks, and what its events tell of them."""

from __future__ import annotations

from collections.abc import Sequence

from blockpool.core.arguments import as_bytes, as_list
from blockpool.core.block import KVCacheBlock
from blockpool.core.block_hash import coarse_hash
from blockpool.core.event_log import StoredRun
from blockpool.core.group_index import GroupIndex
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
    if isinstance(hashes, (str, bytes, bytearray, memoryview)) or not isinstance(hashes, Sequence):
        raise ArgumentError("request.block_hashes", hashes, "a sequence of hashes is needed")
    if stop * factor > count:
        raise ConfigError("num_full_blocks", stop, f"there are hashes for {count // factor} blocks")
    if factor == 1 and isinstance(hashes, list):
        return hashes, 0
    first = max(start - 1, 0)
    return [coarse_hash(hashes, factor, position) for position in range(first, stop)], first


def stored_runs(
    request: Request,
    blocks: list[object],
    block_hashes: list[object],
    first: int,
    start: int,
    stop: int,
    block_size: int,
    known: GroupIndex | None,
) -> list[object]:
    """One `StoredRun` per run of `blocks[start:stop]` with no block left out in between. Changes nothing.

    Args:
        request: Gives the tokens and the LoRA.
        blocks: All blocks of the request.
        block_hashes: Hashes of its blocks from number `first` on.
        first: At most start - 1, or 0.
        start: First of the new blocks.
        stop: End of the new blocks.
        block_size: Tokens per block.
        known: Null blocks are left out; when this is an index, so are blocks whose hash is in it, or was met before.

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
    left_out = None if known is None else _known_positions(known, block_hashes, first, start, stop)
    runs: list[object] = []
    while start < stop:
        end = _end_of_run(blocks, start, stop, left_out)
        if end > start:
            parent = None if start == 0 else as_bytes("block_hashes", block_hashes[start - 1 - first])
            tokens = _token_slice(all_token_ids, start * block_size, end * block_size)
            hashes = block_hashes[start - first : end - first]
            for digest in hashes:
                if not isinstance(digest, bytes):
                    raise ArgumentError("block_hashes", digest, "bytes are needed")
            runs.append(StoredRun(hashes, parent, tokens, block_size, lora_id, lora_name))
        start = end + 1
    return runs


def _known_positions(
    known: GroupIndex, block_hashes: list[object], first: int, start: int, stop: int
) -> set[int]:
    """Which of the blocks start … stop - 1 have a hash that is in the index, or was met before in the range."""
    met: set[bytes] = set()
    positions: set[int] = set()
    for position in range(start, stop):
        digest = as_bytes("block_hashes", block_hashes[position - first])
        if digest in met or known.get(digest) is not None:
            positions.add(position)
        met.add(digest)
    return positions


def _token_slice(all_token_ids: Sequence[int], start: int, stop: int) -> list[object]:
    """Tokens start … stop - 1 of the request."""
    try:
        tokens = as_list("all_token_ids", all_token_ids[start:stop])
    except (TypeError, KeyError):
        raise ArgumentError("all_token_ids", all_token_ids, "a sequence of tokens is needed") from None
    if len(tokens) != stop - start:
        raise ConfigError("all_token_ids", len(tokens), f"tokens {start} to {stop - 1} were asked for")
    return tokens


def _end_of_run(blocks: list[object], start: int, stop: int, left_out: set[int] | None) -> int:
    """Position of the first block from `start` on that is null or left out, or `stop`."""
    for position in range(start, stop):
        block = blocks[position]
        if not isinstance(block, KVCacheBlock):
            raise not_own("blocks", block)
        if block.is_null or (left_out is not None and position in left_out):
            return position
    return stop

"""Cache keys of a request's blocks: what `BlockPool` looks up and indexes."""

from __future__ import annotations

from typing import Any

from blockpool.core.extra_keys import block_extra_keys
from blockpool.core.hasher import BlockHasher
from blockpool.trace.request import TraceRequest

REPLAY_SEED = "blockpool-replay"

_ID_BYTES = 9  # one more than 64 bits, so that signed and unsigned ids never meet


class KeyMaker:
    """Makes cache keys.

    A trace with block ids already says which prefixes are equal: the key is the id, as nine bytes. A trace
    with token ids is hashed, block by block, with adapter, salt and images as extra keys and always the same seed.
    """

    def __init__(self, hash_algorithm: str, *, plain_ids: bool = False) -> None:
        """Starts without a block size; the first request with tokens brings it.

        Args:
            hash_algorithm: One of `HASH_ALGORITHMS`.
            plain_ids: The key of a block id is the id itself: for whoever keeps an index of his own.
        """
        self._hash_algorithm = hash_algorithm
        self._plain_ids = plain_ids
        self._hasher: BlockHasher | None = None

    def prompt_keys(self, request: TraceRequest) -> list[Any]:
        """Keys of all blocks of the prompt, the partial last one included."""
        if request.block_ids is not None:
            return self._id_keys(request.block_ids)
        assert request.token_ids is not None
        return self._token_keys(request, request.token_ids, with_partial=True)

    def full_keys(self, request: TraceRequest, num_tokens: int) -> list[Any]:
        """Keys of the full blocks among the first tokens of prompt and output.

        Args:
            num_tokens: How many tokens have their KV computed; at least `prompt_tokens` when the request has
                tokens, exactly that when it has block ids.
        """
        if request.block_ids is not None:
            return self._id_keys(request.block_ids[: num_full_blocks(request)])
        assert request.token_ids is not None
        tokens = request.token_ids
        if request.output_token_ids:
            tokens = (tokens + request.output_token_ids)[:num_tokens]
        return self._token_keys(request, tokens, with_partial=False)

    def _token_keys(self, request: TraceRequest, tokens: list[int], *, with_partial: bool) -> list[bytes]:
        hasher = self._hasher_for(request)
        block_size = hasher.block_size
        num_full = len(tokens) // block_size
        full_extra, tail_extra = None, None
        if request.lora is not None or request.salt is not None or request.images:
            *full_extra, tail_extra = block_extra_keys(
                num_full + 1,
                block_size,
                lora_name=request.lora,
                mm_inputs=request.images or (),
                cache_salt=request.salt,
            )
        keys: list[bytes] = list(hasher.hash_tokens(tokens, None, full_extra))
        tail = tokens[num_full * block_size :]
        if with_partial and tail:
            keys.append(hasher.hash_block(keys[-1] if keys else None, tail, tail_extra))
        return keys

    def _id_keys(self, block_ids: list[int]) -> list[Any]:
        if self._plain_ids:
            return block_ids
        return [block_id.to_bytes(_ID_BYTES, "big", signed=True) for block_id in block_ids]

    def _hasher_for(self, request: TraceRequest) -> BlockHasher:
        assert request.block_size is not None
        if self._hasher is None or self._hasher.block_size != request.block_size:
            self._hasher = BlockHasher(self._hash_algorithm, request.block_size, REPLAY_SEED)
        return self._hasher


def num_full_blocks(request: TraceRequest) -> int:
    """Full blocks of a prompt: all but the last, and the last when it is as large as a block.

    When the trace gives tokens per block and no block size, the largest block of the request is the measure.
    """
    if request.block_tokens is None:
        assert request.block_size is not None
        return request.prompt_tokens // request.block_size
    full_size = request.block_size or max(request.block_tokens)
    return len(request.block_tokens) - (request.block_tokens[-1] < full_size)

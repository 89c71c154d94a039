"""The block hashes of vLLM's requests, byte for byte, a whole prompt in one call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from blockpool.core.hasher import BlockHasher
from blockpool.errors import BlockPoolError, MissingExtraError
from blockpool.integrations.vllm.chain_memory import ChainMemory, Keys

Hashes = list[bytes]
RequestHasher = Callable[[Any], Hashes]

ALGORITHMS = ("sha256", "sha256_cbor", "xxhash", "xxhash_cbor")
"""The names of vLLM's hash functions, in `vllm.utils.hashing` as here."""


class HasherMaker:
    """`get_request_block_hasher`, in vLLM's place.

    Args:
        utils: vLLM's module `kv_cache_utils`, which has the root of all chains and makes the extra keys.
        hashing: vLLM's module of hash functions.
        own: vLLM's own `get_request_block_hasher`, for hash functions that are not among `ALGORITHMS`.
        first_feature: Number of the first multimodal input that may reach into tokens from `start` on, of a request
            whose earlier blocks are hashed.
    """

    def __init__(
        self,
        utils: Any,
        hashing: Any,
        own: Callable[[int, Any], RequestHasher],
        first_feature: Callable[[Any, int, int], int],
    ) -> None:
        self._utils = utils
        self._own = own
        self._first_feature = first_feature
        self._names = {getattr(hashing, name, None): name for name in ALGORITHMS}

    def make(self, block_size: int, hash_function: Any) -> RequestHasher:
        """A function from a request to the hashes of its blocks that are full and have none yet."""
        own = self._own(block_size, hash_function)
        name = self._names.get(hash_function)
        if name is None:
            return own
        try:
            hasher = BlockHasher(name, block_size, key_schema="untagged")
        except MissingExtraError:
            return own
        return self._hasher_of(hasher, block_size, own)

    def _hasher_of(self, hasher: BlockHasher, block_size: int, own: RequestHasher) -> RequestHasher:
        utils = self._utils
        memory = ChainMemory(hasher)

        def request_block_hasher(request: Any) -> Hashes:
            known = request.block_hashes
            start = len(known) * block_size
            stop = request.num_tokens // block_size * block_size
            if stop <= start:
                return []
            parent = known[-1] if known else utils.NONE_HASH
            tokens = request.all_token_ids[start:stop]
            try:
                if request.mm_features or request.prompt_embeds is not None:
                    keys = self._keys_of_inputs(request, start, stop, block_size)
                    return list(hasher.hash_tokens(tokens, parent, keys))
                first, other = self._keys(request, start, block_size)
                if first == other:
                    return memory.hash_tokens(tokens, parent, other)
                hashes = list(hasher.hash_tokens(tokens[:block_size], parent, [first]))
                return hashes + memory.hash_tokens(tokens[block_size:], hashes[0], other)
            except BlockPoolError:  # tokens or keys that only vLLM's form can hold
                return own(request)

        return request_block_hasher

    def _keys(self, request: Any, start: int, block_size: int) -> tuple[Keys, Keys]:
        """The extra keys of the block at `start`, and of each one after it, of a request that is tokens alone.

        An adapter is in the keys of all of them, a salt in those of the first of a prompt.
        """
        if request.lora_request is None and (start or not request.cache_salt):
            return None, None
        generate = self._utils.generate_block_hash_extra_keys
        first, _ = generate(request, start, start + block_size, 0)
        other, _ = generate(request, start + block_size, start + 2 * block_size, 0)
        return first, other

    def _keys_of_inputs(self, request: Any, start: int, stop: int, block_size: int) -> list[Keys]:
        """The extra keys of each block, as vLLM makes them."""
        keys: list[Keys] = []
        position = self._first_feature(request, start, block_size) if start and request.mm_features else 0
        for at in range(start, stop, block_size):
            entry, position = self._utils.generate_block_hash_extra_keys(
                request, at, at + block_size, position
            )
            keys.append(entry)
        return keys

"""`ChainMemory`: block hashes of runs of tokens that were hashed lately, so that a shared prefix is hashed once."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, final

from blockpool.core.hasher import BlockHasher
from blockpool.core.tokens import pack_tokens

Keys = tuple[object, ...] | None

CHUNK_TOKENS: Final = 1024
MAX_CHUNKS: Final = 2048
"""Two million tokens; with their hashes some 20 MB in blocks of 16, and more in smaller ones."""


@final
class ChainMemory:
    """Hashes runs of blocks that have the same extra keys, a chunk at a time, and keeps the chunks that were used last.

    A chunk is found by the hash before it, by its keys and by all its tokens, which are compared: what it gives is what
    hashing it again would give. May be used from several threads.

    Args:
        hasher: Hashes what is not known.
        chunk_tokens: Tokens per chunk, as many whole blocks as fit, but at least one.
        max_chunks: So many are kept.
    """

    def __init__(
        self, hasher: BlockHasher, chunk_tokens: int = CHUNK_TOKENS, max_chunks: int = MAX_CHUNKS
    ) -> None:
        self._hasher = hasher
        self._width = max(chunk_tokens // hasher.block_size, 1) * hasher.block_size
        self._max_chunks = max_chunks
        self._known: OrderedDict[tuple[bytes, bytes, Keys], list[bytes]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def hash_tokens(self, token_ids: list[int], parent: bytes, keys: Keys = None) -> list[bytes]:
        """One hash per block, as `BlockHasher.hash_tokens` gives them; raises as it does.

        Args:
            token_ids: Whole blocks.
            parent: Hash of the block before the first.
            keys: The extra keys of each of the blocks, if they have any.
        """
        width = self._width
        num_whole = len(token_ids) // width * width
        hashes: list[bytes] = []
        if num_whole:
            packed = pack_tokens(token_ids)
            for start in range(0, num_whole, width):
                found = self._chunk(token_ids, packed, start, parent, keys)
                hashes += found
                parent = found[-1]
        if num_whole < len(token_ids):
            hashes += self._hash(token_ids[num_whole:], parent, keys)
        return hashes

    def _hash(self, token_ids: list[int], parent: bytes, keys: Keys) -> list[bytes]:
        """Without a look at what is known."""
        each = None if keys is None else [keys] * (len(token_ids) // self._hasher.block_size)
        return list(self._hasher.hash_tokens(token_ids, parent, each))

    def _chunk(
        self, token_ids: list[int], packed: bytes, start: int, parent: bytes, keys: Keys
    ) -> list[bytes]:
        stop = start + self._width
        key = (parent, packed[4 * start : 4 * stop], keys)
        found = self._known.get(key)
        if found is None:
            found = self._hash(token_ids[start:stop], parent, keys)
            self._known[key] = found
            if len(self._known) > self._max_chunks:
                self._known.popitem(last=False)
            return found
        try:
            self._known.move_to_end(key)
        except KeyError:  # another thread has just dropped it
            pass
        return found

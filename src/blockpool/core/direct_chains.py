"""Chains of block hashes in the compiled build: from tokens to hashes in one pass, through the direct writers.

A list of tokens is read once, straight into the block that is being written: memory for the tokens of a whole prompt
in between takes more time than it saves.
"""

from __future__ import annotations

import sys
from typing import Final, cast, final

from librt.strings import read_i32_le, read_i64_le
from mypy_extensions import i64

from blockpool.core.blake2b import Blake2bBlocks
from blockpool.core.chains import Form, Keys, Run
from blockpool.core.digests import Digest, blake2b_digest, sha256_digest
from blockpool.core.encoding import cbor_value, pickle_tail, raw_tail
from blockpool.core.tokens import MAX_TOKEN_ID, are_token_ids, pack_list
from blockpool.core.writers import (
    MAX_WRITTEN,
    MIN_WRITTEN,
    BlockWriter,
    CborWriter,
    PickleWriter,
    RawWordsWriter,
    RawWriter,
)

_SHA256: Final = 1
_BLAKE2B: Final = 2


@final
class DirectChains:
    """Hashes chains of blocks of one serialised form with one digest function."""

    def __init__(self, form: Form, digest: Digest) -> None:
        self._pickled: bool = form == "pickle"
        self._raw: bool = form == "raw"
        self._digest: Digest = digest
        self._known: int = 0
        if digest is sha256_digest:
            self._known = _SHA256
        elif digest is blake2b_digest:
            self._known = _BLAKE2B

    def hash(
        self, parent: bytes, tokens: list[object] | bytes, size: int, runs: list[Run]
    ) -> list[bytes] | None:
        """One hash per block.

        Args:
            parent: Hash of the block before the first.
            tokens: As `token_values` gives them.
            size: Tokens per block, at least 1.
            runs: Ranges start … stop - 1 of blocks, one joining the next, with the canonical extra keys that they have.

        Returns:
            None if no writer writes such blocks.

        Raises:
            ArgumentError, ConfigError: As `pack_tokens`.
        """
        if not runs and isinstance(tokens, list) and are_token_ids(tokens):
            return []
        tails: list[bytes] = []
        longest: i64 = 0
        for _start, _stop, keys in runs:
            tail = self._tail(keys, size)
            tails.append(tail)
            length: i64 = len(tail)
            if length > longest:
                longest = length
        writer = self._writer(size, len(parent), longest)
        if writer is None:
            return None
        if isinstance(tokens, list):
            chain = _Chain(writer, self._digest, self._known, parent, runs, tails)
            if _hash_list(chain, writer, tokens):
                return chain.hashes
            tokens = pack_list(tokens)  # integers of another type, or the error
        chain = _Chain(writer, self._digest, self._known, parent, runs, tails)
        _hash_packed(chain, writer, tokens)
        return chain.hashes

    def _tail(self, keys: Keys, size: int) -> bytes:
        if self._raw:
            return raw_tail(keys, size)
        return pickle_tail(keys) if self._pickled else cbor_value(keys)

    def _writer(self, size: int, parent_size: int, longest_tail: i64) -> BlockWriter | None:
        if self._pickled:
            fits = MIN_WRITTEN <= size <= MAX_WRITTEN and longest_tail <= MAX_WRITTEN
            return PickleWriter(size) if fits else None
        if not self._raw:
            return CborWriter(size)
        if longest_tail or size % 2 or parent_size % 8 or sys.byteorder != "little":
            return RawWriter(size)
        if self._known == _BLAKE2B:
            return Blake2bBlocks(size)
        return RawWordsWriter(size, parent_size // 8)


@final
class _Chain:
    """The hashes so far, and what the next block needs."""

    def __init__(
        self,
        writer: BlockWriter,
        digest: Digest,
        known: int,
        parent: bytes,
        runs: list[Run],
        tails: list[bytes],
    ) -> None:
        self.hashes: list[bytes] = []
        self._writer: BlockWriter = writer
        self._blake2b: Blake2bBlocks | None = writer if isinstance(writer, Blake2bBlocks) else None
        self._digest: Digest = digest
        self._known: int = known
        self._parent: bytes = parent
        self._runs: list[Run] = runs
        self._tails: list[bytes] = tails
        self._tail: bytes = b""
        self._run: i64 = 0  # number of the next run
        self._left: i64 = 0  # blocks of this one

    def add_block(self) -> bool:
        """Hashes the block whose tokens the writer has; false if there are no more to hash, and this is none."""
        if not self._left and not self._next_run():
            return False
        self._left -= 1
        if self._blake2b is not None:
            block_hash = self._blake2b.block_hash(self._parent)
        elif self._known == _SHA256:
            block_hash = sha256_digest(self._writer.block(self._parent, self._tail))
        else:
            block_hash = self._digest(self._writer.block(self._parent, self._tail))
        self._parent = block_hash
        self.hashes.append(block_hash)
        return True

    def _next_run(self) -> bool:
        run = self._run
        if run == len(self._runs):
            return False
        start, stop, _keys = self._runs[run]
        self._tail = self._tails[run]
        self._left = stop - start
        self._run = run + 1
        return True


def _hash_list(chain: _Chain, writer: BlockWriter, tokens: list[object]) -> bool:
    """False if one of the tokens is out of range or not of type int."""
    words = writer.words
    first = writer.first
    size = writer.size
    place: i64 = 0  # in the block
    low: i64 = 0  # the token before, if it waits for its other half
    seen: i64 = 0  # all bits that any token has
    try:
        for token in cast("list[i64]", tokens):  # straight to a machine word
            seen |= token
            if place & 1:
                words[first + (place >> 1)] = low | token << 32
            else:
                low = token
            place += 1
            if place == size:
                if size & 1:
                    words[first + (place >> 1)] = low
                if seen < 0 or seen > MAX_TOKEN_ID:
                    return False
                if not chain.add_block():
                    break
                place = 0
    except (OverflowError, TypeError, ValueError):  # beyond 64 bits, or no integer
        return False
    return 0 <= seen <= MAX_TOKEN_ID


def _hash_packed(chain: _Chain, writer: BlockWriter, packed: bytes) -> None:
    words = writer.words
    end: i64 = len(packed)
    width = 4 * writer.size
    start: i64 = 0
    while start + width <= end:
        stop = start + width
        offset = start
        word = writer.first
        while offset + 8 <= stop:
            words[word] = read_i64_le(packed, offset)
            word += 1
            offset += 8
        if offset < stop:
            words[word] = i64(read_i32_le(packed, offset)) & MAX_TOKEN_ID
        chain.add_block()
        start = stop

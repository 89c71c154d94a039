"""Chains of block hashes in the compiled build: from tokens to hashes in one pass, through the direct writers.

A list of tokens is read once, straight into the block that is being written: memory for the tokens of a whole prompt
in between takes more time than it saves.
"""

from __future__ import annotations

import sys
from typing import Final, cast

from librt.strings import read_i32_le, read_i64_le
from mypy_extensions import i64

from blockpool.core.chains import Keys
from blockpool.core.digests import Digest, blake2b_digest, sha256_digest
from blockpool.core.encoding import cbor_value, pickle_tail, raw_tail
from blockpool.core.tokens import MAX_TOKEN_ID, pack_list
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


def hash_directly(
    form: str,
    digest: Digest,
    parent: bytes,
    tokens: list[object] | bytes,
    size: int,
    runs: list[tuple[int, int, Keys]],
) -> list[bytes] | None:
    """One hash per block.

    Args:
        form: "pickle", "cbor" or "raw".
        digest: Of `digests`.
        parent: Hash of the block before the first.
        tokens: As `token_values` gives them.
        size: Tokens per block, at least 1.
        runs: Ranges start … stop - 1 of blocks, one joining the next, with the canonical extra keys that they have.

    Returns:
        None if no writer can write such blocks.

    Raises:
        ArgumentError, ConfigError: As `pack_tokens`.
    """
    tails = [_tail(form, keys, size) for _, _, keys in runs]
    writer = _writer(form, size, len(parent), tails)
    if writer is None:
        return None
    stops = [stop for _, stop, _ in runs]
    if isinstance(tokens, list):
        hashes = _hash_list(writer, digest, parent, tokens, tails, stops)
        if hashes is not None:
            return hashes
        tokens = pack_list(tokens)  # integers of another type, or the error
    return _hash_packed(writer, digest, parent, tokens, tails, stops)


def _tail(form: str, keys: Keys, size: int) -> bytes:
    if form == "pickle":
        return pickle_tail(keys)
    return cbor_value(keys) if form == "cbor" else raw_tail(keys, size)


def _writer(form: str, size: int, parent_size: int, tails: list[bytes]) -> BlockWriter | None:
    if form == "pickle":
        short = MIN_WRITTEN <= size <= MAX_WRITTEN and max(map(len, tails), default=0) <= MAX_WRITTEN
        return PickleWriter(size) if short else None
    if form == "cbor":
        return CborWriter(size)
    if size % 2 or parent_size % 8 or any(tails) or sys.byteorder != "little":
        return RawWriter(size)
    return RawWordsWriter(size, parent_size // 8)


def _hash_list(
    writer: BlockWriter,
    digest: Digest,
    parent: bytes,
    tokens: list[object],
    tails: list[bytes],
    stops: list[int],
) -> list[bytes] | None:
    """`hash_directly`; None if one of the tokens is out of range or not of type int."""
    hashes: list[bytes] = []
    words = writer.words
    first = writer.first
    size = writer.size
    known = _known(digest)
    tail = b""
    run: i64 = 0
    block: i64 = 0
    stop: i64 = 0
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
                    return None
                if block == stop:
                    if run == len(stops):
                        break
                    stop, tail = stops[run], tails[run]
                    run += 1
                data = writer.block(parent, tail)
                if known == _SHA256:
                    parent = sha256_digest(data)
                else:
                    parent = blake2b_digest(data) if known == _BLAKE2B else digest(data)
                hashes.append(parent)
                block += 1
                place = 0
    except (OverflowError, TypeError, ValueError):  # beyond 64 bits, or no integer
        return None
    return hashes if 0 <= seen <= MAX_TOKEN_ID else None


def _hash_packed(
    writer: BlockWriter,
    digest: Digest,
    parent: bytes,
    packed: bytes,
    tails: list[bytes],
    stops: list[int],
) -> list[bytes]:
    """`hash_directly`."""
    hashes: list[bytes] = []
    words = writer.words
    known = _known(digest)
    offset: i64 = 0
    block: i64 = 0
    for run in range(len(stops)):
        stop: i64 = stops[run]
        tail = tails[run]
        while block < stop:
            end = offset + 4 * writer.size
            word = writer.first
            while offset + 8 <= end:
                words[word] = read_i64_le(packed, offset)
                word += 1
                offset += 8
            if offset < end:
                words[word] = i64(read_i32_le(packed, offset)) & MAX_TOKEN_ID
                offset += 4
            data = writer.block(parent, tail)
            if known == _SHA256:
                parent = sha256_digest(data)
            else:
                parent = blake2b_digest(data) if known == _BLAKE2B else digest(data)
            hashes.append(parent)
            block += 1
    return hashes


def _known(digest: Digest) -> int:
    """Which of the functions that the compiler can call directly; 0 for none."""
    if digest is sha256_digest:
        return _SHA256
    return _BLAKE2B if digest is blake2b_digest else 0

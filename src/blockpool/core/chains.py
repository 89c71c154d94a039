"""Chains of block hashes, one function per serialised form.

All take the same arguments: the digest function, the hash of the block before, all tokens as `pack_tokens` gives them,
tokens per block (at least 1), the range start … stop - 1 of blocks to hash, and the canonical extra keys that each of
these blocks has, or None. They return one hash per block.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Callable
from hashlib import blake2b, sha256
from typing import Any, Final, TypeAlias

from blockpool.core.build import COMPILED
from blockpool.core.encoding import (
    CborTokens,
    cbor_head,
    cbor_value,
    pickle_block,
    pickle_tail,
    raw_tail,
)
from blockpool.core.writers import MAX_WRITTEN, MIN_WRITTEN, CborWriter, PickleWriter, RawWriter

Digest: TypeAlias = Callable[[bytes], bytes]
Keys: TypeAlias = tuple[object, ...] | None
Chain: TypeAlias = Callable[[Digest, bytes, bytes, int, int, int, Keys], list[bytes]]

_BLAKE2B: Final[Any] = blake2b(digest_size=32, person=b"blockpool raw 1")
_SHA256: Final[Any] = sha256()
_new_sha256: Final[Callable[[], Any]] = _SHA256.copy
_update_sha256: Final[Callable[[Any, bytes], None]] = type(_SHA256).update
_finish_sha256: Final[Callable[[Any], bytes]] = type(_SHA256).digest
_cbor_tokens = CborTokens()


def sha256_digest(data: bytes) -> bytes:
    """SHA-256, 32 bytes. Copying a state takes less time than making one: OpenSSL looks the algorithm up for that."""
    state = _new_sha256()
    _update_sha256(state, data)
    return _finish_sha256(state)


def blake2b_digest(data: bytes) -> bytes:
    """BLAKE2b, 32 bytes, personalised so that it is nobody else's."""
    state = _BLAKE2B.copy()
    state.update(data)
    digest: bytes = state.digest()
    return digest


def raw_chain(
    digest: Digest, parent: bytes, packed: bytes, size: int, start: int, stop: int, keys: Keys
) -> list[bytes]:
    """Hashes of parent + tokens + `raw_tail`."""
    tail = raw_tail(keys, size)
    width = 4 * size
    hashes: list[bytes] = []
    if COMPILED:
        writer = RawWriter(size)
        for block in range(start, stop):
            parent = digest(writer.block(parent, packed, block, tail))
            hashes.append(parent)
        return hashes
    for offset in range(start * width, stop * width, width):
        data = parent + packed[offset : offset + width]
        parent = digest(data + tail if tail else data)
        hashes.append(parent)
    return hashes


def blake2b_chain(
    digest: Digest, parent: bytes, packed: bytes, size: int, start: int, stop: int, keys: Keys
) -> list[bytes]:
    """`raw_chain` with `blake2b_digest` written out: there a call counts."""
    tail = raw_tail(keys, size)
    width = 4 * size
    copy: Callable[[], Any] = _BLAKE2B.copy
    hashes: list[bytes] = []
    if COMPILED:
        writer = RawWriter(size)
        update: Callable[[Any, bytes], None] = blake2b.update
        finish: Callable[[Any], bytes] = blake2b.digest
        for block in range(start, stop):
            state = copy()
            update(state, writer.block(parent, packed, block, tail))
            parent = finish(state)
            hashes.append(parent)
        return hashes
    for offset in range(start * width, stop * width, width):
        state = copy()
        data = parent + packed[offset : offset + width]
        state.update(data + tail if tail else data)
        parent = state.digest()
        hashes.append(parent)
    return hashes


def pickle_chain(
    digest: Digest, parent: bytes, packed: bytes, size: int, start: int, stop: int, keys: Keys
) -> list[bytes]:
    """Hashes of the pickle, protocol 5, of (parent, tokens, keys)."""
    if not COMPILED or not MIN_WRITTEN <= size <= MAX_WRITTEN:
        return _generic_pickle_chain(digest, parent, packed, size, start, stop, keys)
    tail = pickle_tail(keys)
    if len(tail) > MAX_WRITTEN:
        return _generic_pickle_chain(digest, parent, packed, size, start, stop, keys)
    writer = PickleWriter(size)
    hashes: list[bytes] = []
    direct = digest is sha256_digest
    for block in range(start, stop):
        data = writer.block(parent, packed, block, tail)
        parent = sha256_digest(data) if direct else digest(data)
        hashes.append(parent)
    return hashes


def _generic_pickle_chain(
    digest: Digest, parent: bytes, packed: bytes, size: int, start: int, stop: int, keys: Keys
) -> list[bytes]:
    tokens = iter(_unpack(packed, size, start, stop))
    blocks = zip(*[tokens] * size, strict=True)
    hashes: list[bytes] = []
    if keys is not None:
        for block in blocks:
            parent = digest(pickle_block(parent, block, keys))
            hashes.append(parent)
    elif digest is sha256_digest:  # written out: in the interpreted build a call counts
        dumps = pickle.dumps
        copy: Callable[[], Any] = _SHA256.copy
        for block in blocks:
            state = copy()
            state.update(dumps((parent, block, None), 5))
            parent = state.digest()
            hashes.append(parent)
    else:
        for block in blocks:
            parent = digest(pickle_block(parent, block, None))
            hashes.append(parent)
    return hashes


def cbor_chain(
    digest: Digest, parent: bytes, packed: bytes, size: int, start: int, stop: int, keys: Keys
) -> list[bytes]:
    """Hashes of the canonical CBOR of (parent, tokens, keys)."""
    tail = cbor_value(keys)
    if not COMPILED:
        return _generic_cbor_chain(digest, parent, _unpack(packed, size, start, stop), size, tail)
    writer = CborWriter(size)
    hashes: list[bytes] = []
    direct = digest is sha256_digest
    for block in range(start, stop):
        data = writer.block(parent, packed, block, tail)
        parent = sha256_digest(data) if direct else digest(data)
        hashes.append(parent)
    return hashes


def _generic_cbor_chain(
    digest: Digest, parent: bytes, tokens: tuple[int, ...], size: int, tail: bytes
) -> list[bytes]:
    encoded = list(map(_cbor_tokens.__getitem__, tokens))
    tokens_head = cbor_head(0x80, size)
    hashes: list[bytes] = []
    for offset in range(0, len(encoded), size):
        head = b"\x83" + cbor_head(0x40, len(parent)) + parent + tokens_head
        parent = digest(head + b"".join(encoded[offset : offset + size]) + tail)
        hashes.append(parent)
    return hashes


def _unpack(packed: bytes, size: int, start: int, stop: int) -> tuple[int, ...]:
    return struct.unpack_from(f"<{size * (stop - start)}I", packed, start * size * 4)

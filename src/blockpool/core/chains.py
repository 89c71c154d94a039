"""Chains of block hashes through the generic serialisers, one function per serialised form.

All take the same arguments: the digest function, the hash of the block before, all tokens as `pack_tokens` gives them,
tokens per block (at least 1), the range start … stop - 1 of blocks to hash, and the canonical extra keys that each of
these blocks has, or None. They return one hash per block. The compiled build takes them only where `direct_chains`
does not reach.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Final, Literal, TypeAlias

from blockpool.core.digests import Digest, blake2b_digest, new_blake2b, new_sha256, sha256_digest
from blockpool.core.encoding import CborTokens, cbor_head, cbor_value, pickle_block, raw_tail

Form: TypeAlias = Literal["pickle", "cbor", "raw"]
Keys: TypeAlias = tuple[object, ...] | None
Run: TypeAlias = tuple[int, int, Keys]
"""Blocks start … stop - 1, and the canonical extra keys that each of them has."""

Chain: TypeAlias = Callable[[Digest, bytes, bytes, int, int, int, Keys], list[bytes]]

_cbor_tokens = CborTokens()


def _raw_chain(
    digest: Digest, parent: bytes, packed: bytes, size: int, start: int, stop: int, keys: Keys
) -> list[bytes]:
    """Hashes of parent + tokens + `raw_tail`."""
    tail = raw_tail(keys, size)
    width = 4 * size
    offsets = range(start * width, stop * width, width)
    hashes: list[bytes] = []
    if digest is blake2b_digest:  # written out: in the interpreted build a call counts
        copy = new_blake2b
        for offset in offsets:
            state = copy()
            state.update(parent + packed[offset : offset + width] + tail)
            parent = state.digest()
            hashes.append(parent)
        return hashes
    for offset in offsets:
        parent = digest(parent + packed[offset : offset + width] + tail)
        hashes.append(parent)
    return hashes


def _pickle_chain(
    digest: Digest, parent: bytes, packed: bytes, size: int, start: int, stop: int, keys: Keys
) -> list[bytes]:
    """Hashes of the pickle, protocol 5, of (parent, tokens, keys)."""
    blocks = _blocks(packed, size, start, stop)
    hashes: list[bytes] = []
    if keys is not None:
        for block in blocks:
            parent = digest(pickle_block(parent, block, keys))
            hashes.append(parent)
    elif digest is sha256_digest:  # written out: in the interpreted build a call counts
        dumps = pickle.dumps
        copy = new_sha256
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


def _cbor_chain(
    digest: Digest, parent: bytes, packed: bytes, size: int, start: int, stop: int, keys: Keys
) -> list[bytes]:
    """Hashes of the canonical CBOR of (parent, tokens, keys)."""
    tail = cbor_value(keys)
    tokens = chain.from_iterable(_blocks(packed, size, start, stop))
    encoded = list(map(_cbor_tokens.__getitem__, tokens))
    tokens_head = cbor_head(0x80, size)
    hashes: list[bytes] = []
    for offset in range(0, len(encoded), size):
        head = b"\x83" + cbor_head(0x40, len(parent)) + parent + tokens_head
        parent = digest(head + b"".join(encoded[offset : offset + size]) + tail)
        hashes.append(parent)
    return hashes


def _blocks(packed: bytes, size: int, start: int, stop: int) -> Iterator[tuple[int, ...]]:
    """The tokens of one block after the other; made when they are wanted, they take the memory of those before."""
    return struct.iter_unpack(f"<{size}I", memoryview(packed)[4 * size * start : 4 * size * stop])


CHAINS: Final[dict[str, Chain]] = {"pickle": _pickle_chain, "cbor": _cbor_chain, "raw": _raw_chain}
"""By form."""

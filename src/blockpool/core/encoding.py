"""What the serialised forms of a block share: pickle by the pickle module, CBOR of our own, tails.

A block is (parent hash, its token ids, extra keys or None). `sha256` and `xxhash` are taken of its pickle, protocol 5;
the `*_cbor` ones of its canonical CBOR (RFC 8949, 4.2); the raw ones of parent, tokens as unsigned 32-bit little-endian
integers, and a tail. Every form ends in a tail that depends on the extra keys alone.
"""

from __future__ import annotations

import pickle
import struct
from typing import Final

from blockpool.errors import ArgumentError, ConfigError

PICKLE_START: Final = b"\x80\x05\x95\x00\x00\x00\x00\x00\x00\x00\x00"
"""Protocol 5, and a frame whose length, in 8 bytes, is still to be filled in."""

PICKLE_NO_KEYS: Final = b"N\x87\x94."
MAX_CBOR_TOKENS: Final = 0x40000


def pickle_block(parent_hash: bytes, tokens: tuple[int, ...], extra_keys: tuple[object, ...] | None) -> bytes:
    """The pickle of a block. The parent is copied, lest a key that is the same object be written as a reference."""
    if extra_keys is not None:
        parent_hash = bytes(bytearray(parent_hash))
    return pickle.dumps((parent_hash, tokens, extra_keys), 5)


def pickle_tail(extra_keys: tuple[object, ...] | None) -> bytes:
    """What the pickle of a block with these extra keys ends in: the keys, the outer tuple, the stop."""
    if extra_keys is None:
        return PICKLE_NO_KEYS
    parent, tokens = b"\x00" * 32, (0, 0, 0, 0)
    head = len(pickle_block(parent, tokens, None)) - len(PICKLE_NO_KEYS)
    return pickle_block(parent, tokens, extra_keys)[head:]


class CborTokens(dict[int, bytes]):
    """The CBOR of the token ids seen so far."""

    def __missing__(self, token: int) -> bytes:
        if len(self) >= MAX_CBOR_TOKENS:
            self.clear()
        encoded = cbor_head(0x00, token)
        self[token] = encoded
        return encoded


def cbor_value(value: object) -> bytes:
    """The canonical CBOR of None, bool, int, str, bytes or a tuple of them.

    Raises:
        ArgumentError: For anything else.
        ConfigError: For an integer beyond 64 bits.
    """
    if isinstance(value, bytes):
        return cbor_head(0x40, len(value)) + value
    if value is None:
        return b"\xf6"
    if isinstance(value, bool):
        return b"\xf5" if value else b"\xf4"
    if isinstance(value, int):
        return cbor_head(0x00, value) if value >= 0 else cbor_head(0x20, -1 - value)
    if isinstance(value, str):
        text = value.encode()
        return cbor_head(0x60, len(text)) + text
    if isinstance(value, tuple):
        return cbor_head(0x80, len(value)) + b"".join([cbor_value(item) for item in value])
    raise ArgumentError("extra_keys", value, "None, bool, int, str, bytes or a tuple of them is needed")


def cbor_head(major: int, number: int) -> bytes:
    """A major type, in the upper three bits, with its number in the shortest form."""
    if number < 0x18:
        return bytes((major | number,))
    if number < 0x100:
        return bytes((major | 0x18, number))
    if number < 0x10000:
        return struct.pack(">BH", major | 0x19, number)
    if number < 0x100000000:
        return struct.pack(">BI", major | 0x1A, number)
    if number < 0x10000000000000000:
        return struct.pack(">BQ", major | 0x1B, number)
    raise ConfigError("extra_keys", number, "must fit in 64 bits")


def raw_tail(extra_keys: tuple[object, ...] | None, count: int) -> bytes:
    """What a raw block of `count` tokens ends in: nothing, or its keys as canonical CBOR, padding, count, pad length.

    The padding makes its length 1 more than a multiple of 4, which tokens alone never have. So parent + tokens + tail
    comes apart in one way only.
    """
    if extra_keys is None:
        return b""
    keys = cbor_value(extra_keys)
    padding = -len(keys) % 4
    return keys + bytes(padding) + struct.pack("<IB", count, padding)

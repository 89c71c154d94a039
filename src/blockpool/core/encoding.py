"""The bytes that block hashes are taken of: direct writers for a shape that never varies.

A block is (parent hash, its token ids, extra keys or None). Its tokens come as unsigned 32-bit little-endian bytes, as
`pack_token_ids` makes them. Each format ends in a tail that depends on the extra keys alone. `sha256` and `xxhash` are
taken of a pickle, protocol 5 (opcodes as in CPython's pickletools); `*_cbor` of canonical CBOR (RFC 8949, 4.2); the raw
formats of parent, tokens and tail as they are.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Sequence

from librt.strings import (
    BytesWriter,
    read_i32_le,
    write_i16_be,
    write_i16_le,
    write_i32_be,
    write_i32_le,
)
from mypy_extensions import i16, i32, i64, u8

from blockpool.errors import ArgumentError, ConfigError

COMPILED = not __file__.endswith(".py")
MAX_TOKEN_ID = (1 << 32) - 1
SIGN_BIT = 1 << 31
MAX_CBOR_TOKENS = 1 << 18
MAX_WRITTEN = 4096
"""Blocks of more tokens, or with more bytes of keys, may span several pickle frames: left to the pickle module."""

_BUFFER_FORMATS = ("i", "I", "l", "L", "q", "Q")
_PICKLE_START = b"\x80\x05\x95\x00\x00\x00\x00\x00\x00\x00\x00"
_PICKLE_NO_KEYS = b"N\x87\x94."
_CBOR_NULL = b"\xf6"


def pack_token_ids(token_ids: object) -> bytes:
    """Token ids as unsigned 32-bit integers, little endian.

    Args:
        token_ids: A list, tuple or other sequence of integers, or a one-dimensional buffer of 32- or 64-bit integers
            (`array`, NumPy), each in 0 … 2^32 - 1.

    Raises:
        ArgumentError: For anything else than integers.
        ConfigError: For a token out of range.
    """
    values = _token_list(token_ids)
    if COMPILED:
        writer = BytesWriter()
        if _write_tokens(writer, values):
            return writer.getvalue()
    try:
        return struct.pack(f"<{len(values)}I", *values)
    except struct.error:
        raise _bad_token(values) from None


def _token_list(token_ids: object) -> list[object]:
    if isinstance(token_ids, list):
        return token_ids
    if isinstance(token_ids, tuple):
        return list(token_ids)
    if isinstance(token_ids, (str, bytes, bytearray)):
        raise ArgumentError("token_ids", token_ids, "a sequence or buffer of integers is needed")
    try:
        view = memoryview(token_ids)  # type: ignore[arg-type]
    except TypeError:
        if isinstance(token_ids, Sequence):
            return list(token_ids)
        raise ArgumentError("token_ids", token_ids, "a sequence or buffer of integers is needed") from None
    if view.ndim != 1 or view.format.lstrip("@=<") not in _BUFFER_FORMATS or view.itemsize not in (4, 8):
        found = f"it holds {view.ndim} dimensions of format {view.format!r}"
        raise ArgumentError("token_ids", token_ids, f"one dimension of 32- or 64-bit integers is needed, {found}")
    return list(view.tolist())


def _write_tokens(writer: BytesWriter, values: list[object]) -> bool:
    """Writes the values, if all of them are plain integers in range."""
    for value in values:
        if not isinstance(value, int) or not 0 <= value <= MAX_TOKEN_ID:
            return False
        write_i32_le(writer, value if value < SIGN_BIT else value - 2 * SIGN_BIT)
    return True


def _bad_token(values: list[object]) -> ConfigError:
    """The error for the first value that is no token id."""
    for position, value in enumerate(values):
        try:
            struct.pack("<I", value)
        except struct.error:
            field = f"token_ids[{position}]"
            if isinstance(value, int):
                return ConfigError(field, value, f"must be in 0 … {MAX_TOKEN_ID}")
            return ArgumentError(field, value, f"an integer in 0 … {MAX_TOKEN_ID} is needed")
    raise AssertionError("every value can be packed")


def unpack_token_ids(packed: bytes, start: int, count: int) -> tuple[int, ...]:
    """`count` token ids from token `start` on."""
    return struct.unpack_from(f"<{count}I", packed, start * 4)


# --------------------------------------------------------------------------------------------------------- pickle


def pickle_block(
    parent_hash: bytes, packed: bytes, start: int, count: int, extra_keys: tuple[object, ...] | None, tail: bytes
) -> bytes:
    """The pickle, protocol 5, of a block; `tail` is `pickle_tail(extra_keys)`."""
    if not COMPILED or count < 4 or count > MAX_WRITTEN or len(tail) > MAX_WRITTEN or len(parent_hash) > 255:
        return _pickle_generic(parent_hash, unpack_token_ids(packed, start, count), extra_keys)
    writer = BytesWriter()
    writer.write(_PICKLE_START)
    writer.append(0x43)  # SHORT_BINBYTES
    writer.append(len(parent_hash))
    writer.write(parent_hash)
    writer.append(0x94)  # MEMOIZE
    writer.append(0x28)  # MARK
    offset: i64 = start * 4
    end: i64 = offset + count * 4
    while offset < end:
        _write_pickled_token(writer, read_i32_le(packed, offset))
        offset += 4
    writer.append(0x74)  # TUPLE
    writer.append(0x94)  # MEMOIZE
    writer.write(tail)
    length: i64 = len(writer) - len(_PICKLE_START)
    writer[3] = u8(length & 0xFF)
    writer[4] = u8(length >> 8)
    return writer.getvalue()


def _write_pickled_token(writer: BytesWriter, token: i32) -> None:
    """One token id, read as a signed 32-bit integer."""
    if token < 0:
        writer.append(0x8A)  # LONG1 of 5 bytes
        writer.append(0x05)
        write_i32_le(writer, token)
        writer.append(0x00)
    elif token < 0x100:
        writer.append(0x4B)  # BININT1
        writer.append(token)
    elif token < 0x10000:
        writer.append(0x4D)  # BININT2
        write_i16_le(writer, i16(token))
    else:
        writer.append(0x4A)  # BININT
        write_i32_le(writer, token)


def pickle_tail(extra_keys: tuple[object, ...] | None) -> bytes:
    """What the pickle of a block with these extra keys ends in: the keys, the outer tuple, the stop."""
    if extra_keys is None:
        return _PICKLE_NO_KEYS
    parent, tokens = b"\x00" * 32, (0, 0, 0, 0)
    head = len(_pickle_generic(parent, tokens, None)) - len(_PICKLE_NO_KEYS)
    return _pickle_generic(parent, tokens, extra_keys)[head:]


def _pickle_generic(
    parent_hash: bytes, tokens: tuple[int, ...], extra_keys: tuple[object, ...] | None
) -> bytes:
    """By the pickle module. The parent is copied, lest a key that is the very same object be written as a reference."""
    if extra_keys is not None:
        parent_hash = bytes(bytearray(parent_hash))
    return pickled((parent_hash, tokens, extra_keys))


def pickled(value: object) -> bytes:
    """The pickle of anything, protocol 5."""
    return pickle.dumps(value, protocol=5)


# --------------------------------------------------------------------------------------------------------- CBOR


def cbor_block(parent_hash: bytes, packed: bytes, start: int, count: int, tail: bytes) -> bytes:
    """The canonical CBOR of a block; `tail` is `cbor_value(extra_keys)`."""
    head = b"\x83" + cbor_value(parent_hash) + _cbor_head(0x80, count)
    if not COMPILED:
        tokens = unpack_token_ids(packed, start, count)
        return b"".join([head, *map(_cbor_tokens.__getitem__, tokens), tail])
    writer = BytesWriter()
    writer.write(head)
    offset: i64 = start * 4
    end: i64 = offset + count * 4
    while offset < end:
        _write_cbor_token(writer, read_i32_le(packed, offset))
        offset += 4
    writer.write(tail)
    return writer.getvalue()


def _write_cbor_token(writer: BytesWriter, token: i32) -> None:
    """One token id, read as a signed 32-bit integer."""
    if token < 0 or token > 0xFFFF:
        writer.append(0x1A)
        write_i32_be(writer, token)
    elif token > 0xFF:
        writer.append(0x19)
        write_i16_be(writer, i16(token))
    elif token > 0x17:
        writer.append(0x18)
        writer.append(token)
    else:
        writer.append(token)


class _CborTokens(dict[int, bytes]):
    """The CBOR of each token id seen so far, for the interpreted build."""

    def __missing__(self, token: int) -> bytes:
        if len(self) >= MAX_CBOR_TOKENS:
            self.clear()
        encoded = _cbor_head(0x00, token)
        self[token] = encoded
        return encoded


_cbor_tokens = _CborTokens()


def cbor_value(value: object) -> bytes:
    """The canonical CBOR of None, bool, int, str, bytes or a tuple of them.

    Raises:
        ArgumentError: For anything else.
    """
    if value is None:
        return _CBOR_NULL
    if isinstance(value, bool):
        return b"\xf5" if value else b"\xf4"
    if isinstance(value, int):
        return _cbor_head(0x00, value) if value >= 0 else _cbor_head(0x20, -1 - value)
    if isinstance(value, bytes):
        return _cbor_head(0x40, len(value)) + value
    if isinstance(value, str):
        text = value.encode()
        return _cbor_head(0x60, len(text)) + text
    if isinstance(value, tuple):
        return _cbor_head(0x80, len(value)) + b"".join([cbor_value(item) for item in value])
    raise ArgumentError("extra_keys", value, "None, bool, int, str, bytes or a tuple of them is needed")


def _cbor_head(major: int, number: int) -> bytes:
    """A major type, in the upper three bits, with its number in the shortest form."""
    if number <= 0x17:
        return (major | number).to_bytes(1, "big")
    for code, size in ((0x18, 1), (0x19, 2), (0x1A, 4), (0x1B, 8)):
        if number < 1 << (8 * size):
            return (major | code).to_bytes(1, "big") + number.to_bytes(size, "big")
    raise ConfigError("extra_keys", number, "must fit in 64 bits")


# --------------------------------------------------------------------------------------------------------- raw


def raw_block(parent_hash: bytes, packed: bytes, start: int, count: int, tail: bytes) -> bytes:
    """Parent, tokens and `raw_tail`, joined. Read from its end, it comes apart in one way only."""
    return parent_hash + packed[start * 4 : (start + count) * 4] + tail


def raw_tail(extra_keys: tuple[object, ...] | None, count: int) -> bytes:
    """The canonical CBOR of the extra keys, nothing for None, and the number of tokens in 4 bytes."""
    keys = b"" if extra_keys is None else cbor_value(extra_keys)
    return keys + count.to_bytes(4, "little")

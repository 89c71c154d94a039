"""Token ids as callers have them, checked and brought into the one form that is hashed."""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Sequence
from typing import Final, cast

from librt.strings import BytesWriter, read_i64_le, write_i32_le
from mypy_extensions import i32, i64

from blockpool.core.build import COMPILED
from blockpool.errors import ArgumentError, ConfigError

MAX_TOKEN_ID: Final = 0xFFFFFFFF

_BUFFER_CODES = ("i", "I", "l", "L", "q", "Q")
_BYTE_ORDERS = ("", "@", "=", "<", ">", "!")


def pack_tokens(token_ids: object) -> bytes:
    """Token ids as unsigned 32-bit integers, little endian.

    Args:
        token_ids: A list, tuple or other sequence of integers, or a one-dimensional buffer of 32- or 64-bit integers
            (`array`, NumPy), each in 0 … 2^32 - 1.

    A buffer in the byte order of a little-endian machine is copied once, as memory: no token becomes an object.

    Raises:
        ArgumentError: For anything else than integers.
        ConfigError: For a token out of range.
    """
    values = token_values(token_ids)
    return values if isinstance(values, bytes) else pack_list(values)


def pack_list(values: list[object]) -> bytes:
    """`pack_tokens` of a list."""
    numbers = array("I")
    try:
        numbers.fromlist(cast("list[int]", values))
    except (OverflowError, TypeError):
        raise _bad_token(values) from None
    if sys.byteorder != "little":
        numbers.byteswap()
    return numbers.tobytes()


def token_values(token_ids: object) -> list[object] | bytes:
    """The tokens as objects; as packed bytes when they come from a buffer that needs no other form."""
    if isinstance(token_ids, list):
        return token_ids
    if isinstance(token_ids, tuple):
        return list(token_ids)
    if isinstance(token_ids, (str, bytes, bytearray)):
        raise ArgumentError("token_ids", token_ids, "a sequence or buffer of integers is needed")
    try:
        view = memoryview(token_ids)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        if isinstance(token_ids, Sequence):
            return list(token_ids)
        raise ArgumentError("token_ids", token_ids, "a sequence or buffer of integers is needed") from None
    return _buffer_values(token_ids, view)


def _buffer_values(token_ids: object, view: memoryview) -> list[object] | bytes:
    order = view.format[:-1]
    code = view.format[-1:]
    if (
        view.ndim != 1
        or code not in _BUFFER_CODES
        or view.itemsize not in (4, 8)
        or order not in _BYTE_ORDERS
    ):
        found = f"it holds {view.ndim} dimensions of format {view.format!r}"
        raise ArgumentError(
            "token_ids", token_ids, f"one dimension of 32- or 64-bit integers is needed, {found}"
        )
    if sys.byteorder == "little" and order not in (">", "!"):
        packed = _packed_buffer(view.tobytes(), code.islower(), view.itemsize)
        if packed is not None:
            return packed
    if order in ("", "@"):
        return list(view.tolist())
    return list(struct.unpack(f"{order}{len(view)}{code}", view.tobytes()))


def _packed_buffer(memory: bytes, signed: bool, width: int) -> bytes | None:
    """The lower 4 bytes of each number; None if one is out of range, which whoever names it looks for."""
    if width == 4:
        return memory if not signed or memory[3::4].isascii() else None
    if COMPILED:
        writer = BytesWriter()
        offset: i64 = 0
        end: i64 = len(memory)
        while offset < end:
            token = read_i64_le(memory, offset)
            if token < 0 or token > MAX_TOKEN_ID:
                return None
            write_i32_le(writer, i32(token))
            offset += 8
        return writer.getvalue()
    if any(memory[place::8].strip(b"\0") for place in range(4, 8)):
        return None
    packed = bytearray(len(memory) // 2)
    for place in range(4):
        packed[place::4] = memory[place::8]
    return bytes(packed)


def are_token_ids(values: list[object]) -> bool:
    """Whether all are of type int and in range. Compiled only: interpreted, other types pass for int."""
    seen: i64 = 0  # all bits that any of them has
    try:
        for token in cast("list[i64]", values):  # straight to a machine word
            seen |= token
    except (OverflowError, TypeError, ValueError):  # beyond 64 bits, or no integer
        return False
    return 0 <= seen <= MAX_TOKEN_ID


def _bad_token(values: list[object]) -> ConfigError:
    """The error for the first value that is no token id."""
    for position, value in enumerate(values):
        try:
            struct.pack("<I", value)
        except (struct.error, TypeError):
            field = f"token_ids[{position}]"
            if isinstance(value, int):
                return ConfigError(field, value, f"must be in 0 … {MAX_TOKEN_ID}")
            return ArgumentError(field, value, f"an integer in 0 … {MAX_TOKEN_ID} is needed")
    raise AssertionError("every value can be packed")

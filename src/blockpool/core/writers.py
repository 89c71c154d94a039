"""Direct writers of serialised blocks, for the compiled build: no tuple, no serialiser, one buffer for all blocks.

They write what the generic serialisers of `encoding` give, from tokens packed by `pack_tokens`. Opcodes as in CPython's
pickletools.
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import (
    BytesWriter,
    read_i32_le,
    read_i64_le,
    write_i16_be,
    write_i16_le,
    write_i32_be,
    write_i32_le,
    write_i64_le,
)
from mypy_extensions import i16, i64, u8

from blockpool.core.encoding import PICKLE_START, cbor_head

MIN_WRITTEN: Final = 4
"""Blocks of fewer tokens pickle to other opcodes and are not written here."""

MAX_WRITTEN: Final = 4096
"""Blocks of more tokens, or with more bytes of keys, may span several pickle frames and are not written here."""


@final
class PickleWriter:
    """Writes blocks of `count` tokens, `MIN_WRITTEN` … `MAX_WRITTEN`, as pickles."""

    def __init__(self, count: int) -> None:
        self._buffer: BytesWriter = BytesWriter()
        self._buffer.write(PICKLE_START)
        self._start: i64 = len(self._buffer)
        self._count: i64 = count

    def block(self, parent_hash: bytes, packed: bytes, position: i64, tail: bytes) -> bytes:
        """Block number `position`. Parents are below 256 bytes; `tail` is `pickle_tail` of the keys."""
        buffer = self._buffer
        buffer.truncate(self._start)
        buffer.append(0x43)  # SHORT_BINBYTES
        buffer.append(u8(len(parent_hash)))
        buffer.write(parent_hash)
        buffer.append(0x94)  # MEMOIZE
        buffer.append(0x28)  # MARK
        offset = position * self._count * 4
        end = offset + self._count * 4
        while offset < end:
            token = read_i32_le(packed, offset)
            if token < 0:
                buffer.append(0x8A)  # LONG1 of 5 bytes
                buffer.append(0x05)
                write_i32_le(buffer, token)
                buffer.append(0x00)
            elif token > 0xFFFF:
                buffer.append(0x4A)  # BININT
                write_i32_le(buffer, token)
            elif token > 0xFF:
                buffer.append(0x4D)  # BININT2
                write_i16_le(buffer, i16(token))
            else:
                buffer.append(0x4B)  # BININT1
                buffer.append(u8(token))
            offset += 4
        buffer.append(0x74)  # TUPLE
        buffer.append(0x94)  # MEMOIZE
        buffer.write(tail)
        length = len(buffer) - self._start
        buffer[3] = u8(length & 0xFF)
        buffer[4] = u8(length >> 8)
        return buffer.getvalue()


@final
class CborWriter:
    """Writes blocks of `count` tokens as canonical CBOR."""

    def __init__(self, count: int) -> None:
        self._buffer: BytesWriter = BytesWriter()
        self._count: i64 = count
        self._tokens_head: bytes = cbor_head(0x80, count)

    def block(self, parent_hash: bytes, packed: bytes, position: i64, tail: bytes) -> bytes:
        """Block number `position`. Parents are below 256 bytes; `tail` is `cbor_value` of the keys."""
        buffer = self._buffer
        buffer.truncate(0)
        buffer.append(0x83)
        length: i64 = len(parent_hash)
        if length > 0x17:
            buffer.append(0x58)
            buffer.append(u8(length))
        else:
            buffer.append(u8(0x40 | length))
        buffer.write(parent_hash)
        buffer.write(self._tokens_head)
        offset = position * self._count * 4
        end = offset + self._count * 4
        while offset < end:
            token = read_i32_le(packed, offset)
            if token < 0 or token > 0xFFFF:
                buffer.append(0x1A)
                write_i32_be(buffer, token)
            elif token > 0xFF:
                buffer.append(0x19)
                write_i16_be(buffer, i16(token))
            elif token > 0x17:
                buffer.append(0x18)
                buffer.append(u8(token))
            else:
                buffer.append(u8(token))
            offset += 4
        buffer.write(tail)
        return buffer.getvalue()


@final
class RawWriter:
    """Writes blocks of `count` tokens as they are packed."""

    def __init__(self, count: int) -> None:
        self._buffer: BytesWriter = BytesWriter()
        self._width: i64 = count * 4

    def block(self, parent_hash: bytes, packed: bytes, position: i64, tail: bytes) -> bytes:
        """Block number `position`; `tail` is `raw_tail` of the keys."""
        buffer = self._buffer
        buffer.truncate(0)
        buffer.write(parent_hash)
        offset = position * self._width
        end = offset + self._width
        while offset + 8 <= end:
            write_i64_le(buffer, read_i64_le(packed, offset))
            offset += 8
        if offset < end:
            write_i32_le(buffer, read_i32_le(packed, offset))
        if tail:
            buffer.write(tail)
        return buffer.getvalue()

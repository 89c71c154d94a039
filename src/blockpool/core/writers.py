"""Direct writers of serialised blocks, for the compiled build: no tuple, no serialiser, one buffer for all blocks.

They write what the generic serialisers of `encoding` give. Opcodes as in CPython's pickletools.
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import (
    BytesWriter,
    read_i64_le,
    write_i16_be,
    write_i16_le,
    write_i32_le,
    write_i64_be,
    write_i64_le,
)
from librt.vecs import vec
from mypy_extensions import i16, i32, i64, u8

from blockpool.core.encoding import PICKLE_START, cbor_head

MIN_WRITTEN: Final = 4
"""Blocks of fewer tokens pickle to other opcodes and are not written here."""

MAX_WRITTEN: Final = 4096
"""Blocks of more tokens, or with more bytes of keys, may span several pickle frames and are not written here."""

_TOKEN: Final = 0xFFFFFFFF
_MAX_BININT: Final = 0x7FFFFFFF


class BlockWriter:
    """Writes blocks of `size` tokens, at least 1, one after the other.

    Attributes:
        words: Where the tokens of the next block go: two to a word, the first in the lower half; the upper half that an
            odd last one leaves is 0.
        first: Number of the first word for tokens.
    """

    def __init__(self, size: int, first: int) -> None:
        self.size: i64 = size
        self.first: i64 = first
        self.words: vec[i64] = vec[i64]([0] * (first + (size + 1) // 2))

    def block(self, parent: bytes, tail: bytes) -> object:
        """The block, as bytes or another buffer, which is good until the next call.

        Args:
            parent: Hash of the block before, below 256 bytes.
            tail: What its extra keys make the end of it.
        """
        raise NotImplementedError


@final
class PickleWriter(BlockWriter):
    """Blocks of `MIN_WRITTEN` … `MAX_WRITTEN` tokens as pickles."""

    def __init__(self, size: int) -> None:
        super().__init__(size, 0)
        self._buffer: BytesWriter = BytesWriter()
        self._buffer.write(PICKLE_START)

    def block(self, parent: bytes, tail: bytes) -> object:
        """As bytes; `tail` is `pickle_tail` of the keys."""
        buffer = self._buffer
        start: i64 = len(PICKLE_START)
        buffer.truncate(start)
        buffer.append(0x43)  # SHORT_BINBYTES
        buffer.append(u8(len(parent)))
        buffer.write(parent)
        buffer.append(0x94)  # MEMOIZE
        buffer.append(0x28)  # MARK
        _write_pickled(buffer, self.words, self.size)
        buffer.append(0x74)  # TUPLE
        buffer.append(0x94)  # MEMOIZE
        buffer.write(tail)
        length = len(buffer) - start
        buffer[3] = u8(length & 0xFF)
        buffer[4] = u8(length >> 8)
        return buffer.getvalue()


def _write_pickled(buffer: BytesWriter, words: vec[i64], size: i64) -> None:
    """The tokens, two at a time.

    Nobody can predict how long a token gets. So that is worked out without a branch: 5 bytes, 2 less below 2^16, 1 less
    again below 2^8. Two tokens make a word and 2 bytes more, which are cut to the length that they have.
    """
    length: i64 = len(buffer)
    token: i64 = 0
    while token + 1 < size:
        word = words[token >> 1]
        one = word & _TOKEN
        two = word >> 32 & _TOKEN
        token += 2
        if (one | two) > _MAX_BININT:
            _write_pickled_one(buffer, one)
            _write_pickled_one(buffer, two)
            length = len(buffer)
            continue
        short_one = (one - 0x10000) >> 63  # -1 if below 2^16, else 0
        byte_one = (one - 0x100) >> 63
        short_two = (two - 0x10000) >> 63
        byte_two = (two - 0x100) >> 63
        # BININT 0x4A, BININT2 0x4D, BININT1 0x4B
        written_one = one << 8 | (0x4A - 3 * short_one + 2 * byte_one)
        written_two = two << 8 | (0x4A - 3 * short_two + 2 * byte_two)
        length_one = 5 + 2 * short_one + byte_one
        write_i64_le(buffer, written_one | written_two << (8 * length_one))
        write_i16_le(buffer, i16(written_two >> 24))  # right if the first took 5 bytes, else cut off
        length += length_one + 5 + 2 * short_two + byte_two
        buffer.truncate(length)
    if token < size:
        _write_pickled_one(buffer, words[token >> 1])


def _write_pickled_one(buffer: BytesWriter, token: i64) -> None:
    if token > _MAX_BININT:
        buffer.append(0x8A)  # LONG1 of 5 bytes
        buffer.append(0x05)
        write_i32_le(buffer, i32(token))
        buffer.append(0x00)
    elif token > 0xFFFF:
        buffer.append(0x4A)  # BININT
        write_i32_le(buffer, i32(token))
    elif token > 0xFF:
        buffer.append(0x4D)  # BININT2
        write_i16_le(buffer, i16(token))
    else:
        buffer.append(0x4B)  # BININT1
        buffer.append(u8(token))


@final
class CborWriter(BlockWriter):
    """Blocks as canonical CBOR."""

    def __init__(self, size: int) -> None:
        super().__init__(size, 0)
        self._buffer: BytesWriter = BytesWriter()
        self._tokens_head: bytes = cbor_head(0x80, size)

    def block(self, parent: bytes, tail: bytes) -> object:
        """As bytes; `tail` is `cbor_value` of the keys."""
        buffer = self._buffer
        buffer.truncate(0)
        buffer.append(0x83)
        length: i64 = len(parent)
        if length > 0x17:
            buffer.append(0x58)
            buffer.append(u8(length))
        else:
            buffer.append(u8(0x40 | length))
        buffer.write(parent)
        buffer.write(self._tokens_head)
        _write_cbor(buffer, self.words, self.size)
        buffer.write(tail)
        return buffer.getvalue()


def _write_cbor(buffer: BytesWriter, words: vec[i64], size: i64) -> None:
    """The tokens, two at a time, as in `_write_pickled`; here a token below 24 takes one byte less again."""
    length: i64 = len(buffer)
    token: i64 = 0
    while token + 1 < size:
        word = words[token >> 1]
        one = word & _TOKEN
        two = word >> 32 & _TOKEN
        token += 2
        short_one = (one - 0x10000) >> 63  # -1 if below 2^16, else 0
        byte_one = (one - 0x100) >> 63
        tiny_one = (one - 0x18) >> 63
        short_two = (two - 0x10000) >> 63
        byte_two = (two - 0x100) >> 63
        tiny_two = (two - 0x18) >> 63
        length_one = 5 + 2 * short_one + byte_one + tiny_one
        length_two = 5 + 2 * short_two + byte_two + tiny_two
        # In the upper bytes of a word: 0x1A, 0x19, 0x18 or nothing, then the number.
        written_one = ((0x1A + short_one + byte_one) & ~tiny_one) << 56 | one << (64 - 8 * length_one)
        written_two = ((0x1A + short_two + byte_two) & ~tiny_two) << 56 | two << (64 - 8 * length_two)
        write_i64_be(buffer, written_one | written_two >> (8 * length_one))
        write_i16_be(buffer, i16(written_two >> 24))  # right if the first took 5 bytes, else cut off
        length += length_one + length_two
        buffer.truncate(length)
    if token < size:
        buffer.write(cbor_head(0x00, words[token >> 1]))


@final
class RawWriter(BlockWriter):
    """Blocks as they are."""

    def __init__(self, size: int) -> None:
        super().__init__(size, 0)
        self._buffer: BytesWriter = BytesWriter()

    def block(self, parent: bytes, tail: bytes) -> object:
        """As bytes; `tail` is `raw_tail` of the keys."""
        buffer = self._buffer
        buffer.truncate(0)
        buffer.write(parent)
        for word in self.words:
            write_i64_le(buffer, word)
        if self.size & 1:
            buffer.truncate(len(buffer) - 4)
        buffer.write(tail)
        return buffer.getvalue()


@final
class RawWordsWriter(BlockWriter):
    """Raw blocks without a tail that are whole words: they need not be copied to be read.

    For even `size`, parents of `parent_words` words, and little-endian machines.
    """

    def __init__(self, size: int, parent_words: int) -> None:
        super().__init__(size, parent_words)
        self._buffer: object = self.words  # as an object, over the same memory

    def block(self, parent: bytes, tail: bytes) -> object:
        """As a buffer, the same every time; `tail` is empty."""
        words = self.words
        word: i64 = 0
        while word < self.first:
            words[word] = read_i64_le(parent, word << 3)
            word += 1
        return self._buffer

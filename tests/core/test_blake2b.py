"""BLAKE2b written out against `hashlib`'s."""

import hashlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockpool import COMPILED
from blockpool.core.blake2b import Blake2bBlocks
from blockpool.core.digests import BLAKE2B_BYTES, blake2b_digest

pytestmark = pytest.mark.skipif(
    not COMPILED,
    reason="BLAKE2b is written out for the compiled build only: it relies on words that wrap round",
)


def filled(content: bytes) -> Blake2bBlocks:
    blocks = Blake2bBlocks(len(content) // 4)
    for position, word in enumerate(struct.unpack(f"<{len(content) // 8}q", content)):
        blocks.words[blocks.first + position] = word
    return blocks


@given(
    parent=st.binary(min_size=BLAKE2B_BYTES, max_size=BLAKE2B_BYTES),
    words=st.lists(st.binary(min_size=8, max_size=8), min_size=1, max_size=40),
)
def test_it_is_the_blake2b_of_hashlib(parent: bytes, words: list[bytes]) -> None:
    content = b"".join(words)
    expected = hashlib.blake2b(parent + content, digest_size=32, person=b"blockpool raw 1").digest()
    blocks = filled(content)
    assert blocks.block_hash(parent) == expected
    assert blocks.block_hash(parent) == expected
    assert blocks.block(parent, b"") == parent + content
    assert blake2b_digest(blocks.block(parent, b"")) == expected


@pytest.mark.parametrize("size", [2, 22, 24, 26, 54, 56, 58, 88, 1024, 100_000])
@pytest.mark.parametrize("byte", [b"\x00", b"\xff", b"\x80", b"\x7f"])
def test_every_number_of_steps(size: int, byte: bytes) -> None:
    """A step takes 128 bytes, with the 32 of the parent: 24 tokens fill the first."""
    content = byte * 4 * size
    assert filled(content).block_hash(byte * 32) == blake2b_digest(byte * 32 + content)


def test_blocks_one_after_the_other() -> None:
    """What a block leaves behind does not show in the next."""
    blocks = Blake2bBlocks(26)
    parent = bytes(32)
    for number in range(100):
        for position in range(13):
            blocks.words[blocks.first + position] = (number * 13 + position) * 0x123456789ABC
        expected = blake2b_digest(parent + bytes(memoryview(blocks.words).cast("B")[32 : 32 + 4 * 26]))
        parent = blocks.block_hash(parent)
        assert parent == expected

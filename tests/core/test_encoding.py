"""The encoders behind the hashes, tried directly: what they write is what the serialisers write."""

import pickle
import struct
from collections.abc import Sequence
from typing import Any, cast

import cbor2
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from blockpool import COMPILED, ArgumentError, ConfigError
from blockpool.core.encoding import cbor_head, cbor_value, pickle_tail, raw_tail
from blockpool.core.extra_keys import canonical_keys
from blockpool.core.tokens import pack_tokens
from blockpool.core.writers import (
    MAX_WRITTEN,
    MIN_WRITTEN,
    BlockWriter,
    CborWriter,
    PickleWriter,
    RawWordsWriter,
    RawWriter,
)

from .test_hasher_reference import EXTRA, TOKEN

compiled_only = pytest.mark.skipif(
    not COMPILED,
    reason="the direct writers run in the compiled build only: they rely on words that wrap round",
)
parents = st.binary(min_size=16, max_size=16) | st.binary(min_size=32, max_size=32)
blocks = st.integers(1, 40).flatmap(
    lambda size: st.lists(st.lists(TOKEN, min_size=size, max_size=size), min_size=1, max_size=3)
)
BOUNDS = [0, 23, 24, 255, 256, 65_535, 65_536, 2**31 - 1, 2**31, 2**32 - 1]


def written(writer: BlockWriter, parent: bytes, block: Sequence[int], tail: bytes) -> bytes:
    for position, token in enumerate(block):
        word = writer.first + position // 2
        bits = token if position % 2 == 0 else writer.words[word] | token << 32
        writer.words[word] = bits - (1 << 64) if bits >> 63 else bits
    return bytes(cast("bytes", writer.block(parent, tail)))


@given(token_ids=st.lists(TOKEN, max_size=50))
def test_tokens_are_packed_as_little_endian_words(token_ids: list[int]) -> None:
    assert pack_tokens(token_ids) == struct.pack(f"<{len(token_ids)}I", *token_ids)


@compiled_only
@given(blocks=blocks, parent=parents, extra=EXTRA)
def test_the_pickle_writer(blocks: list[list[int]], parent: bytes, extra: tuple[Any, ...] | None) -> None:
    size = len(blocks[0])
    assume(size >= MIN_WRITTEN)
    writer = PickleWriter(size)
    tail = pickle_tail(canonical_keys(extra))
    fresh = bytes(bytearray(parent))  # a key that is the same object would be pickled as a reference to it
    for block in blocks:
        data = written(writer, parent, block, tail)
        assert data == pickle.dumps((fresh, tuple(block), extra), protocol=5)
        assert pickle.loads(data) == (parent, tuple(block), extra)


@compiled_only
@pytest.mark.parametrize("size", [MIN_WRITTEN, MIN_WRITTEN + 1, MAX_WRITTEN])
@pytest.mark.parametrize("token", BOUNDS)
def test_the_pickle_writer_at_its_bounds(size: int, token: int) -> None:
    for extra in (None, ("k" * (MAX_WRITTEN - 100),)):
        tail = pickle_tail(canonical_keys(extra))
        assert len(tail) <= MAX_WRITTEN
        data = written(PickleWriter(size), bytes(32), [token] * size, tail)
        assert data == pickle.dumps((bytes(32), (token,) * size, extra), protocol=5)


@compiled_only
def test_tokens_of_any_two_lengths_beside_each_other() -> None:
    """The writers write two tokens at once: every pair of lengths that they can have, at both places."""
    pairs = [token for one in BOUNDS for other in BOUNDS for token in (one, other)]
    for block in (pairs, [1, *pairs]):
        as_pickle = written(PickleWriter(len(block)), bytes(32), block, pickle_tail(None))
        assert as_pickle == pickle.dumps((bytes(32), tuple(block), None), protocol=5)
        as_cbor = written(CborWriter(len(block)), bytes(32), block, cbor_value(None))
        assert as_cbor == cbor2.dumps((bytes(32), tuple(block), None), canonical=True)


@compiled_only
@given(blocks=blocks, parent=st.binary(max_size=255), extra=EXTRA)
def test_the_cbor_writer(blocks: list[list[int]], parent: bytes, extra: tuple[Any, ...] | None) -> None:
    writer = CborWriter(len(blocks[0]))
    tail = cbor_value(extra)
    for block in blocks:
        expected = cbor2.dumps((parent, tuple(block), extra), canonical=True)
        assert written(writer, parent, block, tail) == expected


@compiled_only
@given(blocks=blocks, parent=parents, extra=EXTRA)
def test_the_raw_writers(blocks: list[list[int]], parent: bytes, extra: tuple[Any, ...] | None) -> None:
    size = len(blocks[0])
    writer = RawWriter(size)
    tail = raw_tail(canonical_keys(extra), size)
    for block in blocks:
        assert written(writer, parent, block, tail) == parent + struct.pack(f"<{size}I", *block) + tail
    if size % 2 == 0:
        in_place = RawWordsWriter(size, len(parent) // 8)
        for block in blocks:
            assert written(in_place, parent, block, b"") == parent + struct.pack(f"<{size}I", *block)


@given(EXTRA)
def test_cbor_of_any_keys(value: Any) -> None:
    assert cbor_value(value) == cbor2.dumps(value, canonical=True)


@pytest.mark.parametrize("number", [0, 23, 24, 255, 256, 65_535, 65_536, 2**32 - 1, 2**32, 2**64 - 1])
def test_cbor_heads_are_the_shortest(number: int) -> None:
    assert cbor_head(0x00, number) == cbor2.dumps(number, canonical=True)
    assert cbor_head(0x20, number) == cbor2.dumps(-1 - number, canonical=True)


def test_what_cbor_does_not_write() -> None:
    with pytest.raises(ConfigError):
        cbor_value(2**64)
    for value in (1.5, [1], {1: 2}, object()):
        with pytest.raises(ArgumentError):
            cbor_value(value)


@given(
    st.lists(st.tuples(st.integers(1, 6), EXTRA), min_size=2, max_size=2),
    st.binary(min_size=24, max_size=24),
)
def test_raw_tails_keep_tokens_and_keys_apart(shapes: list[tuple[int, Any]], packed: bytes) -> None:
    """Two blocks of different shape never have the same bytes, whatever their tokens: lengths or ends differ."""
    (count, keys), (other_count, other_keys) = shapes
    one, other = raw_tail(keys, count), raw_tail(other_keys, other_count)
    if (count, keys) != (other_count, other_keys) and len(one) + 4 * count == len(other) + 4 * other_count:
        # Of equal length in all: then the ends that both have must differ.
        shorter = min(len(one), len(other))
        assert shorter > 0
        assert one[-shorter:] != other[-shorter:]


def test_a_raw_block_without_keys_is_its_parent_and_its_tokens() -> None:
    assert raw_tail(None, 16) == b""
    assert len(raw_tail(("a",), 16)) % 4 == 1

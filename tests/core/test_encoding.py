"""The encoders behind the hashes, tried directly: what they write is what the serialisers write."""

import pickle
import struct
from typing import Any

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockpool import COMPILED, ArgumentError, ConfigError
from blockpool.core.encoding import cbor_head, cbor_value, pickle_tail, raw_tail
from blockpool.core.extra_keys import canonical_keys
from blockpool.core.tokens import pack_tokens
from blockpool.core.writers import MAX_WRITTEN, MIN_WRITTEN, CborWriter, PickleWriter

from .test_hasher_reference import EXTRA, TOKEN

compiled_only = pytest.mark.skipif(
    not COMPILED,
    reason="the direct writers run in the compiled build only: they rely on words that wrap round",
)
parents = st.binary(min_size=16, max_size=16) | st.binary(min_size=32, max_size=32)
blocks = st.integers(MIN_WRITTEN, 40).flatmap(
    lambda size: st.lists(st.lists(TOKEN, min_size=size, max_size=size), min_size=1, max_size=3)
)


@given(token_ids=st.lists(TOKEN, max_size=50))
def test_tokens_are_packed_as_little_endian_words(token_ids: list[int]) -> None:
    assert pack_tokens(token_ids) == struct.pack(f"<{len(token_ids)}I", *token_ids)


@compiled_only
@given(blocks=blocks, parent=parents, extra=EXTRA)
def test_the_pickle_writer(blocks: list[list[int]], parent: bytes, extra: tuple[Any, ...] | None) -> None:
    packed = pack_tokens([token for block in blocks for token in block])
    writer = PickleWriter(len(blocks[0]))
    tail = pickle_tail(canonical_keys(extra))
    for position, block in enumerate(blocks):
        written = writer.block(parent, packed, position, tail)
        assert written == pickle.dumps((parent, tuple(block), extra), protocol=5)
        assert pickle.loads(written) == (parent, tuple(block), extra)


@compiled_only
@pytest.mark.parametrize("size", [MIN_WRITTEN, MAX_WRITTEN])
@pytest.mark.parametrize("token", [0, 255, 256, 65_535, 65_536, 2**31 - 1, 2**31, 2**32 - 1])
def test_the_pickle_writer_at_its_bounds(size: int, token: int) -> None:
    packed = pack_tokens([token] * size)
    for extra in (None, ("k" * (MAX_WRITTEN - 100),)):
        tail = pickle_tail(canonical_keys(extra))
        assert len(tail) <= MAX_WRITTEN
        written = PickleWriter(size).block(bytes(32), packed, 0, tail)
        assert written == pickle.dumps((bytes(32), (token,) * size, extra), protocol=5)


@compiled_only
@given(blocks=blocks, parent=st.binary(max_size=255), extra=EXTRA)
def test_the_cbor_writer(blocks: list[list[int]], parent: bytes, extra: tuple[Any, ...] | None) -> None:
    packed = pack_tokens([token for block in blocks for token in block])
    writer = CborWriter(len(blocks[0]))
    tail = cbor_value(extra)
    for position, block in enumerate(blocks):
        expected = cbor2.dumps((parent, tuple(block), extra), canonical=True)
        assert writer.block(parent, packed, position, tail) == expected


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

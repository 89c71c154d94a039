"""The hand-written encoders against the generic serialisers, over every shape of input."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockpool import BlockHasher

from .hashing_reference import COMPATIBLE, SEED, reference_block, reference_chain

# Each range has its own opcode or length in one of the two serialisers.
TOKEN = st.one_of(
    st.integers(0, 23),
    st.integers(24, 255),
    st.integers(256, 65_535),
    st.integers(65_536, 2**31 - 1),
    st.integers(2**31, 2**32 - 1),
    st.sampled_from([0, 23, 24, 255, 256, 65_535, 65_536, 2**31 - 1, 2**31, 2**32 - 1]),
)
SCALAR = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.sampled_from([-1, 255, 256, 65_536, -(2**31), 2**31, 2**63, 2**64 - 1, -(2**63)]),
    st.text(max_size=20),
    st.binary(max_size=20),
    st.text("ab", min_size=250, max_size=260),
    st.binary(min_size=250, max_size=260),
)
KEY = st.recursive(SCALAR, lambda inner: st.lists(inner, max_size=5).map(tuple), max_leaves=6)


def leaves(value: object) -> list[object]:
    if isinstance(value, tuple):
        return [leaf for item in value for leaf in leaves(item)] + [value]
    return [value]


def without_repeats(keys: tuple[Any, ...]) -> bool:
    """The generic pickle memoises by identity, so it is a reference only where nothing occurs twice."""
    memoised = [leaf for leaf in leaves(keys) if isinstance(leaf, (str, bytes, tuple)) and leaf != ()]
    return len(set(map(repr, memoised))) == len(memoised)


EXTRA = st.one_of(st.none(), st.lists(KEY, min_size=1, max_size=5).map(tuple).filter(without_repeats))


@pytest.mark.parametrize("algorithm", COMPATIBLE)
@given(data=st.data(), block_size=st.integers(1, 40), num_tokens=st.integers(0, 130))
def test_tokens_of_any_size(algorithm: str, data: st.DataObject, block_size: int, num_tokens: int) -> None:
    tokens = data.draw(st.lists(TOKEN, min_size=num_tokens, max_size=num_tokens))
    hasher = BlockHasher(algorithm, block_size, SEED)
    expected = reference_chain(algorithm, hasher.none_hash, tokens, block_size)
    assert hasher.hash_tokens(tokens) == expected
    assert len(expected) == num_tokens // block_size


@pytest.mark.parametrize("algorithm", COMPATIBLE)
@given(tokens=st.lists(TOKEN, min_size=8, max_size=8), extras=st.lists(EXTRA, min_size=4, max_size=4))
def test_extra_keys_of_any_shape(
    algorithm: str, tokens: list[int], extras: list[tuple[Any, ...] | None]
) -> None:
    hasher = BlockHasher(algorithm, 2, SEED)
    expected = reference_chain(algorithm, hasher.none_hash, tokens, 2, extras)
    assert hasher.hash_tokens(tokens, extra_keys=extras) == expected
    assert hasher.hash_block(None, tokens[:2], extras[0]) == expected[0]


@pytest.mark.parametrize("algorithm", COMPATIBLE)
@pytest.mark.parametrize("block_size", [255, 256, 257, 1024, 20_000, 65_536, 70_000])
@pytest.mark.parametrize("token", [1, 300, 70_000, 2**32 - 1])
def test_big_blocks(algorithm: str, block_size: int, token: int) -> None:
    """A long pickle is cut into frames of 64 KiB; a long CBOR array has a longer head."""
    tokens = [token - i % 2 for i in range(block_size)]
    hasher = BlockHasher(algorithm, block_size, SEED)
    assert hasher.hash_tokens(tokens) == reference_chain(algorithm, hasher.none_hash, tokens, block_size)


@pytest.mark.parametrize("algorithm", COMPATIBLE)
def test_every_length_around_a_frame_border(algorithm: str) -> None:
    """Tokens of five bytes in the pickle: 13,107 of them are just over 64 KiB."""
    for block_size in range(13_090, 13_112):
        tokens = [70_000] * block_size
        hasher = BlockHasher(algorithm, block_size, SEED)
        assert hasher.hash_block(None, tokens) == reference_block(algorithm, hasher.none_hash, tokens)


@pytest.mark.parametrize("algorithm", COMPATIBLE)
@pytest.mark.parametrize("length", [0, 1, 23, 24, 255, 256, 65_535, 65_536, 65_537, 200_000])
def test_long_strings_and_bytes(algorithm: str, length: int) -> None:
    """Prompt embeddings are long; the pickle writes what exceeds 64 KiB outside its frames."""
    hasher = BlockHasher(algorithm, 4, SEED)
    for value in ("k" * length, b"k" * length, "é" * length):
        for extra in ((value,), ("before", value, "after"), (("prompt_embeds", value), 5)):
            expected = reference_block(algorithm, hasher.none_hash, [1, 2, 3, 4], extra)
            assert hasher.hash_block(None, [1, 2, 3, 4], extra) == expected


@pytest.mark.parametrize("algorithm", COMPATIBLE)
@pytest.mark.parametrize("num_keys", [1, 2, 3, 4, 23, 24, 255, 256, 300])
def test_any_number_of_keys(algorithm: str, num_keys: int) -> None:
    extra = tuple(f"key number {i}" for i in range(num_keys))
    hasher = BlockHasher(algorithm, 4, SEED)
    assert hasher.hash_block(None, [1, 2, 3, 4], extra) == reference_block(
        algorithm, hasher.none_hash, [1, 2, 3, 4], extra
    )


@pytest.mark.parametrize("algorithm", COMPATIBLE)
@given(half=st.binary(min_size=16, max_size=16))
@pytest.mark.parametrize("repeats", [1, 2])
def test_any_parent(algorithm: str, half: bytes, repeats: int) -> None:
    hasher = BlockHasher(algorithm, 3, SEED)
    parent = half * (repeats * hasher.digest_size // 16 if repeats == 1 else 2)
    tokens = [5, 300, 70_000]
    expected = reference_block(algorithm, parent, tokens)
    assert hasher.hash_block(parent, tokens) == expected
    assert hasher.hash_tokens(tokens, parent) == [expected]

"""BlockHasher: names, roots, chains, and keys that are equal or not."""

import struct
from typing import Any

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockpool import HASH_ALGORITHMS, BlockHasher, ConfigError

from .hashing_reference import COMPATIBLE, reference_block

OURS = tuple(name for name in HASH_ALGORITHMS if name not in COMPATIBLE)
TOKENS = list(range(100, 148))
each_algorithm = pytest.mark.parametrize("algorithm", HASH_ALGORITHMS)


def test_the_names() -> None:
    assert (*COMPATIBLE, "blake2b_raw", "xxh3_raw") == HASH_ALGORITHMS


@each_algorithm
def test_attributes(algorithm: str) -> None:
    hasher = BlockHasher(algorithm, 16, "seed")
    assert hasher.algorithm == algorithm
    assert hasher.block_size == 16
    assert isinstance(hasher.none_hash, bytes)


@each_algorithm
def test_digest_lengths(algorithm: str) -> None:
    expected = 16 if algorithm.startswith("xx") else 32
    hasher = BlockHasher(algorithm, 16, "seed")
    assert len(hasher.none_hash) == expected
    assert [len(block_hash) for block_hash in hasher.hash_tokens(TOKENS)] == [expected] * 3


@each_algorithm
def test_without_a_seed_the_root_is_32_random_bytes(algorithm: str) -> None:
    one, other = BlockHasher(algorithm, 16), BlockHasher(algorithm, 16)
    assert len(one.none_hash) == len(other.none_hash) == 32
    assert one.none_hash != other.none_hash
    assert not set(one.hash_tokens(TOKENS)) & set(other.hash_tokens(TOKENS))


@each_algorithm
def test_with_a_seed_hashes_repeat(algorithm: str) -> None:
    one, twin, other = (BlockHasher(algorithm, 16, seed) for seed in ("0", "0", "1"))
    assert one.hash_tokens(TOKENS) == twin.hash_tokens(TOKENS)
    assert not set(one.hash_tokens(TOKENS)) & set(other.hash_tokens(TOKENS))


@each_algorithm
def test_only_full_blocks_are_hashed(algorithm: str) -> None:
    hasher = BlockHasher(algorithm, 16, "0")
    assert hasher.hash_tokens([]) == []
    assert hasher.hash_tokens(TOKENS[:15]) == []
    full = hasher.hash_tokens(TOKENS[:32])
    assert len(full) == 2
    assert hasher.hash_tokens(TOKENS[:47]) == full


@each_algorithm
def test_the_first_block_follows_the_root(algorithm: str) -> None:
    hasher = BlockHasher(algorithm, 16, "0")
    first = hasher.hash_block(None, TOKENS[:16])
    assert hasher.hash_block(hasher.none_hash, TOKENS[:16]) == first
    assert hasher.hash_tokens(TOKENS)[0] == first


@each_algorithm
@given(cut=st.integers(0, 6), num_tokens=st.integers(0, 100), block_size=st.integers(1, 17))
def test_growing_piecewise_equals_at_once(algorithm: str, cut: int, num_tokens: int, block_size: int) -> None:
    tokens = [(i * 7919) % 100_000 for i in range(num_tokens)]
    hasher = BlockHasher(algorithm, block_size, "0")
    at_once = hasher.hash_tokens(tokens)
    head = at_once[:cut]
    rest = hasher.hash_tokens(tokens[len(head) * block_size :], head[-1] if head else None)
    assert head + rest == at_once
    grown: list[bytes] = []
    for i in range(num_tokens // block_size):
        parent = grown[-1] if grown else None
        grown += hasher.hash_tokens(tokens[i * block_size : (i + 1) * block_size], parent_hash=parent)
    assert grown == at_once


@each_algorithm
def test_a_hash_stands_for_its_whole_prefix(algorithm: str) -> None:
    hasher = BlockHasher(algorithm, 16, "0")
    hashes = hasher.hash_tokens(TOKENS)
    changed = hasher.hash_tokens([TOKENS[0] + 1, *TOKENS[1:]])
    assert not set(hashes) & set(changed)
    changed_late = hasher.hash_tokens([*TOKENS[:-1], 5])
    assert changed_late[:2] == hashes[:2]
    assert changed_late[2] != hashes[2]
    repeated = hasher.hash_tokens([7] * 48)
    assert len(set(repeated)) == 3


@each_algorithm
def test_order_of_tokens_matters(algorithm: str) -> None:
    hasher = BlockHasher(algorithm, 2, "0")
    assert hasher.hash_block(None, [1, 2]) != hasher.hash_block(None, [2, 1])
    assert hasher.hash_block(None, [1, 256]) != hasher.hash_block(None, [256, 1])


@each_algorithm
def test_extra_keys_change_the_hash(algorithm: str) -> None:
    hasher = BlockHasher(algorithm, 2, "0")
    extras: list[Any] = [
        None, ("a",), ("b",), (b"a",), ("a", "b"), ("b", "a"), ("ab",), (("a", "b"),), (("a",), "b"),
        (1,), ("1",), (None,), ("a", None), (0,), (256,), (-1,), (2**63,), ("",), (b"",), ((),),
        ("a", ("b",)),
    ]  # fmt: skip
    hashes = [hasher.hash_block(None, [1, 2], extra) for extra in extras]
    assert len(set(hashes)) == len(extras)


@each_algorithm
def test_a_key_cannot_pose_as_tokens(algorithm: str) -> None:
    """Raw formats must mark where tokens end and keys begin."""
    hasher = BlockHasher(algorithm, 2, "0")
    plain = hasher.hash_block(None, [1, 2])
    for extra in ((1, 2), (b"\x01\x00\x00\x00\x02\x00\x00\x00",), (b"",), (0,)):
        assert hasher.hash_block(None, [1, 2], extra) != plain
    other_parent = hasher.hash_block(plain, [1, 2])
    assert other_parent != hasher.hash_block(None, [1, 2], (plain,))


def copy_of(value: object) -> object:
    """An equal object that shares nothing with the original."""
    if isinstance(value, str):
        return value.encode().decode()
    if isinstance(value, bytes):
        return bytes(bytearray(value))
    if isinstance(value, tuple):
        return tuple(copy_of(item) for item in list(value))
    return value


@each_algorithm
@pytest.mark.parametrize(
    "extra",
    [
        ("some name", "some name"),
        (b"some bytes", b"some bytes"),
        (("lora", "some name"), ("cache_salt", "some name")),
        (("mm", "image", 3), ("mm", "image", 9)),
        (("a tuple", 5), ("a tuple", 5), ("a tuple", 5)),
        (("deep", ("deeper", ("deep", "deeper"))), ("deeper", ("deep", "deeper"))),
        ("x" * 300, "x" * 300, b"x" * 300, b"x" * 300),
        (100_000, 100_000, 2**60, 2**60),
    ],
)
def test_equal_keys_hash_equally_whatever_their_identity(algorithm: str, extra: tuple[Any, ...]) -> None:
    hasher = BlockHasher(algorithm, 2, "0")
    shared = tuple(extra)
    apart = tuple(copy_of(item) for item in extra)
    one_object = copy_of(extra[0])
    half = (one_object, *(one_object if item == one_object else copy_of(item) for item in extra[1:]))
    assert shared == apart == half
    expected = hasher.hash_block(None, [1, 2], shared)
    assert hasher.hash_block(None, [1, 2], apart) == expected
    assert hasher.hash_block(None, [1, 2], half) == expected
    assert hasher.hash_tokens([1, 2], None, [half]) == [expected]


@each_algorithm
def test_a_key_equal_to_the_parent_hash(algorithm: str) -> None:
    hasher = BlockHasher(algorithm, 2, "0")
    parent = hasher.hash_block(None, [1, 2])
    same_object = hasher.hash_block(parent, [3, 4], (parent,))
    assert hasher.hash_block(parent, [3, 4], (copy_of(parent),)) == same_object
    assert hasher.hash_block(copy_of(parent), [3, 4], (parent,)) == same_object  # type: ignore[arg-type]


@pytest.mark.parametrize("algorithm", COMPATIBLE)
def test_a_subclass_of_str_hashes_as_its_text(algorithm: str) -> None:
    class Name(str):
        pass

    hasher = BlockHasher(algorithm, 2, "0")
    assert hasher.hash_block(None, [1, 2], (Name("adapter"),)) == reference_block(
        algorithm, hasher.none_hash, [1, 2], ("adapter",)
    )


@each_algorithm
def test_no_keys_is_the_same_as_none(algorithm: str) -> None:
    hasher = BlockHasher(algorithm, 2, "0")
    plain = hasher.hash_tokens([1, 2, 3, 4])
    assert hasher.hash_tokens([1, 2, 3, 4], None, [None, None]) == plain
    assert hasher.hash_block(None, [1, 2], ()) == plain[0]


@pytest.mark.parametrize("algorithm", OURS)
def test_every_bit_of_a_token_enters_a_raw_format(algorithm: str) -> None:
    hasher = BlockHasher(algorithm, 4, "0")
    tokens = [0, 0, 0, 0]
    seen = {hasher.hash_block(None, tokens)}
    for position in range(4):
        for bit in range(32):
            flipped = list(tokens)
            flipped[position] = 1 << bit
            seen.add(hasher.hash_block(None, flipped))
    assert len(seen) == 129


@pytest.mark.parametrize("algorithm", OURS)
def test_a_raw_format_comes_apart_in_one_way(algorithm: str) -> None:
    """The same bytes, cut elsewhere: keys read as tokens hash differently; a parent of another length is refused."""
    hasher = BlockHasher(algorithm, 4, "0")
    parent, tokens, keys = bytes(hasher.digest_size), [1, 2, 3, 4], ("a" * 14,)
    packed = struct.pack("<4I", *tokens)
    key_bytes = cbor2.dumps(keys, canonical=True)
    assert len(key_bytes) == len(packed) == 16
    key_tokens = list(struct.unpack("<4I", key_bytes))
    one = hasher.hash_block(parent, tokens, keys)
    assert hasher.hash_block(parent, [*tokens, *key_tokens]) != one
    assert hasher.hash_block(parent, key_tokens, keys) != one
    other_length = 48 - hasher.digest_size
    whole = parent + packed + key_bytes
    other_tokens = whole[other_length:]
    with pytest.raises(ConfigError) as caught:
        hasher.hash_block(whole[:other_length], struct.unpack(f"<{len(other_tokens) // 4}I", other_tokens))
    assert caught.value.field == "parent_hash"


@each_algorithm
@pytest.mark.parametrize("number", [2**64, -(2**63) - 1, 2**70])
def test_keys_are_integers_of_64_bits(algorithm: str, number: int) -> None:
    with pytest.raises(ConfigError):
        BlockHasher(algorithm, 4, "0").hash_block(None, [1, 2, 3, 4], ("a", (number,)))


@each_algorithm
def test_keys_are_not_nested_without_end(algorithm: str) -> None:
    keys: tuple[Any, ...] = ("a",)
    for _ in range(100_000):
        keys = (keys,)
    with pytest.raises(ConfigError):
        BlockHasher(algorithm, 4, "0").hash_block(None, [1, 2, 3, 4], keys)
    while keys != ("a",):  # taken apart by hand: a tuple so deep is not to be freed in one go
        (keys,) = keys


@each_algorithm
@pytest.mark.parametrize("seed", ["\ud800", "a\udfff"])
def test_text_that_is_no_unicode(algorithm: str, seed: str) -> None:
    with pytest.raises(ConfigError):
        BlockHasher(algorithm, 4, seed)
    with pytest.raises(ConfigError):
        BlockHasher(algorithm, 4, "0").hash_block(None, [1, 2, 3, 4], (seed,))


@each_algorithm
@pytest.mark.parametrize("length", [1, 8, 15, 17, 31, 33, 64])
def test_a_parent_has_the_length_of_a_hash(algorithm: str, length: int) -> None:
    hasher = BlockHasher(algorithm, 4, "0")
    with pytest.raises(ConfigError) as caught:
        hasher.hash_tokens([1, 2, 3, 4], bytes(length))
    assert caught.value.field == "parent_hash"


@each_algorithm
def test_a_block_holds_at_least_one_token(algorithm: str) -> None:
    with pytest.raises(ConfigError):
        BlockHasher(algorithm, 16, "0").hash_block(None, [])

"""Keys of hash and group, external hashes, and coarse hashes derived from fine ones."""

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockpool import (
    ArgumentError,
    BlockHashListWithBlockSize,
    ConfigError,
    external_block_hash,
    get_block_hash,
    get_group_id,
    make_block_hash_with_group_id,
)

FINE = [bytes([i]) * 4 for i in range(7)]


def test_a_key_is_the_hash_and_the_group_in_four_bytes() -> None:
    assert make_block_hash_with_group_id(b"\xaa" * 3, 0) == b"\xaa\xaa\xaa\x00\x00\x00\x00"
    assert make_block_hash_with_group_id(b"\xaa" * 3, 258) == b"\xaa\xaa\xaa\x00\x00\x01\x02"
    assert make_block_hash_with_group_id(b"\0", 2**32 - 1) == b"\0\xff\xff\xff\xff"


@given(st.binary(min_size=1, max_size=100), st.integers(0, 2**32 - 1))
def test_a_key_comes_apart_again(block_hash: bytes, group_id: int) -> None:
    key = make_block_hash_with_group_id(block_hash, group_id)
    assert len(key) == len(block_hash) + 4
    assert get_block_hash(key) == block_hash
    assert get_group_id(key) == group_id


def test_an_empty_hash_is_treated_alike_when_joined_and_when_split() -> None:
    try:
        key = make_block_hash_with_group_id(b"", 1)
    except ConfigError:
        with pytest.raises(ConfigError):
            get_block_hash(b"\0\0\0\1")
        return
    assert get_block_hash(key) == b""


@pytest.mark.parametrize("short", [b"", b"\0", b"\0\0\0"])
def test_a_key_is_longer_than_its_group(short: bytes) -> None:
    for take in (get_block_hash, get_group_id):
        with pytest.raises(ConfigError):
            take(short)


@pytest.mark.parametrize("group_id", [-1, 2**32, 2**70, -(2**70)])
def test_a_group_id_fits_four_bytes(group_id: int) -> None:
    with pytest.raises(ConfigError) as caught:
        make_block_hash_with_group_id(b"x" * 32, group_id)
    assert type(caught.value) is ConfigError
    assert caught.value.value == group_id


@pytest.mark.parametrize(
    "call",
    [
        lambda: make_block_hash_with_group_id("x", 0),
        lambda: make_block_hash_with_group_id(None, 0),
        lambda: make_block_hash_with_group_id(b"x", "0"),
        lambda: make_block_hash_with_group_id(b"x", 1.0),
        lambda: make_block_hash_with_group_id(b"x", None),
        lambda: get_block_hash("x"),
        lambda: get_group_id(None),
        lambda: external_block_hash("x"),
        lambda: external_block_hash(12),
    ],
)
def test_wrong_types(call: Callable[[], object]) -> None:
    with pytest.raises(ArgumentError):
        call()


def test_external_hash_is_the_last_eight_bytes() -> None:
    assert external_block_hash(b"\x11" * 24 + b"\xff" * 8) == 2**64 - 1
    assert external_block_hash(b"\xff" * 24 + b"\x00" * 6 + b"\x01\x02") == 258


def test_external_hash_of_a_short_hash() -> None:
    assert external_block_hash(b"\x01\x00") == 256


def test_coarse_hashes_are_concatenations() -> None:
    coarse = BlockHashListWithBlockSize(FINE, 16, 48)
    assert len(coarse) == 2
    assert coarse[0] == FINE[0] + FINE[1] + FINE[2]
    assert coarse[1] == FINE[3] + FINE[4] + FINE[5]
    assert list(coarse) == [coarse[0], coarse[1]]


def test_a_factor_of_one_changes_nothing() -> None:
    assert list(BlockHashListWithBlockSize(FINE, 16, 16)) == FINE


def test_the_list_is_lazy() -> None:
    fine = list(FINE[:3])
    coarse = BlockHashListWithBlockSize(fine, 8, 16)
    assert len(coarse) == 1
    fine.append(FINE[3])
    assert len(coarse) == 2
    assert coarse[1] == FINE[2] + FINE[3]


@given(
    st.integers(0, 12),
    st.integers(1, 4),
    st.slices(12),
)
def test_slices_are_those_of_the_full_list(length: int, factor: int, part: slice) -> None:
    fine = [bytes([i]) * 2 for i in range(length)]
    coarse = BlockHashListWithBlockSize(fine, 16, 16 * factor)
    full = [b"".join(fine[i * factor : (i + 1) * factor]) for i in range(length // factor)]
    assert list(coarse) == full
    assert list(coarse[part]) == full[part]


def test_indices_are_those_of_a_sequence() -> None:
    coarse = BlockHashListWithBlockSize(FINE, 16, 32)
    assert coarse[-1] == coarse[2] == FINE[4] + FINE[5]
    assert coarse[-3] == coarse[0]
    for beyond in (3, -4, 2**70):
        with pytest.raises(IndexError):
            coarse[beyond]


@pytest.mark.parametrize(
    ("fine_size", "coarse_size"), [(16, 24), (16, 8), (0, 16), (16, 0), (-16, 16), (16, -16)]
)
def test_sizes_must_divide(fine_size: int, coarse_size: int) -> None:
    with pytest.raises(ConfigError) as caught:
        BlockHashListWithBlockSize(FINE, fine_size, coarse_size)
    assert type(caught.value) is ConfigError


@pytest.mark.parametrize("arguments", [(FINE, "16", 32), (FINE, 16, 32.0), (None, 16, 32), (5, 16, 32)])
def test_wrong_types_for_the_list(arguments: tuple[Sequence[bytes], int, int]) -> None:
    with pytest.raises(ArgumentError):
        BlockHashListWithBlockSize(*arguments)


def test_a_wrong_index_type() -> None:
    with pytest.raises(TypeError):
        BlockHashListWithBlockSize(FINE, 16, 32)["0"]  # type: ignore[call-overload]

"""What hash_tokens accepts as tokens, and what it refuses: never a third hash."""

import array
import ctypes
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockpool import HASH_ALGORITHMS, ArgumentError, BlockHasher, BlockPoolError, ConfigError

np = pytest.importorskip("numpy", reason="numpy is not installed: its arrays cannot be tried as tokens")

TOKENS = [0, 1, 255, 256, 65_535, 65_536, 2**31 - 1, 12, 13, 14]
WIDE = [*TOKENS[:-2], 2**31, 2**32 - 1]
each_algorithm = pytest.mark.parametrize("algorithm", HASH_ALGORITHMS)

BUFFERS: dict[str, Callable[[Sequence[int]], Any]] = {
    "tuple": tuple,
    "array of C int": lambda tokens: array.array("i", tokens),
    "array of C long": lambda tokens: array.array("l", tokens),
    "array of C long long": lambda tokens: array.array("q", tokens),
    "numpy int32": lambda tokens: np.array(tokens, dtype=np.int32),
    "numpy int64": lambda tokens: np.array(tokens, dtype=np.int64),
    "memoryview of int32": lambda tokens: memoryview(array.array("i", tokens)),
    "memoryview of int64": lambda tokens: memoryview(np.array(tokens, dtype=np.int64)),
    "list of numpy integers": lambda tokens: [np.int64(token) for token in tokens],
    "ctypes array": lambda tokens: (ctypes.c_int32 * len(tokens))(*tokens),
    "read-only numpy": lambda tokens: _read_only(np.array(tokens, dtype=np.int64)),
}
WIDE_BUFFERS: dict[str, Callable[[Sequence[int]], Any]] = {
    "array of C unsigned int": lambda tokens: array.array("I", tokens),
    "array of C unsigned long": lambda tokens: array.array("L", tokens),
    "array of C unsigned long long": lambda tokens: array.array("Q", tokens),
    "array of C long long": lambda tokens: array.array("q", tokens),
    "numpy uint32": lambda tokens: np.array(tokens, dtype=np.uint32),
    "numpy uint64": lambda tokens: np.array(tokens, dtype=np.uint64),
    "numpy int64": lambda tokens: np.array(tokens, dtype=np.int64),
    "memoryview of uint32": lambda tokens: memoryview(array.array("I", tokens)),
    "memoryview of uint64": lambda tokens: memoryview(np.array(tokens, dtype=np.uint64)),
    "list of numpy integers": lambda tokens: [np.uint32(token) for token in tokens],
}


def _read_only(values: Any) -> Any:
    values.flags.writeable = False
    return values


@each_algorithm
@pytest.mark.parametrize("kind", BUFFERS)
def test_every_kind_of_input_hashes_alike(algorithm: str, kind: str) -> None:
    hasher = BlockHasher(algorithm, 4, "0")
    expected = hasher.hash_tokens(TOKENS)
    assert hasher.hash_tokens(BUFFERS[kind](TOKENS)) == expected
    assert hasher.hash_block(None, BUFFERS[kind](TOKENS[:4])) == expected[0]


@each_algorithm
@pytest.mark.parametrize("kind", WIDE_BUFFERS)
def test_every_kind_of_wide_input_hashes_alike(algorithm: str, kind: str) -> None:
    hasher = BlockHasher(algorithm, 5, "0")
    expected = hasher.hash_tokens(WIDE)
    assert hasher.hash_tokens(WIDE_BUFFERS[kind](WIDE)) == expected
    assert hasher.hash_block(None, WIDE_BUFFERS[kind](WIDE[5:])) == hasher.hash_block(None, WIDE[5:])


def test_a_range_is_a_sequence_of_tokens() -> None:
    hasher = BlockHasher("sha256", 4, "0")
    assert hasher.hash_tokens(range(9)) == hasher.hash_tokens(list(range(9)))


def right_or_refused(hasher: BlockHasher, given_tokens: Any, tokens: Sequence[int]) -> None:
    """Either the hashes of those very tokens or a typed error: never a third thing."""
    expected = hasher.hash_tokens(list(tokens))
    try:
        hashes = hasher.hash_tokens(given_tokens)
    except BlockPoolError:
        return
    assert hashes == expected


@each_algorithm
def test_strided_and_odd_buffers_are_read_right_or_refused(algorithm: str) -> None:
    hasher = BlockHasher(algorithm, 4, "0")
    wide = np.arange(1000, 1032, dtype=np.int64)
    for values in (wide[::2], wide[::-1], wide[1:17], wide.reshape(4, 8)[:, 3], wide[:0]):
        right_or_refused(hasher, values, values.tolist())
        right_or_refused(hasher, memoryview(values), values.tolist())
    for dtype in (">i4", ">i8", ">u4", "<u8"):
        values = np.arange(1000, 1016, dtype=dtype)
        right_or_refused(hasher, values, values.tolist())
    packed = np.zeros(8, dtype=[("flag", "i1"), ("token", "<i4")])
    packed["token"] = range(8)
    right_or_refused(hasher, packed["token"], list(range(8)))


@each_algorithm
@pytest.mark.parametrize(
    "tokens",
    [
        b"\x01\x02\x03\x04",
        bytearray(b"\x01\x02\x03\x04"),
        array.array("b", [1, 2, 3, 4]),
        array.array("H", [1, 2, 3, 4]),
        array.array("f", [1, 2, 3, 4]),
        array.array("d", [1, 2, 3, 4]),
        memoryview(b"\x01\x02\x03\x04"),
        np.array([1, 2, 3, 4], dtype=np.int16),
        np.array([1, 2, 3, 4], dtype=np.uint8),
        np.array([1, 2, 3, 4], dtype=np.float32),
        np.array([1, 2, 3, 4], dtype=np.float64),
        np.array([True, False, True, True]),
        np.array([1, 2, 3, 4], dtype=complex),
        np.arange(8, dtype=np.int64).reshape(2, 4),
        np.arange(16, dtype=np.int32).reshape(4, 4),
        np.array(["1", "2", "3", "4"]),
        np.int64(4),
        "1234",
        4,
        None,
        3.5,
    ],
    ids=lambda tokens: f"{type(tokens).__name__}-{getattr(tokens, 'dtype', getattr(tokens, 'typecode', ''))}",
)
def test_other_types_are_refused(algorithm: str, tokens: Any) -> None:
    hasher = BlockHasher(algorithm, 4, "0")
    with pytest.raises(ArgumentError):
        hasher.hash_tokens(tokens)
    with pytest.raises(ArgumentError):
        hasher.hash_block(None, tokens)


@each_algorithm
@pytest.mark.parametrize("bad", [-1, 2**32, -(2**31), 2**63, 2**64, -(2**70), 2**70])
@pytest.mark.parametrize("position", [0, 3, 5, 7])
def test_tokens_out_of_range(algorithm: str, bad: int, position: int) -> None:
    hasher = BlockHasher(algorithm, 4, "0")
    tokens = list(range(8))
    tokens[position] = bad
    for given_tokens in (tokens, tuple(tokens)):
        with pytest.raises(ConfigError) as caught:
            hasher.hash_tokens(given_tokens)
        assert type(caught.value) is ConfigError
    block = tokens[position // 4 * 4 :][:4]
    with pytest.raises(ConfigError) as caught:
        hasher.hash_block(None, block)
    assert type(caught.value) is ConfigError


@each_algorithm
@pytest.mark.parametrize(
    "tokens",
    [
        array.array("i", [1, 2, 3, -1]),
        array.array("q", [1, 2, 3, -1]),
        array.array("q", [1, 2, 3, 2**32]),
        array.array("q", [-(2**63), 2, 3, 4]),
        array.array("q", [1, 2**32 + 1, 3, 4]),
        array.array("Q", [1, 2, 3, 2**32]),
        array.array("Q", [1, 2, 3, 2**64 - 1]),
        np.array([1, 2, -5, 3], dtype=np.int32),
        np.array([1, 2, -5, 3], dtype=np.int64),
        np.array([1, 2, 3, 2**40], dtype=np.int64),
        np.array([1, 2, 3, 2**63], dtype=np.uint64),
    ],
)
def test_buffers_with_tokens_out_of_range(algorithm: str, tokens: Any) -> None:
    hasher = BlockHasher(algorithm, 4, "0")
    for given_tokens in (tokens, memoryview(tokens)):
        with pytest.raises(ConfigError) as caught:
            hasher.hash_tokens(given_tokens)
        assert type(caught.value) is ConfigError


@each_algorithm
@pytest.mark.parametrize("bad", [1.0, "1", None, b"1", [1], 1j, float("nan")])
def test_tokens_of_wrong_type(algorithm: str, bad: object) -> None:
    hasher = BlockHasher(algorithm, 4, "0")
    for tokens in ([1, 2, 3, bad], (bad, 2, 3, 4), [1, 2, 3, 4, 5, bad, 7, 8]):
        with pytest.raises(ArgumentError):
            hasher.hash_tokens(tokens)  # type: ignore[arg-type]


@each_algorithm
@pytest.mark.parametrize("bad", [-1, 2**32])
def test_numpy_integers_out_of_range_in_a_list(algorithm: str, bad: int) -> None:
    with pytest.raises(ConfigError):
        BlockHasher(algorithm, 4, "0").hash_tokens([1, 2, 3, np.int64(bad)])


@each_algorithm
def test_true_is_one_or_refused(algorithm: str) -> None:
    hasher = BlockHasher(algorithm, 4, "0")
    right_or_refused(hasher, [True, False, 5, True], [1, 0, 5, 1])


@each_algorithm
def test_a_refused_call_does_not_disturb_the_next(algorithm: str) -> None:
    hasher = BlockHasher(algorithm, 4, "0")
    expected = hasher.hash_tokens(TOKENS)
    for bad in ([1, 2, 3, -1], [1, 2, 3, "x"], array.array("f", [1, 2, 3, 4])):
        with pytest.raises(BlockPoolError):
            hasher.hash_tokens(bad)  # type: ignore[arg-type]
        assert hasher.hash_tokens(TOKENS) == expected


@each_algorithm
def test_tokens_that_raise_raise_their_own_error(algorithm: str) -> None:
    class Broken(Sequence[int]):
        def __len__(self) -> int:
            return 4

        def __getitem__(self, index: Any) -> Any:
            raise ZeroDivisionError("broken sequence")

        def __iter__(self) -> Iterator[int]:
            raise ZeroDivisionError("broken sequence")

    with pytest.raises((ZeroDivisionError, ArgumentError)):
        BlockHasher(algorithm, 4, "0").hash_tokens(Broken())


@each_algorithm
@pytest.mark.parametrize("parent", [5, "x" * 32, bytearray(32), [1]])
def test_parent_of_wrong_type(algorithm: str, parent: Any) -> None:
    hasher = BlockHasher(algorithm, 4, "0")
    with pytest.raises(ArgumentError):
        hasher.hash_tokens(TOKENS, parent)
    with pytest.raises(ArgumentError):
        hasher.hash_block(parent, TOKENS[:4])


class OtherBytes(bytes):
    """Equal to plain ones, but pickled as an instance of its class."""


@each_algorithm
@pytest.mark.parametrize("keys", [None, ("salt",)])
def test_bytes_of_a_subclass_are_bytes(algorithm: str, keys: tuple[str] | None) -> None:
    plain = BlockHasher(algorithm, 4, "0")
    parent = plain.hash_block(None, TOKENS[:4])
    for other in (OtherBytes(parent), parent):
        assert plain.hash_block(other, TOKENS[:4], keys) == plain.hash_tokens(TOKENS[:4], parent, [keys])[0]
        assert plain.hash_tokens(TOKENS[:4], other, [keys]) == plain.hash_tokens(TOKENS[:4], parent, [keys])
    for size in (OtherBytes, bytes):
        random_root = BlockHasher(algorithm, 4, random_bytes=size)
        assert random_root.hash_tokens(TOKENS) == BlockHasher(algorithm, 4, random_bytes=bytes).hash_tokens(
            TOKENS
        )


@each_algorithm
@pytest.mark.parametrize("extra", [[None], [None] * 3, []])
def test_one_extra_per_full_block(algorithm: str, extra: list[None]) -> None:
    with pytest.raises(ConfigError) as caught:
        BlockHasher(algorithm, 4, "0").hash_tokens(TOKENS[:9], None, extra)
    assert type(caught.value) is ConfigError


@each_algorithm
@pytest.mark.parametrize(
    "extra",
    [
        "ab",
        5,
        [5, None],
        [None, "a"],
        [["a"], None],
        [({1},), None],
        [(object(),), None],
        [(("a", [1]),), None],
    ],
)
def test_extra_keys_of_wrong_type(algorithm: str, extra: Any) -> None:
    with pytest.raises(ArgumentError):
        BlockHasher(algorithm, 4, "0").hash_tokens(TOKENS[:8], None, extra)


@each_algorithm
@pytest.mark.parametrize("extra", ["ab", 5, ["a"], ({1},), (object(),), {"a": 1}])
def test_extra_keys_of_wrong_type_for_one_block(algorithm: str, extra: Any) -> None:
    with pytest.raises(ArgumentError):
        BlockHasher(algorithm, 4, "0").hash_block(None, TOKENS[:4], extra)


@each_algorithm
@pytest.mark.parametrize("value", [0, 5, 300, -7, 70_000, 2**40])
def test_numpy_integers_in_keys_hash_as_integers(algorithm: str, value: int) -> None:
    hasher = BlockHasher(algorithm, 4, "0")
    expected = hasher.hash_block(None, TOKENS[:4], ("mm", "image", value))
    assert hasher.hash_block(None, TOKENS[:4], ("mm", "image", np.int64(value))) == expected
    nested = hasher.hash_block(None, TOKENS[:4], (("mm", "image", value),))
    assert hasher.hash_block(None, TOKENS[:4], (("mm", "image", np.int64(value)),)) == nested


@each_algorithm
@given(tokens=st.lists(st.integers(0, 2**32 - 1), max_size=40), block_size=st.integers(1, 9))
def test_lists_and_buffers_agree(algorithm: str, tokens: list[int], block_size: int) -> None:
    hasher = BlockHasher(algorithm, block_size, "0")
    expected = hasher.hash_tokens(tokens)
    assert hasher.hash_tokens(np.array(tokens, dtype=np.uint32)) == expected
    assert hasher.hash_tokens(array.array("Q", tokens)) == expected
    assert hasher.hash_tokens(tuple(tokens)) == expected

"""The errors: one root, specific leaves, and the facts as attributes."""

import pickle
from typing import Any

import pytest

import blockpool
from blockpool.errors import (
    ArgumentError,
    BlockPoolError,
    BlockStateError,
    ConfigError,
    HashAlreadySetError,
    InvariantError,
    MissingExtraError,
    OutOfBlocksError,
    TraceError,
)

LEAVES: list[tuple[type[BlockPoolError], tuple[Any, ...], dict[str, Any], tuple[type[Exception], ...]]] = [
    (ConfigError, ("n", -1, "too few"), {"field": "n", "value": -1, "reason": "too few"}, (ValueError,)),
    (
        ArgumentError,
        ("n", "x", "no number"),
        {"field": "n", "value": "x", "reason": "no number"},
        (ConfigError, ValueError, TypeError),
    ),
    (OutOfBlocksError, (5, 4), {"wanted": 5, "free": 4}, (ValueError,)),
    (
        BlockStateError,
        (7, "held", "idle"),
        {"block_id": 7, "expected": "held", "actual": "idle"},
        (RuntimeError,),
    ),
    (
        HashAlreadySetError,
        (7, "no hash", "one"),
        {"block_id": 7, "expected": "no hash", "actual": "one"},
        (BlockStateError, RuntimeError, AssertionError),
    ),
    (
        TraceError,
        ("a.jsonl", 3, "no JSON"),
        {"path": "a.jsonl", "line": 3, "reason": "no JSON"},
        (ValueError,),
    ),
    (InvariantError, ("I3", "dump"), {"invariant": "I3", "dump": "dump"}, (AssertionError,)),
    (MissingExtraError, ("xxhash", "hash"), {"feature": "xxhash", "extra": "hash"}, (ImportError,)),
]
each_leaf = pytest.mark.parametrize(
    ("leaf", "arguments", "facts", "bases"), LEAVES, ids=[leaf.__name__ for leaf, *_ in LEAVES]
)


@each_leaf
def test_a_leaf(leaf: Any, arguments: Any, facts: dict[str, Any], bases: tuple[type, ...]) -> None:
    error = leaf(*arguments)
    assert isinstance(error, BlockPoolError)
    for base in bases:
        assert isinstance(error, base)
    for name, value in facts.items():
        assert getattr(error, name) == value
        assert str(value) in str(error)


@each_leaf
def test_a_leaf_survives_pickling(
    leaf: Any, arguments: Any, facts: dict[str, Any], bases: tuple[type, ...]
) -> None:
    """Replays run in several processes: their errors must come back whole."""
    error = pickle.loads(pickle.dumps(leaf(*arguments)))
    assert type(error) is leaf
    for name, value in facts.items():
        assert getattr(error, name) == value
    assert str(error) == str(leaf(*arguments))


@each_leaf
def test_a_leaf_can_be_subclassed(
    leaf: Any, arguments: Any, facts: dict[str, Any], bases: tuple[type, ...]
) -> None:
    class Own(leaf):  # type: ignore[misc]
        pass

    with pytest.raises(leaf):
        raise Own(*arguments)


@pytest.mark.parametrize("leaf", [leaf for leaf, *_ in LEAVES] + [BlockPoolError])
def test_a_leaf_is_importable_from_the_package(leaf: type) -> None:
    assert getattr(blockpool, leaf.__name__) is leaf
    assert leaf.__name__ in blockpool.__all__


def test_expected_errors_are_no_caller_bugs_and_the_other_way_round() -> None:
    assert not issubclass(OutOfBlocksError, ConfigError)
    assert not issubclass(BlockStateError, ValueError)
    assert not issubclass(InvariantError, BlockStateError)


def test_messages_are_one_line() -> None:
    for leaf, arguments, _, _ in LEAVES:
        if leaf is not InvariantError:
            assert "\n" not in str(leaf(*arguments))


def test_a_long_value_is_shortened() -> None:
    text = str(ConfigError("tokens", list(range(10_000)), "too many"))
    assert len(text) < 200
    assert text.startswith("tokens=[0, 1, 2")
    assert text.endswith("...: too many")


def test_a_trace_error_without_a_line() -> None:
    assert str(TraceError("a.jsonl", 3, "no JSON")) == "a.jsonl:3: no JSON"
    assert str(TraceError("a.jsonl", 0, "empty")) == "a.jsonl: empty"


def test_a_missing_extra_says_what_to_install() -> None:
    assert "install the extra, from a checkout with pip install '.[hash]'" in str(
        MissingExtraError("xxhash", "hash")
    )

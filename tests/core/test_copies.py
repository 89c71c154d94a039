"""What has an identity cannot be copied; what travels can be pickled."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from blockpool import (
    AllBlocksCleared,
    ArgumentError,
    BlockPool,
    BlockRemoved,
    BlockStateError,
    BlockStored,
    ConfigError,
    OutOfBlocksError,
)

from .support import assert_refused

WAYS: list[Callable[[Any], Any]] = [copy.copy, copy.deepcopy, pickle.dumps]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("part", ["pool", "block", "queue"])
def test_pool_queue_and_blocks_cannot_be_copied(part: str, way: Callable[[Any], Any]) -> None:
    pool = BlockPool(3000, True, 16)
    thing = {"pool": pool, "block": pool.blocks[5], "queue": pool.free_block_queue}[part]
    assert_refused(pool, ArgumentError, lambda: way(thing), part)


@pytest.mark.parametrize(
    "event",
    [
        BlockStored([1, b"x"], None, [1, 2, 3, 4], 2, 7, "GPU", "adapter"),
        BlockRemoved([2**64 - 1], "GPU"),
        AllBlocksCleared(),
    ],
)
def test_events_travel(event: object) -> None:
    for way in (copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))):
        assert way(event) == event


def test_errors_travel_whatever_they_carry() -> None:
    pool = BlockPool(3000, True, 16)
    with pytest.raises(ArgumentError) as refused:
        pool.get_new_blocks(pool.blocks[5])  # type: ignore[arg-type]
    arrived = pickle.loads(pickle.dumps(refused.value))
    assert type(arrived) is ArgumentError
    assert str(arrived).startswith("num_blocks=")
    for error in (OutOfBlocksError(3, 2), BlockStateError(3, "this", "that"), ConfigError("a", 1, "b")):
        arrived = pickle.loads(pickle.dumps(error))
        assert (type(arrived), str(arrived), vars(arrived)) == (type(error), str(error), vars(error))


class Unshowable:
    def __repr__(self) -> str:
        raise RuntimeError


def test_every_error_can_be_shown() -> None:
    pool = BlockPool(4, True, 16)
    calls: list[tuple[type[BaseException], Callable[[], object]]] = [
        (OutOfBlocksError, lambda: pool.get_new_blocks(10**5000)),
        (BlockStateError, lambda: pool.evict_blocks([10**5000])),
        (ArgumentError, lambda: pool.touch([Unshowable()])),  # type: ignore[list-item]
    ]
    for leaf, call in calls:
        assert len(str(assert_refused(pool, leaf, call, leaf.__name__))) < 300

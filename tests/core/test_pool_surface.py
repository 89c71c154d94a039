"""No public method of BlockPool is forgotten by the lists that the other tests are made of."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from blockpool import BlockPool

from ..parity_scenario import BAD_POOL_CALLS
from .pool_bad_calls import BAD_CALLS, WITHOUT_ARGUMENTS, stranger
from .support import RecordingCollector, cache_chain, chain, snapshot
from .test_pool_options import SELF_CHECKED

PUBLIC = {name for name, member in vars(BlockPool).items() if not name.startswith("_") and callable(member)}
# Those that change nothing, called as they should be.
LOOKS: dict[str, Callable[[BlockPool], object]] = {
    "get_cached_block": lambda pool: pool.get_cached_block(chain("a")[0], [0]),
    "find_longest_prefix": lambda pool: pool.find_longest_prefix(chain("abx"), [0]),
    "get_num_free_blocks": lambda pool: pool.get_num_free_blocks(),
    "get_usage": lambda pool: pool.get_usage(),
    "occupancy": lambda pool: pool.occupancy(),
    "check_invariants": lambda pool: pool.check_invariants(),
}
# Hands over what others have noted; the pool's blocks stay as they are, so there is nothing to check.
HANDS_OVER = {"take_events", "take_event_log"}


class Recorder:
    """A pool that writes down which of its methods are asked for."""

    def __init__(self, pool: BlockPool) -> None:
        self._pool = pool
        self.asked: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        if name in PUBLIC:
            self.asked.add(name)
        return getattr(self._pool, name)


def busy_pool() -> BlockPool:
    """Blocks of every kind: held with a hash and without, idle with a hash, free."""
    pool = BlockPool(12, True, 4, True, RecordingCollector())
    cache_chain(pool, "ab")
    pool.get_new_blocks(2)
    idle, _ = cache_chain(pool, "z")
    pool.free_blocks(idle)
    return pool


def test_every_method_is_self_checked_or_changes_nothing() -> None:
    assert set(SELF_CHECKED) | set(LOOKS) | HANDS_OVER == PUBLIC
    assert not set(SELF_CHECKED) & (set(LOOKS) | HANDS_OVER)


@pytest.mark.parametrize("name", LOOKS)
def test_a_look_changes_nothing(name: str) -> None:
    pool = busy_pool()
    before = snapshot(pool)
    LOOKS[name](pool)
    assert snapshot(pool) == before


def test_every_method_occurs_among_the_bad_calls() -> None:
    """And every bad call is refused by a pool that has blocks of every kind, so none is there in vain."""
    asked: set[str] = set()
    for name, (needs, error, call) in BAD_CALLS.items():
        recorder = Recorder(busy_pool())
        foreign, foreign_null = stranger()
        machine: Any = SimpleNamespace(pool=recorder, foreign=foreign, foreign_null=foreign_null)
        assert needs(machine), name
        with pytest.raises(error) as caught:
            call(machine)
        assert type(caught.value) is error, name
        asked |= recorder.asked
    assert asked == PUBLIC


def test_every_method_with_arguments_occurs_among_the_bad_calls_of_the_parity_scenario() -> None:
    asked: set[str] = set()
    for call in BAD_POOL_CALLS.values():
        recorder = Recorder(busy_pool())
        try:
            call(recorder)
        except Exception as error:  # which one is compared elsewhere, build against build
            assert isinstance(error, (TypeError, ValueError, RuntimeError))
        asked |= recorder.asked
    assert asked == PUBLIC - set(WITHOUT_ARGUMENTS)

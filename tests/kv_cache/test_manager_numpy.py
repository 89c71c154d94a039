"""A scheduler that counts in NumPy: its integers are integers everywhere; what else NumPy has is refused by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

np = pytest.importorskip("numpy", reason="numpy is not installed: its numbers cannot be tried")

from blockpool import ArgumentError, ConfigError  # noqa: E402
from blockpool.kv_cache import KVCacheManager, TokenRequest  # noqa: E402

from .support import assert_refused, full, make_manager, make_request, snapshot, window  # noqa: E402

KINDS = [np.int64, np.int32, np.uint8, np.uint64]


def play(number: Callable[[int], Any]) -> list[Any]:
    """A life with every count made by `number`: what was seen on the way, in plain integers."""
    manager = make_manager(
        full(number(4)),
        window(4, number(9)),
        num_blocks=number(60),
        max_model_len=number(200),
        hash_block_size=number(4),
        log_stats=True,
        enable_kv_cache_events=True,
    )
    seen: list[Any] = []
    for name in ("first", "second"):
        request = make_request(name, [number(token) for token in range(30)], manager)
        blocks, hits = manager.get_computed_blocks(request)
        seen.append(hits)
        external = 0 if hits else 4
        more = {"num_lookahead_tokens": number(3), "num_external_computed_tokens": number(external)}
        num_new = number(30 - hits - external)
        assert manager.allocate_slots(request, num_new, number(hits), blocks, **more) is not None
        setattr(request, "num_computed_tokens", number(30))  # noqa: B010
        request.append_output_token_ids(number(7))
        for _ in range(2):
            assert manager.allocate_slots(request, number(2), num_lookahead_tokens=number(1)) is not None
        manager.cache_blocks(request, number(28))
        manager.remove_skipped_blocks(name, number(29))
        manager.evict_blocks([number(2)])
        seen.append(manager.get_block_ids(name))
        seen.append(manager.max_blocks_per_request(number(30), number(8), number(3)))
        seen.append([str(event) for event in manager.take_events()])
        manager.free(request)
    seen.append(snapshot(manager))
    manager.block_pool.check_invariants()
    return seen


@pytest.mark.parametrize("number", KINDS)
def test_integers_of_all_kinds_do_the_same(number: Callable[[int], Any]) -> None:
    assert play(number) == play(int)


@pytest.fixture
def manager() -> KVCacheManager:
    return make_manager(full(4), window(4, 9), num_blocks=60, log_stats=True)


@pytest.fixture
def running(manager: KVCacheManager) -> TokenRequest:
    request = make_request("r", range(30), manager)
    assert manager.allocate_slots(request, 8) is not None
    request.num_computed_tokens = 8
    return request


@pytest.mark.parametrize(
    "value", [np.float64(3), np.array([3]), np.array([3, 4]), np.array([]), np.datetime64(3, "s")]
)
@pytest.mark.parametrize(
    "argument",
    [
        "num_new_tokens",
        "num_new_computed_tokens",
        "num_lookahead_tokens",
        "num_external_computed_tokens",
        "num_encoder_tokens",
        "delay_cache_blocks",
        "new_computed_blocks",
    ],
)
def test_what_is_no_integer(
    manager: KVCacheManager, running: TokenRequest, argument: str, value: Any
) -> None:
    arguments = {"num_new_tokens": 5, argument: value}
    fresh = make_request("s", range(30), manager)
    for request in (fresh, running):
        assert_refused(manager, ArgumentError, lambda one=request: manager.allocate_slots(one, **arguments))


@pytest.mark.parametrize("value", [np.float64(3), np.array([3, 4]), np.bool_(True)])
def test_no_integer_elsewhere(manager: KVCacheManager, running: TokenRequest, value: Any) -> None:
    def of_request(name: str) -> None:
        setattr(running, name, value)
        manager.allocate_slots(running, 9)

    calls: list[Callable[[], object]] = [
        lambda: manager.cache_blocks(running, value),
        lambda: manager.remove_skipped_blocks("r", value),
        lambda: manager.evict_blocks([value]),
        lambda: manager.max_blocks_per_request(value, 4),
        lambda: manager.get_block_ids(value),
        lambda: of_request("num_computed_tokens"),
    ]
    for call in calls:
        assert_refused(manager, ArgumentError, call)


def test_numbers_that_do_not_fit_a_machine_word(manager: KVCacheManager, running: TokenRequest) -> None:
    for value in (np.uint64(2**64 - 1), np.int64(-1)):
        assert_refused(manager, ConfigError, lambda number=value: manager.allocate_slots(running, number))

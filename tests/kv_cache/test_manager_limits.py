"""What can never fit, and numbers too large for anything: told at once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from blockpool import ConfigError, OutOfBlocksError

from .support import (
    admit,
    assert_refused,
    chunked,
    cross,
    full,
    make_manager,
    make_request,
    mamba,
    window,
)

LARGE = [2**53, 2**62, 2**63, 2**64, 10**30]


def test_chunks_behind_a_request_need_no_blocks() -> None:
    """Its hit ends where a chunk starts: the three blocks of the tokens that are left do."""
    manager = make_manager(chunked(4, 16), num_blocks=4)
    request = make_request("a", range(25), manager)
    computed, length = manager.get_computed_blocks(request)
    assert length == 16
    assert manager.allocate_slots(request, 9, length, computed) is not None
    manager.free(request)
    longer = make_request("a", range(29), manager)
    refused = assert_refused(
        manager, OutOfBlocksError, lambda: manager.allocate_slots(longer, 9, length, computed)
    )
    assert isinstance(refused, OutOfBlocksError)
    assert (refused.wanted, refused.free) == (4, 3)


def test_chunks_that_a_connector_brings_need_no_blocks() -> None:
    manager = make_manager(chunked(4, 16), num_blocks=4, enable_caching=False)
    request = make_request("a", range(25), None)
    assert manager.allocate_slots(request, 9, num_external_computed_tokens=16) is not None


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        (full(4), 13 + 2),
        (window(4, 6), 15 - 44 // 4),  # of 50 tokens, 44 have left the window of the last one
        (chunked(4, 8), 15 - 48 // 4),
        (mamba(4), 15 - 48 // 4),
    ],
)
def test_slots_for_drafts_that_the_pool_does_not_have(spec: Any, wanted: int) -> None:
    """The last step needs them behind the prompt; with a lookahead less it would fit."""
    arguments: Any = {"num_lookahead_tokens": 9}
    manager = make_manager(spec, num_blocks=wanted)
    request = make_request("a", range(50), manager)
    refused = assert_refused(
        manager, OutOfBlocksError, lambda: manager.allocate_slots(request, 4, **arguments)
    )
    assert isinstance(refused, OutOfBlocksError)
    assert (refused.wanted, refused.free) == (wanted, wanted - 1)
    enough = make_manager(spec, num_blocks=wanted + 1)
    request = make_request("a", range(50), enough)
    for start in range(50):
        request.num_computed_tokens = start
        lookahead = 9 if start == 49 else 0
        assert enough.allocate_slots(request, 1, num_lookahead_tokens=lookahead) is not None


def test_slots_for_drafts_end_with_the_longest_request() -> None:
    manager = make_manager(full(4), num_blocks=11, max_model_len=40)
    request = make_request("a", range(39), manager)
    assert admit(manager, request, num_lookahead_tokens=1000) is not None


def test_groups_that_need_most_at_different_times() -> None:
    """The chunks need two blocks for their second chunk; at the end, when full attention needs most, they need one."""
    arguments: Any = {"enable_caching": False}
    manager = make_manager(full(2), chunked(4, 8), num_blocks=12, **arguments)
    request = make_request("a", range(19), None)
    for start in range(19):
        request.num_computed_tokens = start
        assert manager.allocate_slots(request, 1) is not None
    assert manager.usage == 1
    small = make_manager(full(2), chunked(4, 8), num_blocks=11, **arguments)
    assert_refused(
        small, OutOfBlocksError, lambda: small.allocate_slots(make_request("a", range(19), None), 1)
    )


def test_a_group_that_needs_most_before_the_end() -> None:
    """Two blocks of full attention and four of chunks, before the ninth token lets the chunks go."""
    manager = make_manager(full(4), chunked(2, 8), num_blocks=6, enable_caching=False)
    request = make_request("a", range(9), None)
    refused = assert_refused(manager, OutOfBlocksError, lambda: manager.allocate_slots(request, 1))
    assert isinstance(refused, OutOfBlocksError)
    assert (refused.wanted, refused.free) == (6, 5)


@pytest.mark.parametrize("number", LARGE)
def test_numbers_of_tokens_that_are_none(number: int) -> None:
    manager = make_manager(full(4), window(4, 6), num_blocks=30, log_stats=True)
    running = make_request("a", range(10), manager)
    assert admit(manager, running) is not None
    new = make_request("b", range(10), manager)
    for request in (running, new):
        calls: list[Any] = [
            (number,),
            (1, number),
            (1, 0, None, number),
            (1, 0, None, 0, number),
            (1, 0, None, 0, 0, False, number),
        ]
        for arguments in calls:
            assert_refused(
                manager,
                ConfigError,
                lambda: manager.allocate_slots(request, *arguments),  # noqa: B023
            )
    assert_refused(manager, ConfigError, lambda: manager.cache_blocks(running, number))
    assert_refused(manager, ConfigError, lambda: manager.remove_skipped_blocks("a", number))
    running.num_computed_tokens = number
    assert_refused(manager, ConfigError, lambda: manager.allocate_slots(running, 1))
    with pytest.raises(ConfigError):
        make_manager(full(4), max_model_len=number)


@pytest.mark.parametrize("number", LARGE)
def test_numbers_of_tokens_where_no_group_counts_them(number: int) -> None:
    """Cross attention needs nothing for any number of tokens; a wrong one is told all the same."""
    manager = make_manager(cross(4), enable_caching=False)
    request = make_request("a", range(10), None)
    assert manager.allocate_slots(request, 10, num_encoder_tokens=9) is not None
    request.num_computed_tokens = 10
    for arguments in [(number,), (1, 0, None, number)]:
        assert_refused(
            manager,
            ConfigError,
            lambda: manager.allocate_slots(request, *arguments),  # type: ignore[arg-type]  # noqa: B023
        )
    assert manager.allocate_slots(request, 2**53 - 11) is not None


def test_a_request_that_says_it_has_too_many_tokens() -> None:
    manager = make_manager(full(4), enable_caching=False)
    request = SimpleNamespace(request_id="a", num_tokens=5, num_computed_tokens=0, block_hashes=[])
    request.skip_reading_prefix_cache = False
    assert manager.allocate_slots(request, 5) is not None  # type: ignore[arg-type]
    request.num_computed_tokens, request.num_tokens = 5, 2**53
    assert_refused(manager, ConfigError, lambda: manager.allocate_slots(request, 1))  # type: ignore[arg-type]


def test_the_largest_number_of_tokens() -> None:
    manager = make_manager(full(4), num_blocks=4, max_model_len=2**53 - 1)
    request = make_request("a", range(10), manager)
    assert_refused(manager, OutOfBlocksError, lambda: manager.allocate_slots(request, 10, 0, None, 2**53 - 1))

"""Requests that cannot be what they seem: two with one id, and numbers of computed tokens that cannot be."""

from __future__ import annotations

from typing import Any

import pytest

from blockpool import ConfigError

from .support import admit, assert_refused, decode, full, make_manager, make_request, run_once, tables, window


@pytest.mark.parametrize(("num_tokens", "num_computed"), [(8, 0), (3, 0), (8, 4), (12, 8)])
@pytest.mark.parametrize("enable_caching", [True, False])
def test_two_requests_of_one_id(num_tokens: int, num_computed: int, enable_caching: bool) -> None:
    """Also where the step would need nothing, and where the other has a prompt too short for a hash."""
    manager = make_manager(full(4), num_blocks=30, enable_caching=enable_caching)
    first = make_request("a", range(9), manager)
    assert admit(manager, first) is not None
    assert decode(manager, first) is not None
    assert decode(manager, first) is not None
    assert (
        decode(manager, first) is not None
    )  # this one takes a block: now 11 tokens are known to be computed
    assert decode(manager, first) is not None
    second = make_request("a", range(100, 100 + num_tokens), manager)
    second.num_computed_tokens = num_computed
    for num_new in (1, 2, 8):
        refused = assert_refused(manager, ConfigError, lambda: manager.allocate_slots(second, num_new))  # noqa: B023
        assert "'a'" in str(refused)
        assert "another request" in str(refused)
    assert decode(manager, first) is not None
    manager.free(first)
    second.num_computed_tokens = 0
    assert admit(manager, second) is not None


def test_two_requests_of_one_id_that_computed_as_much() -> None:
    manager = make_manager(full(4), num_blocks=30)
    first = make_request("a", range(9), manager)
    assert admit(manager, first) is not None
    second = make_request("a", range(100, 110), manager)
    second.num_computed_tokens = 9
    assert_refused(manager, ConfigError, lambda: manager.allocate_slots(second, 1))


def test_a_request_that_is_another_object_every_step() -> None:
    """It is the same request as long as its numbers and its first hash say so."""
    manager = make_manager(full(4), window(4, 6), num_blocks=30)
    assert admit(manager, make_request("a", range(3), manager)) is not None
    for length in range(3, 40):
        again = make_request("a", range(length + 1), manager)
        again.num_computed_tokens = length
        assert manager.allocate_slots(again, 1) is not None
    assert len(tables(manager, again)[0]) == 10


def test_a_running_request_that_lost_what_it_computed() -> None:
    """As when a connector could not bring it: the same object goes back and computes again, in its own blocks."""
    manager = make_manager(full(4), num_blocks=30)
    request = make_request("a", range(20), manager)
    assert admit(manager, request) is not None
    before = tables(manager, request)
    request.num_computed_tokens = 6
    assert manager.allocate_slots(request, 14) is not None
    assert tables(manager, request) == before


@pytest.mark.parametrize("num_hits", [0, 12])
def test_a_new_request_that_has_computed_something(num_hits: int) -> None:
    manager = make_manager(full(4), window(4, 6), num_blocks=30)
    run_once(manager, range(12))
    request_a = make_request("a", range(20), manager)
    computed, length = manager.get_computed_blocks(request_a)
    assert length == 12
    request_a.num_computed_tokens = 4
    hits: Any = (12, computed) if num_hits else ()
    refused = assert_refused(manager, ConfigError, lambda: manager.allocate_slots(request_a, 4, *hits))
    assert "num_computed_tokens" in str(refused)
    assert_refused(
        manager, ConfigError, lambda: manager.allocate_slots(request_a, 4, num_external_computed_tokens=4)
    )


def test_a_running_request_that_computed_more_than_it_has_slots_for() -> None:
    manager = make_manager(full(4), window(4, 6), num_blocks=30)
    request = make_request("a", range(7), manager)
    assert admit(manager, request) is not None
    request.append_output_token_ids(range(40))
    request.num_computed_tokens = 40
    refused = assert_refused(manager, ConfigError, lambda: manager.allocate_slots(request, 1))
    assert "slots for 8" in str(refused)
    request.num_computed_tokens = 8
    assert manager.allocate_slots(request, 1) is not None

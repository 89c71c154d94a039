"""Each attention type by hand-computed cases: what is found, what is kept, what is given back."""

from __future__ import annotations

from typing import Any

import pytest

from blockpool.kv_cache import KVCacheManager

from .support import (
    admit,
    assert_all_given_back,
    chunked,
    cross,
    decode,
    full,
    make_manager,
    make_request,
    mamba,
    mla,
    run_once,
    sink,
    tables,
    window,
)


def manager_of(manager: KVCacheManager, group: int = 0) -> Any:
    return manager.coordinator.single_type_managers[group]


# --- full attention


@pytest.mark.parametrize("spec", [full(4), mla(4)])
def test_full_attention_finds_up_to_the_first_miss(spec: Any) -> None:
    manager = make_manager(spec)
    run_once(manager, range(20))  # blocks 1 … 5
    request = make_request("a", [*range(14), 99, 99, 99, 99], manager)
    computed, length = manager.get_computed_blocks(request)
    assert (computed.get_block_ids(), length) == (([1, 2, 3],), 12)
    manager.evict_blocks([2])
    computed, length = manager.get_computed_blocks(request)
    assert (computed.get_block_ids(), length) == (([1],), 4)


def test_the_last_token_is_always_computed() -> None:
    manager = make_manager(full(4))
    run_once(manager, range(8))
    assert manager.get_computed_blocks(make_request("a", range(8), manager))[1] == 4
    assert manager.get_computed_blocks(make_request("b", range(9), manager))[1] == 8
    assert manager.get_computed_blocks(make_request("c", range(1), manager))[1] == 0


def test_full_attention_keeps_everything_and_counts_what_all_share() -> None:
    manager = make_manager(full(4))
    first, second = make_request("a", range(20), manager), make_request("b", [*range(10), *[5] * 9], manager)
    admit(manager, first)
    assert manager.get_num_common_prefix_blocks("a") == [5]
    admit(manager, second)
    assert tables(manager, first) == ([1, 2, 3, 4, 5],)
    assert tables(manager, second) == ([1, 2, 6, 7, 8],)
    assert manager.get_num_common_prefix_blocks("b") == [2]
    assert manager.get_num_common_prefix_blocks("unknown") == [0]
    manager.remove_skipped_blocks("a", 20)
    assert tables(manager, first) == ([1, 2, 3, 4, 5],)
    assert manager_of(manager).get_num_skipped_tokens(20) == 0
    manager.free(second)
    assert manager.get_num_common_prefix_blocks("a") == [5]


# --- sliding window


@pytest.mark.parametrize(("num_computed", "num_skipped"), [(0, 0), (3, 0), (4, 1), (7, 4), (8, 5), (100, 97)])
def test_window_skips_what_the_next_token_does_not_see(num_computed: int, num_skipped: int) -> None:
    manager = make_manager(window(2, 4))
    assert manager_of(manager).get_num_skipped_tokens(num_computed) == num_skipped


def test_window_wants_a_run_of_blocks() -> None:
    """A window of 9 and blocks of 4: a hit needs ceil(8 / 4) = 2 blocks."""
    manager = make_manager(window(4, 9))
    request = make_request("a", range(41), manager)
    admit(manager, request)  # blocks 1 … 10 full, 11 not
    manager.free(request)

    def found(*without: int) -> list[int]:
        again = make_manager(window(4, 9))
        run_once(again, range(41))
        again.evict_blocks(without)
        return again.get_computed_blocks(make_request("b", range(41), again))[0].get_block_ids()[0]

    assert found() == [0] * 8 + [9, 10]
    assert found(10) == [0] * 7 + [8, 9]
    assert found(9) == [0] * 6 + [7, 8]
    assert found(2, 4, 6, 8, 10) == [1], "a run from the first block on is one, however short"
    assert found(1, 3, 5, 7, 9) == []
    assert found(1, 3, 6, 8, 10) == [0, 0, 0, 4, 5]


def test_window_gives_back_while_the_request_runs() -> None:
    manager = make_manager(window(2, 4), num_blocks=20)
    request = make_request("a", range(6), manager)
    admit(manager, request)
    assert tables(manager, request) == ([1, 2, 3],)
    assert decode(manager, request).get_block_ids() == ([4],)
    assert tables(manager, request) == ([0, 2, 3, 4],), "tokens 0 to 2 are out of sight of token 6"
    for _ in range(3):
        decode(manager, request)
    assert tables(manager, request) == ([0, 0, 0, 4, 5],)
    assert manager.block_pool.get_num_free_blocks() == 17
    assert manager.get_num_common_prefix_blocks("a") == [0]


def test_a_window_of_one_token_sees_no_external_token() -> None:
    """The block in which they end is for the tokens after them, and so among the new ones."""
    manager = make_manager(window(3, 1))
    request = make_request("a", range(10), manager)
    new = manager.allocate_slots(request, 1, num_external_computed_tokens=7)
    assert new is not None
    assert new.get_block_ids() == ([1],)
    assert tables(manager, request) == ([0, 0, 1],)


def test_window_holds_no_hit_that_external_tokens_push_out() -> None:
    manager = make_manager(window(4, 5))
    run_once(manager, range(17))
    request = make_request("a", range(40), manager)
    computed, length = manager.get_computed_blocks(request)
    assert (computed.get_block_ids(), length) == (([0, 0, 0, 4],), 16)
    new_blocks = manager.allocate_slots(request, 4, length, computed, num_external_computed_tokens=16)
    # 32 tokens are computed: the next one sees 28 … 32, so one block for external tokens, one for the new.
    assert tables(manager, request) == ([0] * 7 + [6, 7],)
    assert new_blocks is not None
    assert new_blocks.get_block_ids() == ([7],)


# --- chunked local attention


@pytest.mark.parametrize(("num_computed", "num_skipped"), [(0, 0), (7, 0), (8, 8), (13, 8), (16, 16)])
def test_chunks_skip_what_lies_before_the_current_one(num_computed: int, num_skipped: int) -> None:
    assert manager_of(make_manager(chunked(4, 8))).get_num_skipped_tokens(num_computed) == num_skipped


def test_chunks_before_the_current_one_count_as_computed() -> None:
    manager = make_manager(chunked(4, 8))
    fresh = make_request("a", range(16), manager)
    assert manager.get_computed_blocks(fresh)[0].get_block_ids() == ([0, 0],), "15 tokens: a chunk and a part"
    longer = make_request("b", range(17), manager)
    assert manager.get_computed_blocks(longer)[0].get_block_ids() == ([0, 0, 0, 0],)
    run_once(manager, range(16), "all of it, though two blocks count as computed")
    assert manager.get_computed_blocks(fresh)[0].get_block_ids() == ([0, 0, 1],)


def test_chunks_are_given_back_when_the_next_one_starts() -> None:
    manager = make_manager(chunked(2, 4), enable_caching=False)
    request = make_request("a", range(3), None)
    admit(manager, request)
    decode(manager, request)
    assert tables(manager, request) == ([1, 2],)
    decode(manager, request)
    assert tables(manager, request) == ([0, 0, 3],)


# --- recurrent states


def test_states_only_the_last_is_found_and_kept() -> None:
    manager = make_manager(mamba(4))
    request = make_request("a", range(13), manager)
    admit(manager, request)
    assert tables(manager, request) == ([1, 2, 3, 4],)
    decode(manager, request)
    assert tables(manager, request) == ([0, 0, 0, 4],), "13 tokens are computed: the last state is in block 4"
    manager.free(request)
    again = make_request("b", range(13), manager)
    assert manager.get_computed_blocks(again)[0].get_block_ids() == ([0, 0, 3],)
    manager.evict_blocks([3])
    assert manager.get_computed_blocks(again)[0].get_block_ids() == ([0, 2],)


def test_states_with_speculative_blocks() -> None:
    manager = make_manager(mamba(4, "all", 2), enable_caching=False)
    request = make_request("a", range(4), None)
    admit(manager, request)
    assert tables(manager, request) == ([1, 2, 3],)
    assert decode(manager, request).get_block_ids() == ([4],)


def test_aligned_states_take_a_block_per_step() -> None:
    """Steps of 8, 8, 1 and 4 tokens with blocks of 4 and one speculative block."""
    manager = make_manager(mamba(4, "align", 1))
    request = make_request("a", range(17), manager)

    def step(num_tokens: int) -> tuple[list[int], ...]:
        new_blocks = manager.allocate_slots(request, num_tokens)
        assert new_blocks is not None
        request.num_computed_tokens += num_tokens
        return new_blocks.get_block_ids()

    assert step(8) == ([0, 1, 2],), "state at token 8 in block 1, block 2 is speculative"
    assert step(8) == ([2, 3],), "block 2 holds the state now"
    assert tables(manager, request) == ([0, 1, 0, 2, 3],), "block 1 is what the step starts from"
    assert step(1) == ([4],)
    assert tables(manager, request) == ([0, 0, 0, 2, 3, 4],), "block 1 was given back"
    manager.free(request)
    assert_all_given_back(manager)
    again = make_request("b", range(17), manager)
    assert manager.get_computed_blocks(again)[1] == 16


def test_aligned_states_after_refused_drafts() -> None:
    """Refused draft tokens shorten what the next step needs: nothing is to be done then."""
    manager = make_manager(mamba(4, "align"), enable_caching=False)
    request = make_request("a", range(3), None)
    admit(manager, request)
    request.append_output_token_ids(7)
    assert manager.allocate_slots(request, 3) is not None  # a token and two drafts: 6 tokens, two blocks
    assert tables(manager, request) == ([1, 2],)
    request.num_computed_tokens = 4  # both refused
    request.append_output_token_ids(8)
    assert manager.allocate_slots(request, 1) == manager.empty_kv_cache_blocks
    assert tables(manager, request) == ([1, 2],)


def test_aligned_states_a_long_step_takes_one_block() -> None:
    """The speculative blocks move along, so a step takes one block however long it is."""
    manager = make_manager(mamba(4, "align", 2), num_blocks=5, enable_caching=False)
    request = make_request("a", range(40), None)
    assert manager.allocate_slots(request, 4) is not None
    assert tables(manager, request) == ([1, 2, 3],)
    request.num_computed_tokens = 4
    assert manager.allocate_slots(request, 36) is not None, "one block is free"
    assert tables(manager, request) == ([1, 0, 0, 0, 0, 0, 0, 0, 0, 2, 3, 4],)


# --- cross attention


def test_cross_attention_takes_the_encoders_blocks_once() -> None:
    manager = make_manager(full(4), cross(8), enable_caching=False)
    request = make_request("a", range(6), None)
    new_blocks = admit(manager, request, num_encoder_tokens=17)
    assert new_blocks.get_block_ids() == ([1, 2], [3, 4, 5])
    for _ in range(4):
        decode(manager, request)
    assert tables(manager, request) == ([1, 2, 6], [3, 4, 5])
    late = make_request("b", range(6), None)
    admit(manager, late)
    assert decode(manager, late, num_encoder_tokens=9).get_block_ids() == ([], [9, 10])
    manager.free(late)
    assert manager.get_num_common_prefix_blocks("a") == [0, 0]
    assert manager_of(manager, 1).get_num_skipped_tokens(100) == 0
    manager.free(request)
    assert_all_given_back(manager)


# --- attention sinks


def test_sinks_are_held_for_good() -> None:
    manager = make_manager(sink(4, 8), num_blocks=10)
    assert [block.block_id for block in manager_of(manager).sink_blocks] == [1, 2]
    assert [block.ref_cnt for block in manager_of(manager).sink_blocks] == [1, 1]
    assert manager.usage == pytest.approx(2 / 9)
    request = make_request("a", range(9), manager)
    admit(manager, request)
    assert tables(manager, request) == ([3, 4, 5],)
    assert not manager.reset_prefix_cache(), "a request runs"
    manager.free(request)
    order = [block.block_id for block in manager.block_pool.free_block_queue.get_all_free_blocks()]
    assert manager.get_computed_blocks(request)[1] == 8
    assert manager.reset_prefix_cache(), "the sinks are no reason against it"
    assert manager.get_computed_blocks(request)[1] == 0
    assert [block.ref_cnt for block in manager_of(manager).sink_blocks] == [1, 1]
    now = [block.block_id for block in manager.block_pool.free_block_queue.get_all_free_blocks()]
    assert now == order, "nobody's turn has changed"
    assert_all_given_back(manager)

"""What vLLM 0.16.0's manager takes or fails over, and ours refuses by name with nothing changed; and the reverse."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.manager_sides import Group, Side
from blockpool import BlockStateError, ConfigError, OutOfBlocksError
from tests.kv_cache.random_scheduler import PlainRequests
from tests.kv_cache.scenarios import CROSS, full, sliding

from .support import computed, manager, request

pytestmark = pytest.mark.peer


def test_a_request_admitted_twice(ours: Side, theirs: Side) -> None:
    for side, error in ((theirs, AssertionError), (ours, ConfigError)):
        made = manager(side, full())
        running = computed(made, request("r", range(9)))
        running.num_computed_tokens = 0
        blocks, length = made.get_computed_blocks(running)
        with pytest.raises(error):
            made.allocate_slots(running, 1, length, blocks)
        assert made.get_block_ids("r") == ([1, 2, 3],)


def test_nothing_to_compute_is_a_value_error_of_both(ours: Side, theirs: Side) -> None:
    for side in (theirs, ours):
        made = manager(side, full())
        with pytest.raises(ValueError, match="external"):
            made.allocate_slots(request("r", range(8)), 0)
        assert made.get_block_ids("r") == ([],)


def test_blocks_of_another_pool(ours: Side, theirs: Side) -> None:
    for side in (theirs, ours):
        made, other = manager(side, full()), manager(side, full())
        other.free(computed(other, request("r", range(8))))
        second = request("second", range(9))
        blocks, length = other.get_computed_blocks(second)
        if side is theirs:  # the other pool's block 1 stands in the table, and ours is handed out as well
            assert made.allocate_slots(second, 1, length, blocks).get_block_ids() == ([1],)
            assert made.get_block_ids("second") == ([1, 2, 1],)
        else:
            with pytest.raises(BlockStateError):
                made.allocate_slots(second, 1, length, blocks)
            assert made.get_block_ids("second") == ([],)


def test_blocks_of_another_group(ours: Side, theirs: Side) -> None:
    for side in (theirs, ours):
        made = manager(side, full(), full(8), sliding(8))
        made.free(computed(made, request("first", range(16))))
        second = request("second", range(17))
        blocks, length = made.get_computed_blocks(second)
        groups = blocks.blocks
        swapped = made.create_kv_cache_blocks((groups[2], groups[1], groups[0]))
        if side is theirs:  # the table of full attention holds null blocks now
            made.allocate_slots(second, 1, length, swapped)
            assert made.get_block_ids("second")[0][:2] == [0, 0]
        else:
            with pytest.raises(BlockStateError):
                made.allocate_slots(second, 1, length, swapped)
            assert made.get_block_ids("second") == ([], [], [])


def test_hits_that_were_recycled_since_the_look_up(ours: Side, theirs: Side) -> None:
    for side in (theirs, ours):
        made = manager(side, full(), num_blocks=4)
        made.free(computed(made, request("first", range(8))))
        second = request("second", range(9))
        blocks, length = made.get_computed_blocks(second)
        made.free(computed(made, request("other", range(50, 62))))  # takes all three blocks
        if side is theirs:  # what stands in the table now is the KV of the other prompt
            made.allocate_slots(second, 1, length, blocks)
            assert made.get_block_ids("second")[0][:2] == [1, 2]
        else:
            with pytest.raises(BlockStateError):
                made.allocate_slots(second, 1, length, blocks)
            assert made.get_block_ids("second") == ([],)


def test_another_request_under_the_id_of_one_that_runs(ours: Side, theirs: Side) -> None:
    for side in (theirs, ours):
        made = manager(side, full())
        computed(made, request("r", range(8)))
        other = request("r", range(50, 58))
        if side is theirs:  # both write to the same two blocks
            assert made.allocate_slots(other, 8).get_block_ids() == ([],)
        else:
            with pytest.raises(ConfigError, match="another request runs"):
                made.allocate_slots(other, 8)
        assert made.get_block_ids("r") == ([1, 2],)


def test_a_prompt_longer_than_the_pool(ours: Side, theirs: Side) -> None:
    made = manager(theirs, full(), num_blocks=5)
    assert made.allocate_slots(request("r", range(40)), 40) is None  # and for ever
    made = manager(ours, full(), num_blocks=5)
    with pytest.raises(OutOfBlocksError) as caught:
        made.allocate_slots(request("r", range(40)), 40)
    assert (caught.value.wanted, caught.value.free) == (10, 4)


def test_groups_that_can_never_hit_are_told_at_construction(
    ours: Side, theirs: Side, caplog: pytest.LogCaptureFixture
) -> None:
    too_coarse: dict[str, Any] = {"hash_block_size": 4, "max_model_len": 40}
    for side, told in ((theirs, False), (ours, True)):
        caplog.clear()
        manager(side, full(16), sliding(8, 12), **too_coarse)
        assert ("nothing can hit: a prompt must have 49 tokens" in caplog.text) is told
    made = manager(theirs, full(), CROSS)
    with pytest.raises(ValueError, match="prefix caching is disabled"):
        made.allocate_slots(request("r", range(8)), 8, num_encoder_tokens=4)
    with pytest.raises(ConfigError, match="cross-attention"):
        manager(ours, full(), CROSS)


@pytest.mark.parametrize(
    ("groups", "hash_block_size"), [((full(8),), 4), ((full(8), full(8)), 8)], ids=["finer", "equal"]
)
def test_settings_that_only_vllm_refuses(
    ours: Side, theirs: Side, groups: tuple[Group, ...], hash_block_size: int
) -> None:
    with pytest.raises(AssertionError):
        manager(theirs, *groups, hash_block_size=hash_block_size)
    made = manager(ours, *groups, hash_block_size=hash_block_size)
    maker = PlainRequests(hash_block_size)
    first, second = (maker.make(name, list(range(20)), 0, None) for name in ("first", "second"))
    made.free(computed(made, first))
    assert made.get_computed_blocks(second)[1] == 16

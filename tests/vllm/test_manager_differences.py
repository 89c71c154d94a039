"""Where our manager goes another way than vLLM 0.16.0's on purpose: what each of the two does."""

from __future__ import annotations

import pytest

from benchmarks.manager_sides import Group, Side
from tests.kv_cache.scenarios import SINK, chunked, full, mamba, sliding

from .support import REQUESTS, computed, manager, request

pytestmark = pytest.mark.peer


def hit(side: Side, *groups: Group) -> int:
    """Tokens found of a prompt of 48 and three more, after one of those 48 has come and gone, with EAGLE on."""
    made = manager(side, *groups, num_blocks=200, use_eagle=True)
    made.free(computed(made, request("first", range(48))))
    _, length = made.get_computed_blocks(request("second", [*range(48), 1, 2, 3]))
    return int(length)


@pytest.mark.parametrize(
    ("groups", "vllm_length", "our_length"),
    [
        ((full(),), 44, 44),
        ((sliding(8),), 44, 44),
        ((full(), mamba("all")), 44, 44),
        ((full(), sliding(8)), 40, 44),  # each of the two drops one
        ((full(), sliding(8, 8)), 32, 40),  # 44 is no multiple of 8, and then the window drops 8 more
        ((full(), sliding(8), sliding(16)), 0, 44),  # each round drops again, down to nothing
        ((sliding(8), sliding(16)), 0, 44),
        ((mamba("all"),), 48, 44),  # a state has no block that could be dropped, thinks vLLM
    ],
)
def test_eagle_drops_one_block_in_total(
    ours: Side, theirs: Side, groups: tuple[Group, ...], vllm_length: int, our_length: int
) -> None:
    assert hit(theirs, *groups) == vllm_length
    assert hit(ours, *groups) == our_length


@pytest.mark.parametrize(
    ("groups", "our_length"), [((full(), chunked(8)), 44), ((full(8), sliding(8, 4)), 40)]
)
def test_eagle_works_where_vllm_gives_up(
    ours: Side, theirs: Side, groups: tuple[Group, ...], our_length: int
) -> None:
    with pytest.raises(AssertionError):
        hit(theirs, *groups)
    assert hit(ours, *groups) == our_length


def test_a_refusal_leaves_no_trace(ours: Side, theirs: Side) -> None:
    seen = {}
    for side in (theirs, ours):
        made = manager(side, sliding(8), num_blocks=12, enable_caching=False)
        running = computed(made, request("r", range(40)))
        before = made.get_block_ids("r"), made.block_pool.get_num_free_blocks()
        REQUESTS.append(running, range(40))
        assert made.allocate_slots(running, 40) is None
        seen[side.name] = before == (made.get_block_ids("r"), made.block_pool.get_num_free_blocks())
    # vLLM has freed what lies before the window by then; with ours that waits for a call that succeeds.
    assert seen == {"vLLM": False, "ours": True}


def test_statistics_count_admissions(ours: Side, theirs: Side) -> None:
    counts = {}
    for side in (theirs, ours):
        made = manager(side, full(), num_blocks=12, log_stats=True)
        first, second = request("first", range(32)), request("second", range(36))
        made.get_computed_blocks(first)
        computed(made, first)
        third = request("third", range(100, 112))
        third.skip_reading_prefix_cache = True  # not counted
        assert made.allocate_slots(third, 12) is not None
        for _ in range(3):  # a scheduler looks a request up again in every step until it fits
            blocks, length = made.get_computed_blocks(second)
            assert made.allocate_slots(second, 36 - length, length, blocks) is None
        made.free(third)
        blocks, length = made.get_computed_blocks(second)
        assert made.allocate_slots(second, 36 - length, length, blocks) is not None
        stats = made.make_prefix_cache_stats()
        counts[side.name] = (stats.requests, stats.queries, stats.hits)
    assert counts == {"vLLM": (5, 32 + 4 * 36, 4 * 32), "ours": (2, 32 + 36, 32)}


def test_the_blocks_of_a_sink_are_held(ours: Side, theirs: Side) -> None:
    states = {}
    for side in (theirs, ours):
        made = manager(side, SINK)
        counts = [block.ref_cnt for block in made.block_pool.blocks[1:4]]
        states[side.name] = (counts, made.block_pool.get_num_free_blocks(), made.reset_prefix_cache())
    # Out of vLLM's queue with a count of 0; and a reset never succeeds, for they look like somebody's.
    assert states == {"vLLM": ([0, 0, 0], 57, False), "ours": ([1, 1, 0], 57, True)}


def test_events_name_only_what_is_stored(ours: Side, theirs: Side) -> None:
    stored = {}
    for side in (theirs, ours):
        made = manager(side, full(), mamba("align"))
        computed(made, request("r", range(16)))
        _, state = made.take_events()
        stored[side.name] = (len(state.block_hashes), state.token_ids, state.parent_block_hash is None)
    assert stored == {"vLLM": (1, list(range(16)), True), "ours": (1, list(range(12, 16)), False)}


def test_no_event_when_nothing_is_stored(ours: Side, theirs: Side) -> None:
    numbers = {}
    for side in (theirs, ours):
        made = manager(side, mamba("all"))
        running = computed(made, request("r", range(6)))
        made.take_events()
        REQUESTS.append(running, range(2))
        # Its second block is full by now, and is freed because eight tokens are computed.
        made.remove_skipped_blocks("r", 9)
        made.cache_blocks(running, 8)
        numbers[side.name] = [len(event.block_hashes) for event in made.take_events()]
    assert numbers == {"vLLM": [0], "ours": []}


def test_events_name_no_token_without_a_slot(ours: Side, theirs: Side) -> None:
    named = {}
    for side in (theirs, ours):
        made = manager(side, full(), max_model_len=8)
        assert made.allocate_slots(request("r", range(12)), 12).get_block_ids() == ([1, 2],)
        (stored,) = made.take_events()
        named[side.name] = stored.token_ids
    assert named == {"vLLM": list(range(12)), "ours": list(range(8))}


def test_align_mode_beyond_the_longest_request(ours: Side, theirs: Side) -> None:
    taken = {}
    for side in (theirs, ours):
        made = manager(side, mamba("align"), max_model_len=8)
        running = computed(made, request("r", range(8)))
        REQUESTS.append(running, range(4))
        taken[side.name] = made.allocate_slots(running, 4).get_block_ids()
    assert taken == {"vLLM": ([2],), "ours": ([],)}


def test_hits_of_all_groups_are_held_before_blocks_for_external_tokens_are_taken(
    ours: Side, theirs: Side
) -> None:
    tables = {}
    for side in (theirs, ours):
        made = manager(side, full(), sliding(16), num_blocks=13)
        first, other = (
            computed(made, request(*of)) for of in (("first", range(8)), ("other", range(90, 106)))
        )
        made.free(first)
        made.free(other)
        second = request("second", [*range(8), *range(50, 55)])
        blocks, length = made.get_computed_blocks(second)
        assert (length, blocks.get_block_ids()) == (8, ([1, 2], [3, 4]))
        made.allocate_slots(second, 1, length, blocks, num_external_computed_tokens=4)
        tables[side.name] = made.get_block_ids("second")
    # The first group's block for external tokens is the oldest free one: with vLLM a hit of the second group.
    assert tables["vLLM"][0][2] == tables["vLLM"][1][1] == 4
    assert len({*tables["ours"][0], *tables["ours"][1]}) == 8
    assert tables["ours"][1][:2] == [3, 4]


def test_all_groups_of_full_attention_are_cut_to_the_hit(ours: Side, theirs: Side) -> None:
    found = {}
    for side in (theirs, ours):
        made = manager(side, full(4), full(8), sliding(17, 4), num_blocks=100)
        made.free(computed(made, request("first", range(32))))
        # The window of the sliding group is gone, and with it the hit.
        made.evict_blocks({*range(13, 21)})
        blocks, length = made.get_computed_blocks(request("second", [*range(32), 1]))
        found[side.name] = ([len(ids) for ids in blocks.get_block_ids()], length)
    assert found == {"vLLM": ([0, 4, 0], 0), "ours": ([0, 0, 0], 0)}


def test_a_chunk_that_ends_inside_a_block(ours: Side, theirs: Side) -> None:
    found = {}
    for side in (theirs, ours):
        made = manager(side, chunked(6))
        made.free(computed(made, request("first", range(24))))
        made.evict_blocks({2})
        blocks, length = made.get_computed_blocks(request("second", range(12)))
        found[side.name] = (blocks.get_block_ids(), length)
    # Token 4 comes next, and attends to tokens 0 to 3: vLLM has a null block there.
    assert found == {"vLLM": (([0],), 4), "ours": (([1],), 4)}


def test_external_tokens_in_align_mode(ours: Side, theirs: Side) -> None:
    for side in (theirs, ours):
        made = manager(side, mamba("align"), num_blocks=3)
        computed(made, request("first", range(4)))
        second = request("second", range(50, 59))
        arguments = {"num_external_computed_tokens": 8}
        if (
            side is theirs
        ):  # it counts one block, and takes one for the external state before it wants one more
            with pytest.raises(ValueError, match="Cannot get 1 free blocks"):
                made.allocate_slots(second, 1, **arguments)
            assert made.get_block_ids("second") == ([0, 2],)
        else:
            assert made.allocate_slots(second, 1, **arguments) is None
            assert made.get_block_ids("second") == ([],)


def test_a_step_with_fewer_drafts_than_the_last(ours: Side, theirs: Side) -> None:
    for side in (theirs, ours):
        made = manager(side, full(), mamba("align", speculative=3))
        running = computed(made, request("r", range(8)))
        REQUESTS.append(running, [1])
        made.allocate_slots(running, 1 + 7)
        running.num_computed_tokens = 9  # all seven drafts were rejected
        REQUESTS.append(running, [2])
        if side is theirs:
            with pytest.raises(AssertionError):
                made.allocate_slots(running, 1)
        else:
            assert made.allocate_slots(running, 1).get_block_ids() == ([], [])


def test_asking_for_the_common_prefix_of_nobody_changes_nothing(ours: Side, theirs: Side) -> None:
    answers = {}
    for side in (theirs, ours):
        made = manager(side, full())
        computed(made, request("r", range(9)))
        answers[side.name] = [made.get_num_common_prefix_blocks(name)[0] for name in ("r", "nobody", "r")]
    # vLLM counts nobody as a request from then on, who shares nothing.
    assert answers == {"vLLM": [3, 0, 0], "ours": [3, 0, 3]}

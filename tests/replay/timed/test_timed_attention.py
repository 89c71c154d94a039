"""replay --timed with other attention than full: nothing leaks, quiet steps are quiet; a plain replay is witness."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockpool.replay import ReplaySettings, TimedSettings, replay, replay_timed
from blockpool.replay.attention.grammar import parse_attention
from blockpool.replay.attention.kv_groups import blocks_needed
from blockpool.replay.attention.managed_pool import ManagedPool
from blockpool.replay.attention.manager_run import ManagerRun
from blockpool.trace import TraceRequest, generate

from .test_scheduler import ENGINES, Drawn, Engine, Told, drawn_requests, play

ATTENTIONS = (
    "sliding:3",
    "chunked:4",
    "mamba",
    "hybrid:full+sliding:6",
    "hybrid:full+2*sliding:2+chunked:3+mamba",
)


@pytest.mark.parametrize("form", ["tokens", "lengths", "ids"])
@given(
    attention=st.sampled_from(ATTENTIONS),
    drawn=drawn_requests(),
    engine=ENGINES,
    block_size=st.integers(1, 4),
    blocks=st.integers(5, 60),
    first=st.integers(0, 14),
)
def test_all_come_and_go_and_quiet_steps_change_nothing(
    form: str,
    attention: str,
    drawn: list[Drawn],
    engine: Engine,
    block_size: int,
    blocks: int,
    first: int,
) -> None:
    for one in drawn:
        one.output = one.output * 4
    trace = Told(drawn, form, block_size).trace
    engine = replace(engine, blocks=blocks)
    settings = ReplaySettings(rules="engine", attention=attention, sample_rate=1.0)
    first = min(first, len(trace) - 1)
    quick = play(trace, engine, settings, first_measured=first)
    with pytest.MonkeyPatch.context() as patch:
        # Every request is looked at in every step.
        patch.setattr(ManagedPool, "next_event", lambda self, request, token: token + 1)
        checked = replace(settings, check_every=1)
        slow = play(trace, engine, checked, one_by_one=True, first_measured=first)
    schedulers = (quick, slow)
    sequential = ManagerRun(blocks, settings, trace[0], step_tokens=engine.max_batched_tokens)
    results = [scheduler.statistics.result(sequential.counts, 0.0) for scheduler in schedulers]
    assert results[0] == results[1]
    for scheduler in schedulers:
        assert scheduler.pool.get_num_free_blocks() == blocks
        scheduler.pool.check_invariants()
    parts = parse_attention(attention)
    computed = [len(one.prompt) + max(len(one.output), 1) - 1 for one in drawn[first:]]
    needed = [
        blocks_needed(parts, tokens, block_size=block_size, step_tokens=engine.max_batched_tokens)
        for tokens in computed
    ]
    counts = results[0].counts
    assert (counts.requests, counts.refused) == (len(needed), sum(one > blocks for one in needed))
    assert results[0].first_token.samples == len(needed) - counts.refused


@given(
    attention=st.sampled_from(ATTENTIONS),
    drawn=drawn_requests(),
    block_size=st.integers(1, 4),
    blocks=st.integers(5, 60),
    max_batched_tokens=st.integers(4, 30),
)
def test_one_at_a_time_is_a_plain_replay(
    attention: str, drawn: list[Drawn], block_size: int, blocks: int, max_batched_tokens: int
) -> None:
    requests = [
        replace(request, timestamp_ms=1e6 * number)
        for number, request in enumerate(Told(drawn, "tokens", block_size).trace)
    ]
    timed = TimedSettings(max_running=1, max_batched_tokens=max_batched_tokens)
    settings = ReplaySettings(rules="engine", attention=attention, check_every=1)
    result = replay_timed(requests, blocks, timed, settings)
    assert result.counts == result.sequential
    assert result.preemption.preemptions == 0


# attention: hit tokens, evictions, preemptions, refused of the bundled trace in 1,500 blocks; the numbers of this
# implementation, so that a change of them is seen.
DEMO = {
    "sliding:1024": (1_182_608, 71_298, 3, 0),
    "hybrid:full+sliding:1024": (475_536, 233_480, 47, 0),
}


@pytest.mark.parametrize("attention", DEMO)
def test_golden_counts(attention: str) -> None:
    settings = ReplaySettings(rules="engine", attention=attention)
    result = replay_timed("demo", 1_500, settings=settings)
    counts = result.counts
    assert (counts.hit_tokens, counts.evictions, result.preemption.preemptions, counts.refused) == DEMO[
        attention
    ]
    assert result.sequential == replay("demo", 1_500, settings).counts


def test_windows_leave_more_to_others() -> None:
    """Requests that hold windows only are not preempted where those that hold everything are."""
    requests = list(itertools.islice(generate("chat", 300, seed=6), 120))
    full, window = (
        replay_timed(requests, 900, settings=ReplaySettings(rules="engine", attention=attention))
        for attention in ("full", "sliding:256")
    )
    assert full.preemption.preemptions > 0
    assert window.preemption.preemptions == 0
    assert full.occupancy_means is not None
    assert window.occupancy_means is not None
    assert window.occupancy_means.in_use < full.occupancy_means.in_use / 2


def test_a_request_of_which_only_the_length_is_known() -> None:
    """Its output moves the window on, and is in no index."""
    request = TraceRequest(0.0, 40, 4, token_ids=[1] * 40, output_tokens=100)
    again = TraceRequest(1e6, 41, 4, token_ids=[1] * 41)
    settings = ReplaySettings(rules="engine", attention="sliding:9", check_every=1)
    result = replay_timed([request, again], 60, settings=settings)
    assert (result.counts.hit_tokens, result.counts.evictions) == (40, 0)
    assert result.occupancy_means is not None

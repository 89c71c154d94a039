"""Replays through the manager: against the pool's own replay, and against groups in their plainest form."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockpool import ConfigError
from blockpool.replay import PoolRun, ReplaySettings, TimedSettings, curve, replay, replay_timed
from blockpool.replay.attention.grammar import parse_attention
from blockpool.replay.attention.kv_groups import blocks_needed
from blockpool.replay.attention.manager_run import ManagerRun
from blockpool.trace import TraceReader, TraceRequest, generate

from .plain_groups import PlainGroup, PlainGroups, chunked, full, mamba, sliding

Played = tuple[list[int], list[int]]

KINDS = {"full": lambda _: full(), "sliding": sliding, "chunked": chunked, "mamba": lambda _: mamba()}


def requests_by_tokens() -> st.SearchStrategy[list[Played]]:
    """Prompts and outputs over two tokens, so that prefixes are shared."""
    tokens = st.integers(0, 1)
    one = st.tuples(st.lists(tokens, min_size=1, max_size=24), st.lists(tokens, max_size=10))
    return st.lists(one, min_size=1, max_size=12)


def groups() -> st.SearchStrategy[list[tuple[str, int]]]:
    kind = st.sampled_from(["full", "sliding", "chunked", "mamba"])
    return st.lists(st.tuples(kind, st.integers(1, 12)), min_size=1, max_size=3)


def described(drawn: list[tuple[str, int]]) -> tuple[str, list[PlainGroup]]:
    """As `--attention` says it, equal groups side by side as it puts them, and in plain form."""
    named = [kind if kind in ("full", "mamba") else f"{kind}:{tokens}" for kind, tokens in drawn]
    ordered = sorted(range(len(named)), key=lambda place: named.index(named[place]))
    plain = [KINDS[drawn[place][0]](drawn[place][1]) for place in ordered]
    return (named[0] if len(named) == 1 else "hybrid:" + "+".join(named)), plain


def traced(prompt: list[int], output: list[int], block_size: int) -> TraceRequest:
    return TraceRequest(None, len(prompt), block_size, token_ids=prompt, output_token_ids=output)


def run_of(first: TraceRequest, blocks: int, attention: str, **options: Any) -> ManagerRun:
    settings = ReplaySettings(rules="engine", attention=attention, check_every=1)
    return ManagerRun(blocks, settings, first, **options)


# --- full attention


@given(
    played=requests_by_tokens(),
    blocks=st.integers(1, 14),
    block_size=st.integers(1, 4),
    step=st.integers(1, 30),
    reuse=st.booleans(),
)
def test_full_attention_equals_the_replay_without_a_manager(
    played: list[Played], blocks: int, block_size: int, step: int, reuse: bool
) -> None:
    settings = ReplaySettings(rules="engine", reuse_uncached_first=reuse, sample_rate=1.0)
    requests = [traced(prompt, output, block_size) for prompt, output in played]
    runs = [PoolRun(blocks, settings), ManagerRun(blocks, settings, requests[0], step_tokens=step)]
    for request in requests:
        hits = [run.play(request) for run in runs]
        assert hits[0] == hits[1]
    results = [run.result(0.0) for run in runs]
    assert results[0] == results[1]


def demo_requests(tokens: bool) -> list[TraceRequest]:
    if not tokens:
        return list(TraceReader("demo"))
    return list(generate("chat", 150, seed=3))


@pytest.mark.parametrize("tokens", [False, True])
@pytest.mark.parametrize("blocks", [700, 2_000])
def test_full_attention_on_whole_traces(tokens: bool, blocks: int) -> None:
    """The bundled trace has block ids; generated requests have outputs."""
    requests = demo_requests(tokens)
    settings = ReplaySettings(rules="engine")
    runs = [
        PoolRun(blocks, settings, pictures=True),
        ManagerRun(blocks, settings, requests[0], pictures=True),
    ]
    for request in requests:
        for run in runs:
            run.play(request)
    results = [run.result(0.0) for run in runs]
    assert results[0] == results[1]
    assert results[0].counts.evictions > 1_000


# --- any attention


@given(
    drawn=groups(),
    played=requests_by_tokens(),
    blocks=st.integers(1, 30),
    block_size=st.integers(1, 4),
    step=st.integers(1, 30),
)
def test_equals_the_plain_groups(
    drawn: list[tuple[str, int]], played: list[Played], blocks: int, block_size: int, step: int
) -> None:
    attention, plain_groups = described(drawn)
    requests = [traced(prompt, output, block_size) for prompt, output in played]
    run = run_of(requests[0], blocks, attention, step_tokens=step, pictures=True)
    plain = PlainGroups(blocks, block_size, max(step, block_size), plain_groups)
    for (prompt, output), request in zip(played, requests, strict=True):
        assert run.play(request) == plain.play(prompt, output)
        assert run.counts.evictions == plain.evictions
        # Whoever came has gone, and has left nothing behind.
        assert run.pool.get_num_free_blocks() == blocks
        assert run.managed.manager.coordinator.outlooks == {}


@given(
    drawn=groups(),
    played=requests_by_tokens(),
    block_size=st.integers(1, 4),
    lengthened=st.integers(1, 4),
)
def test_what_happens_between_two_events_is_nothing(
    drawn: list[tuple[str, int]], played: list[Played], block_size: int, lengthened: int
) -> None:
    """Token by token, the pool comes to the same state, down to the order in which it will recycle."""
    attention, _ = described(drawn)
    requests = [traced(prompt, output * lengthened, block_size) for prompt, output in played]
    runs = [run_of(requests[0], 80, attention, step_tokens=9) for _ in range(2)]
    slow = runs[1].managed
    slow.next_event = lambda request, token: token + 1  # type: ignore[method-assign]
    for request in requests:
        states = []
        for run in runs:
            run.play(request)
            states.append(
                [(b.block_id, b.block_hash) for b in run.pool.free_block_queue.get_all_free_blocks()]
            )
        assert states[0] == states[1]


@given(
    attention=st.sampled_from(
        ["mamba:align", "hybrid:full+2*mamba:align", "hybrid:sliding:5+mamba:align+chunked:6"]
    ),
    played=requests_by_tokens(),
    block_size=st.integers(1, 4),
    step=st.integers(1, 30),
)
def test_states_at_the_ends_of_steps_fit_where_they_should(
    attention: str, played: list[Played], block_size: int, step: int
) -> None:
    """In a pool of just what the largest request needs, all are played, though it is full of what went before."""
    requests = [traced(prompt, output, block_size) for prompt, output in played]
    lengths = [len(prompt) + max(len(output) - 1, 0) for prompt, output in played]
    blocks = blocks_needed(
        parse_attention(attention), max(lengths), block_size=block_size, step_tokens=max(step, block_size)
    )
    run = run_of(requests[0], blocks, attention, step_tokens=step)
    for request in requests:
        assert run.play(request) is not None
        assert run.pool.get_num_free_blocks() == blocks
    assert run.counts.refused == 0


def test_a_state_is_found_where_a_step_ended() -> None:
    prompt = list(range(37))
    run = run_of(traced(prompt, [], 4), 20, "mamba:align", step_tokens=10)
    longer = traced([*prompt, *range(50, 60)], [], 4)
    assert run.play(traced(prompt, [], 4)) == 0
    assert run.play(longer) == 9  # 8, 16, 24, 32, and 36, where the last full block ends
    other = traced([*prompt[:34], *range(60, 70)], [], 4)
    assert run.play(other) == 8
    third = traced([*prompt[:31], *range(60, 70)], [], 4)
    assert run.play(third) == 6


@pytest.mark.parametrize("attention", ["sliding:40", "mamba", "hybrid:full+2*sliding:40+mamba"])
def test_a_pool_for_all_finds_what_full_attention_finds(attention: str) -> None:
    """Nothing was evicted, so wherever a prompt was computed before, its windows and states are there."""
    requests = list(generate("agent", 60, seed=2))
    found = [
        replay(requests, 60_000, ReplaySettings(rules="engine", attention=kind)).counts
        for kind in ("full", attention)
    ]
    assert found[1].hit_tokens == found[0].hit_tokens > 0
    assert found[1].evictions == 0


def test_a_window_gives_its_blocks_back_while_the_request_runs() -> None:
    request = traced(list(range(1_000)), list(range(500)), 4)
    run = run_of(request, 30, "sliding:33", step_tokens=64)
    assert run.play(request) == 0
    # All of its 374 full blocks went through 30; nothing else did.
    assert run.counts.evictions == 374 - 30 + 1
    assert run.result(0.0).occupancy_means is not None
    held = run.result(0.0).occupancy_points[0].in_use
    assert held == 9  # tokens 1,467 … 1,499, the window of the last one, from block 366 on


def test_prompts_without_an_end_do_not_fit() -> None:
    request = traced([1] * 1_000, [], 4)
    run = run_of(request, 24, "sliding:33", step_tokens=64)
    assert run.play(request) is None
    assert (run.counts.requests, run.counts.refused, run.counts.largest_refused_blocks) == (1, 1, 25)
    assert run.play(traced([1] * 40, [], 4)) == 0


# --- the bundled trace

# attention: (hit blocks, hit tokens, evictions, refused) in 1,500 blocks; the numbers of this implementation, so that
# a change of them is seen.
DEMO = {
    "full": (90_191, 1_443_056, 54_588, 0),
    "sliding:1024": (96_004, 1_536_064, 48_779, 0),
    "chunked:2048": (118_509, 1_896_144, 26_291, 0),
    "mamba": (103_538, 1_656_608, 41_259, 0),
    "mamba:align": (110_248, 1_763_968, 214, 0),
    "hybrid:full+sliding:1024": (55_293, 884_688, 180_451, 0),
    "hybrid:full+3*mamba:align": (61_941, 991_056, 85_873, 0),
}


@pytest.mark.parametrize("attention", DEMO)
def test_golden_counts(attention: str) -> None:
    settings = ReplaySettings(rules="engine", attention=attention, check_every=250)
    counts = replay("demo", 1_500, settings).counts
    assert (counts.hit_blocks, counts.hit_tokens, counts.evictions, counts.refused) == DEMO[attention]
    assert counts.requests == 1_000


# --- what cannot be


@pytest.mark.parametrize(
    "wrong",
    [
        {"attention": "sliding:16"},
        {"attention": "sliding:16", "rules": "trace"},
        {"attention": "sliding:16", "rules": "engine", "explain": True},
        {"attention": "sliding", "rules": "engine"},
    ],
)
def test_settings_that_do_not_go_together(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        ReplaySettings(**wrong)
    assert caught.value.field == "attention"


def by_ids(sizes: list[int], block_size: int | None) -> TraceRequest:
    ids = list(range(len(sizes)))
    return TraceRequest(None, sum(sizes), block_size, block_ids=ids, block_tokens=sizes)


@pytest.mark.parametrize(
    "requests",
    [
        [by_ids([4, 3, 4], 4)],
        [by_ids([4, 3, 4], None)],
        [by_ids([4, 5], None)],
        [by_ids([4, 4, 2], 4), by_ids([4, 4, 3], 8)],
        [traced([1] * 8, [], 4), traced([1] * 8, [], 8)],
    ],
)
def test_blocks_of_unequal_size(requests: list[TraceRequest]) -> None:
    settings = ReplaySettings(rules="engine", attention="sliding:16")
    with pytest.raises(ConfigError, match=r"attention.*blocks of one size"):
        replay(requests, 100, settings)
    timed = [TraceRequest(0.0, *_fields(request)) for request in requests]
    with pytest.raises(ConfigError, match=r"attention.*blocks of one size"):
        replay_timed(timed, 100, settings=settings)


def _fields(request: TraceRequest) -> tuple[Any, ...]:
    return (
        request.prompt_tokens,
        request.block_size,
        request.block_ids,
        request.block_tokens,
        request.token_ids,
    )


def test_blocks_that_are_said_to_be_equal() -> None:
    settings = ReplaySettings(rules="engine", attention="sliding:16")
    requests = [by_ids([4, 4, 2], 4), by_ids([4, 4, 4, 1], None)]
    assert replay(requests, 100, settings).counts.hit_tokens == 8


def test_no_curve_of_other_attention() -> None:
    with pytest.raises(ConfigError, match=r"attention.*replay the sizes"):
        curve("demo", ReplaySettings(rules="engine", attention="sliding:16"))


def test_steps_that_end_with_blocks_are_not_timed() -> None:
    settings = ReplaySettings(rules="engine", attention="hybrid:full+mamba:align")
    with pytest.raises(ConfigError, match=r"attention.*steps"):
        replay_timed("demo", 2_000, TimedSettings(), settings)

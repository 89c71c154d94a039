"""The scheduler against an engine in its plainest form, and its fast steps against its slow ones."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockpool.replay import ReplaySettings, WindowCounts, replay
from blockpool.replay.quantiles import QuantileSketch
from blockpool.replay.residency import quantiles_of
from blockpool.replay.timed.arrivals import Arrivals
from blockpool.replay.timed.scheduler import Scheduler
from blockpool.replay.timed.timed_settings import TimedSettings
from blockpool.trace import TraceRequest

from .plain_engine import PlainEngine, PlainRequest

PREFILL_NS = 3
DECODE_NS = 10
RATES: dict[str, Any] = {"prefill_rate": 1e9 / PREFILL_NS, "decode_rate": 1e9 / DECODE_NS}


@dataclass
class Drawn:
    """A request as it was drawn; how the trace tells it is another matter."""

    arrival_ns: int
    prompt: list[int]
    output: list[int]
    cuts: list[int]


def drawn_requests() -> st.SearchStrategy[list[Drawn]]:
    """Prompts over two tokens, so that prefixes are shared; arrivals that come in crowds and after pauses."""
    tokens = st.integers(0, 1)
    request = st.builds(
        Drawn,
        st.sampled_from([0, 0, 0, 7, 30, 200]),
        st.lists(tokens, min_size=1, max_size=12),
        st.lists(tokens, max_size=9),
        st.lists(st.integers(1, 4), min_size=12, max_size=12),
    )
    return st.lists(request, min_size=1, max_size=14)


FORMS = ("tokens", "lengths", "ids", "unequal ids")


class Told:
    """The drawn requests in one of the forms that a trace can have, and as the plain engine takes them."""

    def __init__(self, drawn: list[Drawn], form: str, block_size: int) -> None:
        self.trace: list[TraceRequest] = []
        self.plain: list[PlainRequest] = []
        ids: dict[tuple[object, ...], int] = {}
        now = 0
        for number, one in enumerate(drawn):
            now += one.arrival_ns
            prompt, output = one.prompt, one.output
            sizes = [block_size] * 30
            if form == "unequal ids":
                sizes = self._cut(one)
            ends = list(accumulate(sizes))
            request = TraceRequest(now / 1e6, len(prompt), block_size, output_tokens=len(output))
            known = prompt
            if form == "tokens":
                request.token_ids, request.output_token_ids = prompt, output
                known = (prompt + output)[: len(prompt) + max(len(output), 1) - 1]
            elif form == "lengths":
                request.token_ids = prompt
            else:
                starts = [start for start in [0, *ends] if start < len(prompt)]
                parts = [prompt[: start + size] for start, size in zip(starts, sizes, strict=False)]
                cuts = [tuple(ends[: index + 1]) for index in range(len(parts))]
                request.block_ids = [
                    ids.setdefault((tuple(part), cut), len(ids))
                    for part, cut in zip(parts, cuts, strict=True)
                ]
            if form == "unequal ids":
                lengths = [0, *map(len, parts)]
                request.block_tokens = [stop - start for start, stop in pairwise(lengths)]
                request.block_size = 4
            self.trace.append(request)
            self.plain.append(PlainRequest(number, now, len(prompt), len(output), list(known), ends))

    @staticmethod
    def _cut(one: Drawn) -> list[int]:
        """Blocks of 1 … 4 tokens; the last one of the prompt, and those of the output, have room for 4."""
        sizes: list[int] = []
        for size in one.cuts:
            if sum(sizes) + size >= len(one.prompt):
                break
            sizes.append(size)
        return sizes + [4] * 30


@dataclass(frozen=True)
class Engine:
    blocks: int
    max_running: int
    max_batched_tokens: int

    def settings(self) -> TimedSettings:
        return TimedSettings(
            max_running=self.max_running, max_batched_tokens=self.max_batched_tokens, **RATES
        )


ENGINES = st.tuples(st.integers(1, 14), st.integers(1, 5), st.integers(0, 20)).map(
    lambda drawn: Engine(drawn[0], drawn[1], drawn[1] + drawn[2])
)


def play(
    requests: Iterable[TraceRequest], engine: Engine, settings: ReplaySettings, **options: Any
) -> Scheduler:
    arrivals = Arrivals(iter(list(requests)), engine.settings())
    scheduler = Scheduler(arrivals, engine.blocks, engine.settings(), settings, **options)
    while scheduler.step():
        assert len(scheduler._running) <= engine.max_running
    return scheduler


def quantiles(times_ns: list[int]) -> object:
    sketch = QuantileSketch()
    for time in times_ns:
        sketch.add(time / 1e9)
    return quantiles_of(sketch)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("rules", ["engine", "trace"])
@given(drawn=drawn_requests(), engine=ENGINES, block_size=st.integers(1, 4))
def test_equals_the_plain_engine(
    rules: str, form: str, drawn: list[Drawn], engine: Engine, block_size: int
) -> None:
    told = Told(drawn, form, block_size)
    settings = ReplaySettings(rules=rules, check_every=1)
    scheduler = play(told.trace, engine, settings)
    plain = PlainEngine(
        engine.blocks,
        rules == "engine",
        engine.max_running,
        engine.max_batched_tokens,
        lambda tokens: tokens * PREFILL_NS,
        DECODE_NS,
    )
    plain.play(told.plain)
    result = scheduler.statistics.result(WindowCounts(), 0.0)
    counts, preemption = result.counts, result.preemption
    assert (counts.requests, counts.refused) == (len(drawn), len(plain.refused))
    assert (counts.hit_blocks, counts.prompt_tokens) == (plain.hits, plain.prompt_tokens)
    assert counts.hit_tokens == plain.hit_tokens
    assert counts.evictions == plain.evictions
    assert (preemption.preemptions, preemption.resumed) == (plain.preemptions, plain.resumed)
    assert preemption.resumed_tokens == plain.resumed_tokens
    assert preemption.resumed_hit_tokens == plain.resumed_hit_tokens
    assert preemption.recomputed_tokens == plain.recomputed
    assert result.steps == plain.steps
    assert result.queueing == quantiles(plain.queueing)
    assert result.first_token == quantiles(plain.first_token)
    total = sum(state[0] for state in plain.states)
    assert result.makespan == total / 1e9
    assert result.running_max == max([state[1] for state in plain.states], default=0)
    if total:
        _, running, *occupancy = (
            sum(state[0] * state[place] for state in plain.states) / total for place in range(5)
        )
        assert result.running_mean == running
        assert result.occupancy_means == tuple(occupancy)
    else:
        assert result.occupancy_means is None
    # Whoever came has gone, and has left nothing behind.
    assert scheduler.pool.get_num_free_blocks() == engine.blocks
    scheduler.pool.check_invariants()


@pytest.mark.parametrize("rules", ["engine", "trace"])
@given(drawn=drawn_requests(), engine=ENGINES, block_size=st.integers(1, 4), first=st.integers(0, 14))
def test_quiet_steps_at_once_are_quiet_steps_one_by_one(
    rules: str, drawn: list[Drawn], engine: Engine, block_size: int, first: int
) -> None:
    for one in drawn:
        one.output = one.output * 5
    trace = Told(drawn, "tokens", block_size * 3).trace
    first = min(first, len(trace) - 1)
    results = [
        play(
            trace,
            engine,
            ReplaySettings(rules=rules, sample_rate=1.0),
            one_by_one=one_by_one,
            first_measured=first,
        ).statistics.result(WindowCounts(), 0.0)
        for one_by_one in (False, True)
    ]
    assert results[0] == results[1]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("rules", ["engine", "trace"])
@given(
    drawn=drawn_requests(),
    blocks=st.integers(1, 9),
    max_running=st.integers(1, 3),
    spare=st.integers(0, 3),
    first=st.integers(0, 14),
)
def test_equal_chunks_at_once_are_chunks_one_by_one(
    rules: str, form: str, drawn: list[Drawn], blocks: int, max_running: int, spare: int, first: int
) -> None:
    """Long prompts in large blocks, and budgets of a few tokens."""
    for one in drawn:
        one.prompt, one.output = one.prompt * 4, one.output * 3
    trace = Told(drawn, form, 11).trace
    engine = Engine(blocks, max_running, max_running + spare)
    settings = ReplaySettings(rules=rules, sample_rate=1.0, explain=True)
    played = [
        play(
            trace,
            engine,
            settings,
            one_by_one=one_by_one,
            first_measured=min(first, len(trace) - 1),
            pictures=True,
        )
        for one_by_one in (False, True)
    ]
    results = [scheduler.statistics.result(WindowCounts(), 0.0) for scheduler in played]
    assert results[0] == results[1]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("rules", ["engine", "trace"])
@given(
    drawn=drawn_requests(),
    blocks=st.integers(1, 14),
    block_size=st.integers(1, 4),
    max_batched_tokens=st.integers(1, 30),
    reuse=st.booleans(),
    window=st.sampled_from(["all", "last-half"]),
)
def test_one_at_a_time_counts_what_replay_counts(
    rules: str,
    form: str,
    drawn: list[Drawn],
    blocks: int,
    block_size: int,
    max_batched_tokens: int,
    reuse: bool,
    window: str,
) -> None:
    if form != "tokens":
        for one in drawn:
            one.output = []  # replay does not model output without tokens
    trace = Told(drawn, form, block_size).trace
    settings = ReplaySettings(rules=rules, reuse_uncached_first=reuse, window=window)
    expected = replay(trace, blocks, settings).counts
    for number, request in enumerate(trace):
        request.timestamp_ms = float(number)
    engine = Engine(blocks, 1, max_batched_tokens)
    first = len(trace) // 2 if window == "last-half" else 0
    scheduler = play(trace, engine, settings, first_measured=first)
    assert scheduler.statistics.counts == expected
    assert scheduler.statistics.preemption.preemptions == 0


class TestByHand:
    """Blocks of 4 tokens; 3 ns per prompt token, 10 ns per step that decodes."""

    @staticmethod
    def request(prompt: list[int], outputs: int, arrival_ns: int = 0) -> TraceRequest:
        output = [1000 + prompt[0] * 100 + place for place in range(outputs)]
        return TraceRequest(arrival_ns / 1e6, len(prompt), 4, token_ids=prompt, output_token_ids=output)

    def test_one_request(self) -> None:
        scheduler = play([self.request([1] * 6, 5)], Engine(5, 4, 100), ReplaySettings(rules="engine"))
        result = scheduler.statistics.result(WindowCounts(), 0.0)
        # 6 tokens of prompt, then 4 steps of one token each: the first token came with the prompt.
        assert result.makespan == pytest.approx((6 * 3 + 4 * 10) / 1e9)
        assert result.first_token.median == pytest.approx(18e-9, rel=0.01)
        assert (result.steps, result.running_max, result.queueing.p99) == (5, 1, 0.0)
        # 10 tokens computed: 2 full blocks stay in the cache.
        assert scheduler.pool.occupancy() == (0, 2, 3)

    def test_the_youngest_is_preempted_and_counted_apart(self) -> None:
        """Two requests of 3 blocks at their end, in a pool of 5: one must go when both need their third."""
        requests = [self.request([1] * 8, 5), self.request([2] * 8, 5)]
        scheduler = play(requests, Engine(5, 4, 100), ReplaySettings(rules="engine", check_every=1))
        result = scheduler.statistics.result(WindowCounts(), 0.0)
        preemption = result.preemption
        assert (preemption.preemptions, preemption.resumed) == (1, 1)
        # It had 8 tokens computed and 1 generated, and finds both blocks again: nothing is recomputed.
        assert (preemption.resumed_tokens, preemption.resumed_hit_tokens) == (9, 8)
        assert preemption.recomputed_tokens == 0
        # Each request asked once, for its prompt; what was found on resuming is in no hit.
        assert (result.counts.prompt_tokens, result.counts.hit_tokens) == (16, 0)
        assert result.queueing.samples == result.first_token.samples == 2

    def test_waiting_preemption_and_resuming_count_a_request_once(self) -> None:
        """64 tokens of prompt, 32 of them cached; finds no room for a while, is admitted, preempted, resumed."""
        shared = [7] * 32

        def request(prompt: list[int], outputs: int, arrival_ns: int) -> TraceRequest:
            return TraceRequest(arrival_ns / 1e6, len(prompt), 16, token_ids=prompt, output_tokens=outputs)

        requests = [
            request(shared, 1, 0),  # leaves 2 cached blocks
            request([1] * 8, 12, 1_000),  # the oldest of the others: holds 1 block, later 2
            request([2] * 17, 5, 1_000),  # holds 2 blocks for a while
            request(shared + [3] * 32, 16, 1_000),
        ]
        scheduler = play(requests, Engine(5, 4, 1_000), ReplaySettings(rules="engine", check_every=1))
        result = scheduler.statistics.result(WindowCounts(), 0.0)
        # It waited for the prompts of the two before it, and for 4 steps of decoding.
        waited_ns = 3 * (8 + 17) + 4 * 10
        assert result.queueing.p99 == pytest.approx(waited_ns / 1e9, rel=0.01)
        assert (result.counts.prompt_tokens, result.counts.hit_tokens) == (32 + 8 + 17 + 64, 32)
        preemption = result.preemption
        assert (preemption.preemptions, preemption.resumed) == (1, 1)
        # The older one took its last block; the three before it are found again.
        assert preemption.resumed_hit_tokens == 48
        assert preemption.recomputed_tokens == preemption.resumed_tokens - 1 - 48

    def test_what_the_cache_has_lost_is_recomputed(self) -> None:
        requests = [self.request([1] * 8, 9), self.request([2] * 8, 5)]
        scheduler = play(requests, Engine(5, 4, 100), ReplaySettings(rules="engine", check_every=1))
        preemption = scheduler.statistics.preemption
        # The older one takes the block that held tokens 5 to 8 of the younger, which finds the first one only.
        assert (preemption.resumed_tokens, preemption.resumed_hit_tokens) == (9, 4)
        assert preemption.recomputed_tokens == 4

    def test_nobody_overtakes(self) -> None:
        """The second does not fit beside the first; the third would, and waits all the same."""
        requests = [self.request([1] * 12, 5), self.request([2] * 12, 1), self.request([3] * 4, 1)]
        scheduler = play(requests, Engine(5, 4, 100), ReplaySettings(rules="engine"))
        result = scheduler.statistics.result(WindowCounts(), 0.0)
        first_ends_ns = 12 * 3 + 4 * 10
        assert result.running_max == 2  # the second and the third together
        assert result.queueing.p99 == pytest.approx(first_ends_ns / 1e9, rel=0.01)
        assert result.queueing.median == pytest.approx(first_ends_ns / 1e9, rel=0.01)

    def test_a_request_that_can_never_fit(self) -> None:
        requests = [self.request([1] * 8, 6), self.request([2] * 8, 5)]
        counts = play(requests, Engine(3, 4, 100), ReplaySettings(rules="engine")).statistics.counts
        # 13 tokens need 4 blocks, 12 need 3.
        assert (counts.requests, counts.refused, counts.largest_refused_blocks) == (2, 1, 4)

    def test_a_long_prompt_is_computed_in_chunks_beside_others(self) -> None:
        requests = [self.request([1] * 4, 4), self.request([2] * 10, 1, arrival_ns=1)]
        scheduler = play(requests, Engine(9, 4, 5), ReplaySettings(rules="engine"))
        result = scheduler.statistics.result(WindowCounts(), 0.0)
        # 4; then one token beside 4 of the prompt, twice; then one beside 2.
        assert result.steps == 4
        assert result.makespan == pytest.approx((12 + 22 + 22 + 16) / 1e9)

    def test_blocks_are_indexed_as_they_are_scheduled(self) -> None:
        """Of two equal prompts that are admitted in one step the second finds what the first has just been given."""
        requests = [self.request([1] * 9, 1), self.request([1] * 9, 1)]
        result = play(requests, Engine(9, 4, 100), ReplaySettings(rules="engine")).statistics
        assert result.counts.hit_blocks == 2

    def test_output_without_tokens_is_held_without_hash(self) -> None:
        request = TraceRequest(0, 8, 4, token_ids=[1] * 8, output_tokens=9)
        scheduler = play([request], Engine(5, 4, 100), ReplaySettings(rules="engine"))
        assert scheduler.pool.occupancy() == (0, 2, 3)
        assert scheduler.statistics.result(WindowCounts(), 0.0).played_blocks == 4

    def test_trace_rules_take_no_blocks_for_output(self) -> None:
        scheduler = play([self.request([1] * 6, 9)], Engine(2, 4, 100), ReplaySettings(rules="trace"))
        assert scheduler.statistics.counts.refused == 0
        assert scheduler.pool.occupancy() == (0, 2, 0)

    def test_the_trace_is_read_no_further_than_needed(self) -> None:
        read: deque[int] = deque()

        def requests() -> Iterator[TraceRequest]:
            for number in range(50):
                read.append(number)
                yield self.request([number] * 4, 1)

        engine = Engine(1, 1, 100)
        scheduler = Scheduler(
            Arrivals(requests(), engine.settings()), 1, engine.settings(), ReplaySettings(rules="engine")
        )
        for steps in range(1, 10):
            assert scheduler.step()
            assert len(read) <= 2 * steps + 2

"""KVCacheManager against an obvious model, step by step, for every mix of groups.

Hypothesis hunts for short failing sequences; a seeded walk over the same rules makes sure, by counting, that hits,
evictions, refusals and all that is rare do occur.
"""

from __future__ import annotations

import logging
import random
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from blockpool import ConfigError, OutOfBlocksError
from blockpool.kv_cache import CrossAttentionSpec, KVCacheBlocks, KVCacheSpec, MambaSpec, TokenRequest
from tests.core.support import IndexConsumer, indexed_copies

from .manager_model import ManagerModel
from .support import (
    assert_all_given_back,
    chunked,
    cross,
    full,
    make_manager,
    make_request,
    mamba,
    mla,
    sink,
    snapshot,
    window,
)

MIXES: dict[str, list[KVCacheSpec]] = {
    "full": [full(2)],
    "mla": [mla(2)],
    "window": [window(2, 5)],
    "chunks": [chunked(2, 4)],
    "states": [mamba(2)],
    "states, speculative": [mamba(2, "all", 1)],
    "aligned states": [mamba(2, "align")],
    "aligned states, speculative": [mamba(2, "align", 2)],
    "sink": [sink(2, 4)],
    "full and window": [full(2), window(2, 4)],
    "full and coarse window": [full(2), window(4, 7)],
    "coarse full and window": [full(4), window(2, 4)],
    "full and chunks": [full(2), chunked(2, 6)],
    "full and states": [full(2), mamba(4)],
    "full and aligned states": [full(2), mamba(4, "align", 1)],
    "odd sizes": [window(6, 7), full(4)],
    "sink, window and states": [sink(2, 2), window(2, 3), mamba(2, "align")],
    "everything": [full(2), window(2, 5), chunked(4, 8), mamba(4), full(2)],
    "cross": [full(2), cross(3)],
    "cross and window": [window(2, 5), cross(2), full(4)],
}
PROMPTS = ["a", "ab", "abc", "abcd", "abcdef", "abcdefgh", "abcX", "abcdeXY", "Xbcd", "bcd", "abcdefghijkl"]
numbers = st.integers(0, 99)
few = st.integers(0, 3)
names = st.sampled_from(sorted(MIXES))
ROOMS = [4, 7, 14, 60]


@pytest.fixture(autouse=True, scope="module")
def quiet() -> Iterator[None]:
    """Refused resets and coarse block sizes would fill the report; that they warn is tested elsewhere."""
    logger = logging.getLogger("blockpool")
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(logging.NOTSET)


class ManagerMachine(RuleBasedStateMachine):
    """Every rule does one thing to the manager and the same to the model; a number picks among what is there."""

    @initialize(mix=names, room=st.sampled_from(ROOMS), caching=st.booleans(), eagle=st.booleans())
    def start(self, mix: str, room: int, caching: bool, eagle: bool) -> None:
        specs = MIXES[mix]
        self.has_encoder = any(isinstance(spec, CrossAttentionSpec) for spec in specs)
        caching = caching and not self.has_encoder
        self.manager = make_manager(
            *specs,
            num_blocks=room,
            hash_block_size=2,
            enable_caching=caching,
            use_eagle=eagle,
            log_stats=True,
            enable_kv_cache_events=True,
        )
        self.model = ManagerModel(specs, room, caching, 2, eagle)
        self.waiting: list[TokenRequest] = []
        self.running: list[TokenRequest] = []
        self.on_the_way: list[TokenRequest] = []
        self.consumer = IndexConsumer()
        self.num_made = 0
        self.steps: dict[str, int] = {}
        self.encoders: dict[str, int] = {}
        self.most_drafts: Counter[str] = Counter()
        self.seen: Counter[str] = Counter()

    # -------------------------------------------------------------------------------- requests come and go

    @rule(
        prompt=st.sampled_from(PROMPTS), extra=st.integers(0, 1), skip=st.sampled_from([False] * 5 + [True])
    )
    def arrive(self, prompt: str, extra: int, skip: bool) -> None:
        tokens = [ord(symbol) for symbol in prompt for _ in range(2)] + [1] * extra
        self.num_made += 1
        name = f"r{self.num_made}"
        self.waiting.append(make_request(name, tokens, self.manager, skip_reading_prefix_cache=skip))

    @precondition(lambda self: self.waiting)
    @rule(
        which=numbers,
        share=st.integers(1, 3),
        lookahead=few,
        external=st.sampled_from([0, 0, 0, 1, 3, 6]),
        drafts=st.sampled_from([0, 0, 1, 4]),
    )
    def admit(self, which: int, share: int, lookahead: int, external: int, drafts: int) -> None:
        """Look up and allocate for a third, two thirds or all of the rest, and for draft tokens after all of it; some
        of it may come from a connector.
        """
        request = self.waiting[which % len(self.waiting)]
        computed, num_hit = self.manager.get_computed_blocks(request)
        expected, expected_hit = self.model.get_computed_blocks(request)
        assert num_hit == expected_hit
        assert list(computed.get_block_ids()) == expected
        rest = request.num_tokens - num_hit
        external = min(external, rest - 1)
        delay = external > 0 and which % 2 == 0
        num_new = 0 if delay else max((rest - external) * share // 3, 1)
        drafts = drafts if num_new == rest - external else 0
        num_new += drafts
        encoder = 3 + which % 4 if self.has_encoder else 0
        numbers = (lookahead, external, delay, encoder)
        least = self.model.min_blocks(request.num_tokens, num_hit + external, lookahead, encoder)
        usable = self.manager.block_pool.num_gpu_blocks - 1 - len(self.model.sinks)
        if least > usable:
            with pytest.raises(OutOfBlocksError) as caught:
                self.manager.allocate_slots(request, num_new, num_hit, computed, *numbers)
            assert (caught.value.wanted, caught.value.free) == (least, usable)
            self.waiting.remove(request)
            self.seen["refused for good"] += 1
            return
        new_blocks = self.manager.allocate_slots(request, num_new, num_hit, computed, *numbers)
        if not self.agree(
            new_blocks, self.model.allocate_slots(request, num_new, expected, num_hit, *numbers)
        ):
            return
        request.num_computed_tokens = num_hit + external + num_new - drafts
        self.waiting.remove(request)
        (self.on_the_way if delay else self.running).append(request)
        self.seen["hits"] += num_hit
        self.seen["external"] += external
        self.seen["drafts at admission"] += drafts
        self.steps[request.request_id] = max(num_new + lookahead, 1)
        self.encoders[request.request_id] = encoder
        self.most_drafts[request.request_id] = drafts
        self.holds_no_more_than_said(request)

    @precondition(lambda self: self.running)
    @rule(which=numbers, num=st.integers(1, 5), lookahead=few, drafts=few, accepted=few)
    def step(self, which: int, num: int, lookahead: int, drafts: int, accepted: int) -> None:
        """The next part of a prompt; or a token, with draft tokens of which some are accepted."""
        request = self.running[which % len(self.running)]
        rest = request.num_tokens - request.num_computed_tokens
        if rest <= 0:
            request.append_output_token_ids(which)
            num = 1 + drafts
        else:
            num, drafts = min(num, rest), 0
        new_blocks = self.manager.allocate_slots(request, num, num_lookahead_tokens=lookahead)
        nothing: list[list[int]] = [[] for _ in self.model.specs]
        expected = self.model.allocate_slots(request, num, nothing, 0, lookahead, 0, False, 0)
        if not self.agree(new_blocks, expected):
            return
        name = request.request_id
        self.steps[name] = max(self.steps[name], num + lookahead)
        self.most_drafts[name] = max(self.most_drafts[name], drafts)
        self.holds_no_more_than_said(request)
        kept = min(accepted, drafts)
        request.append_output_token_ids([which + i for i in range(kept)])
        request.num_computed_tokens += num - drafts + kept
        self.seen["drafts refused"] += drafts - kept

    def holds_no_more_than_said(self, request: TokenRequest) -> None:
        """`max_blocks_per_request` is a bound, for the steps that the request had."""
        held = sum(len(ids) - ids.count(0) for ids in self.manager.get_block_ids(request.request_id))
        step, encoder = self.steps[request.request_id], self.encoders[request.request_id]
        for spec in self.model.specs:
            aligned = isinstance(spec, MambaSpec) and spec.mamba_cache_mode == "align"
            if aligned and self.most_drafts[request.request_id] >= spec.block_size:
                return  # more than a draft model has
        most = self.manager.max_blocks_per_request(request.num_tokens + 7, step, 0, encoder)
        assert held <= most

    def agree(self, new_blocks: KVCacheBlocks | None, expected: list[list[int]] | None) -> bool:
        """Whether both gave blocks, the same ones; both may refuse."""
        assert (None if new_blocks is None else list(new_blocks.get_block_ids())) == expected
        self.seen["no room" if expected is None else "room"] += 1
        return expected is not None

    @precondition(lambda self: self.on_the_way)
    @rule(which=numbers)
    def land(self, which: int) -> None:
        """What a connector brought is there, and can be indexed."""
        request = self.on_the_way.pop(which % len(self.on_the_way))
        self.manager.cache_blocks(request, request.num_computed_tokens)
        if self.model.caching:
            self.model.cache_blocks(request, request.num_computed_tokens)
        self.running.append(request)

    @precondition(lambda self: self.running or self.on_the_way)
    @rule(which=numbers)
    def finish(self, which: int) -> None:
        requests = self.running or self.on_the_way
        self.give_back(requests.pop(which % len(requests)))

    @precondition(lambda self: self.running)
    @rule(which=numbers)
    def preempt(self, which: int) -> None:
        request = self.running.pop(which % len(self.running))
        self.give_back(request)
        request.preempt()
        self.waiting.append(request)
        self.seen["preempted"] += 1

    def give_back(self, request: TokenRequest) -> None:
        self.manager.free(request)
        self.model.free(request.request_id)

    # -------------------------------------------------------------------------------- odd jobs

    @precondition(lambda self: self.waiting)
    @rule(which=numbers)
    def abort(self, which: int) -> None:
        """Of a request that never got a block."""
        self.manager.free(self.waiting.pop(which % len(self.waiting)))

    @precondition(lambda self: self.running)
    @rule(which=numbers)
    def skip(self, which: int) -> None:
        request = self.running[which % len(self.running)]
        self.manager.remove_skipped_blocks(request.request_id, request.num_computed_tokens)
        self.model.remove_skipped_blocks(request.request_id, request.num_computed_tokens)

    @rule(which=numbers)
    def evict(self, which: int) -> None:
        block_id = 1 + which % (self.model.pool.num_blocks - 1)
        self.manager.evict_blocks([block_id])
        self.model.pool.evict_blocks([block_id])

    @rule(everybody=st.booleans())
    def reset(self, everybody: bool) -> None:
        while everybody and (self.running or self.on_the_way):
            self.finish(0)
        done = self.manager.reset_prefix_cache()
        assert done == self.model.reset_prefix_cache()
        self.seen[f"reset {done}"] += 1

    @precondition(lambda self: self.running)
    @rule(which=numbers)
    def admit_twice(self, which: int) -> None:
        """A running request that comes as if it were new is refused."""
        request = self.running[which % len(self.running)]
        with pytest.raises(ConfigError, match="runs already"):
            self.manager.allocate_slots(request, 1, num_external_computed_tokens=2)

    @rule()
    def take_events(self) -> None:
        events, self.model.pool.events = self.manager.take_events(), []
        self.consumer.apply(events)
        assert self.consumer.held() == indexed_copies(self.manager.block_pool)
        self.seen["events"] += len(events)

    # -------------------------------------------------------------------------------- after every step

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "manager"):
            return
        self.manager.block_pool.check_invariants()
        shown = snapshot(self.manager)
        stats = self.manager.prefix_cache_stats
        assert stats is not None
        assert [
            stats.requests,
            stats.queries,
            stats.hits,
            stats.preempted_requests,
            stats.preempted_queries,
            stats.preempted_hits,
        ] == self.model.stats
        del shown["stats"]
        expected = self.model.state()
        assert {name: value for name, value in shown.items() if value != expected[name]} == {}

    def teardown(self) -> None:
        if not hasattr(self, "manager"):
            return
        while self.running or self.on_the_way:
            self.finish(0)
        self.take_events()
        assert_all_given_back(self.manager)


TestManagerMachine = ManagerMachine.TestCase


def walk(machine: ManagerMachine, source: random.Random, steps: int) -> None:
    def one() -> int:
        return source.randrange(100)

    def arrive() -> None:
        machine.arrive(source.choice(PROMPTS), one() % 2, one() < 10)

    for _ in range(steps):
        external = source.choice([0, 0, 0, 1, 3, 6])
        drafts = source.choice([0, 1, 1, 4])
        moves: list[Callable[[], object]] = [
            arrive,
            lambda: machine.evict(one()),
            lambda: machine.take_events(),
            lambda: machine.reset(one() < 5),
        ]
        if machine.waiting:
            moves += [lambda: machine.admit(one(), 1 + one() % 3, one() % 4, external, drafts)] * 4  # noqa: B023
            moves += [lambda: machine.abort(one())]
        if machine.running:
            moves += [lambda: machine.step(one(), 1 + one() % 5, one() % 4, one() % 4, one() % 4)] * 8
            moves += [
                lambda: machine.finish(one()),
                lambda: machine.preempt(one()),
                lambda: machine.skip(one()),
                lambda: machine.admit_twice(one()),
            ]
        if machine.on_the_way:
            moves += [lambda: machine.land(one())] * 2
        source.choice(moves)()
        machine.agrees()


@pytest.mark.parametrize("mix", sorted(MIXES))
def test_a_long_walk_meets_everything(mix: str) -> None:
    source = random.Random(mix)
    seen: Counter[str] = Counter()
    for turn in range(8):
        machine = ManagerMachine()
        machine.start(mix, ROOMS[turn % 4], turn != 7, turn % 2 == 1)
        walk(machine, source, 120)
        machine.teardown()
        seen.update(machine.seen)
        seen["evictions"] += machine.manager.block_pool.num_evictions
    for what in (
        "room",
        "no room",
        "external",
        "preempted",
        "drafts at admission",
        "drafts refused",
        "reset True",
        "reset False",
    ):
        assert seen[what] > 0, what
    if "cross" not in mix:
        for what in ("hits", "evictions", "events"):
            assert seen[what] > 0, what

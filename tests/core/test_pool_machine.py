"""BlockPool against an obvious model, step by step: good calls, bad calls, and a consumer of the events.

Hypothesis hunts for short failing sequences; a seeded walk of thousands of steps over the same rules makes sure, by
counting, that evictions, hits, refusals and every bad call do occur.
"""

import logging
import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from blockpool import BlockHashListWithBlockSize, OutOfBlocksError

from .index_support import MAPS, pool_with
from .pool_bad_calls import BAD_CALLS, stranger
from .pool_model import PoolModel
from .support import FakeRequest, IndexConsumer, RecordingCollector, chain, ids, snapshot, told_events

GROUPS = {0: 1, 1: 2, 5: 1}  # group id: its block size in units of hash_block_size
PROMPTS = ["a", "ab", "aba", "abab", "ababab", "abba", "b", "bb", "bbbb", "bbbbbbb", "aabb"]
OPTIONS: dict[str, list[Any]] = {
    "reuse_uncached_first": [False, True],
    "self_check": [False, True],
    "int_block_hashes": [False, True],
    "batch_removes": [False, True],
    "event_granularity": ["every_copy", "last_copy"],
}
ODD_JOBS = ["reset", "finish_all_and_reset", "touch_the_null_block", "take_events", "take_events"]
FULLY = 4  # quarters
prompts = st.sampled_from(PROMPTS)
groups = st.sampled_from([0, 0, 1, 5])
shares = st.integers(1, FULLY)
indices = st.integers(0, 9)


@pytest.fixture(autouse=True, scope="module")
def quiet() -> Iterator[None]:
    """Thousands of refused resets would fill the report of a failure; that they warn is tested elsewhere."""
    logger = logging.getLogger("blockpool")
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(logging.NOTSET)


class Table:
    """A request's blocks in one group, and how many of them have been indexed."""

    def __init__(self, prompt: str, hash_block_size: int, group_id: int) -> None:
        self.group_id = group_id
        self.block_size = hash_block_size * GROUPS[group_id]
        tokens = [ord(symbol) for symbol in prompt for _ in range(hash_block_size)]
        self.request = FakeRequest(chain(prompt), tokens)
        self.num_full = len(prompt) // GROUPS[group_id]
        self.hashes: Any = BlockHashListWithBlockSize(
            self.request.block_hashes, hash_block_size, self.block_size
        )
        self.blocks: list[Any] = []
        self.num_cached = 0


class PoolMachine(RuleBasedStateMachine):
    """Every rule does one thing to the pool and the same to the model; invariants compare all that shows.

    Rules take plain numbers, so that the walk below can play them too; a number picks among what is there.
    """

    @initialize(
        num_blocks=st.integers(4, 14) | st.integers(1, 3),
        caching=st.sampled_from([True, True, True, False]),
        hash_block_size=st.integers(1, 3),
        events=st.booleans(),
        options=st.fixed_dictionaries({name: st.sampled_from(values) for name, values in OPTIONS.items()}),
        index=st.sampled_from(sorted(MAPS)),
    )
    def start(
        self, num_blocks: int, caching: bool, hash_block_size: int, events: bool, options: Any, index: str
    ) -> None:
        self.collector = RecordingCollector()
        self.pool = pool_with(index, num_blocks, caching, hash_block_size, events, self.collector, **options)
        self.model = PoolModel(num_blocks, caching, hash_block_size, events, options)
        self.tables: list[Table] = []
        self.consumer = IndexConsumer()
        self.foreign, self.foreign_null = stranger()
        self.seen: Counter[str] = Counter()

    def pick(self, which: int) -> Table:
        return self.tables[which % len(self.tables)]

    def free(self, blocks: list[Any], lazily: bool = False) -> None:
        self.pool.free_blocks(iter(blocks) if lazily else blocks)
        self.model.free_blocks(ids(blocks))

    # -------------------------------------------------------------------------------- requests come and go

    @rule(prompt=prompts, group_id=groups, extra=st.integers(0, 2), share=shares)
    def admit(self, prompt: str, group_id: int, extra: int, share: int) -> None:
        """Look up, touch what hits, take blocks for the rest; give the hits back when there are too few."""
        table = Table(prompt, self.pool.hash_block_size, group_id)
        hits = self.pool.find_longest_prefix(table.hashes, [group_id])[0]
        assert ids(hits) == self.model.find_longest_prefix(list(table.hashes), [group_id], None)[0]
        self.pool.touch(hits)
        self.model.touch(ids(hits))
        self.seen["hits"] += len(hits)
        wanted = table.num_full - len(hits) + extra
        before = snapshot(self.pool)
        if wanted > len(self.model.queue):
            with pytest.raises(OutOfBlocksError) as caught:
                self.pool.get_new_blocks(wanted)
            assert (caught.value.wanted, caught.value.free) == (wanted, len(self.model.queue))
            assert snapshot(self.pool) == before
            self.free(hits[::-1])
            self.seen["refused"] += 1
            return
        pinned = {block.block_id for block in self.pool.blocks if block.ref_cnt > 0}
        fresh = self.pool.get_new_blocks(wanted)
        assert ids(fresh) == self.model.get_new_blocks(wanted)
        assert not pinned & set(ids(fresh)), "a block in use was handed out"
        table.blocks = [*hits, *fresh]
        table.num_cached = len(hits)
        self.tables.append(table)
        self.index(table, share)

    @rule(prompt=prompts, group_id=groups)
    def admit_and_index(self, prompt: str, group_id: int) -> None:
        self.admit(prompt, group_id, 0, FULLY)

    @rule(first=prompts, second=prompts)
    def serve_two(self, first: str, second: str) -> None:
        """Two requests come and go: what they leave behind fills the cache."""
        num_before = len(self.tables)
        for prompt in (first, second):
            self.admit(prompt, 0, 1, FULLY)
        while len(self.tables) > num_before:
            self.free(self.tables.pop(num_before).blocks[::-1])

    @precondition(lambda self: self.tables)
    @rule(which=indices, share=shares)
    def index_more(self, which: int, share: int) -> None:
        self.index(self.pick(which), share)

    def index(self, table: Table, share: int) -> None:
        """Indexes so many quarters of what of the request has not been indexed."""
        if not self.model.caching:
            return
        stop = table.num_cached + (table.num_full - table.num_cached) * share // FULLY
        numbers = (table.num_cached, stop, table.block_size, table.group_id)
        request = table.request
        self.pool.cache_full_blocks(request, table.blocks, *numbers)
        self.model.cache_full_blocks(request.all_token_ids, request.block_hashes, ids(table.blocks), *numbers)
        table.num_cached = stop

    @precondition(lambda self: self.tables)
    @rule(which=indices, count=st.integers(1, 4))
    def slide_the_window(self, which: int, count: int) -> None:
        """The blocks that attention no longer sees are freed, and the null block stands in for them."""
        table = self.pick(which)
        gone = table.blocks[:count]
        self.free(gone[::-1])
        table.blocks[:count] = [self.pool.null_block] * len(gone)

    @precondition(lambda self: self.tables)
    @rule(which=indices)
    def fork(self, which: int) -> None:
        """Another request holds the same blocks."""
        twin = Table("", self.pool.hash_block_size, 0)
        twin.blocks = list(self.pick(which).blocks)
        self.pool.touch(twin.blocks)
        self.model.touch(ids(twin.blocks))
        self.tables.append(twin)

    @precondition(lambda self: self.tables)
    @rule(which=indices, lazily=st.booleans())
    def finish(self, which: int, lazily: bool) -> None:
        self.free(self.tables.pop(which % len(self.tables)).blocks[::-1], lazily)

    @precondition(lambda self: len(self.tables) > 1)
    @rule(which=indices, shuffle=st.integers(0, 1000))
    def finish_two_at_once(self, which: int, shuffle: int) -> None:
        """In any order: one call may list a block as often as it is held."""
        blocks = [*self.tables.pop().blocks, *self.tables.pop(which % len(self.tables)).blocks]
        random.Random(shuffle).shuffle(blocks)
        self.seen["listed twice"] += len(set(blocks)) < len(blocks)
        self.free(blocks)

    # -------------------------------------------------------------------------------- the rest of the calls

    @rule(block_ids=st.lists(st.integers(0, 13), max_size=3))
    def evict(self, block_ids: list[int]) -> None:
        doomed = [block_id for block_id in block_ids if 0 < block_id < self.model.num_blocks]
        self.pool.evict_blocks(doomed)
        self.model.evict_blocks(doomed)

    @rule(name=st.sampled_from(ODD_JOBS))
    def odd_job(self, name: str) -> None:
        getattr(self, name)()

    def reset(self) -> None:
        done = self.pool.reset_prefix_cache()
        assert done is self.model.reset_prefix_cache()
        self.seen[f"reset {done}"] += 1

    def finish_all_and_reset(self) -> None:
        while self.tables:
            self.free(self.tables.pop().blocks[::-1])
        assert self.pool.reset_prefix_cache() is True
        assert self.model.reset_prefix_cache() is True

    def touch_the_null_block(self) -> None:
        self.pool.touch([self.pool.null_block])
        self.pool.free_blocks([self.pool.null_block, self.pool.null_block])
        assert self.pool.get_new_blocks(0) == []

    def take_events(self) -> None:
        events = self.pool.take_events()
        assert told_events(self.pool, events) == self.model.events
        self.seen["events"] += len(events)
        self.model.events = []
        self.consumer.apply(events)
        if self.model.events_on:
            held: Counter[Any] = Counter()
            for full_key, under in self.model.index.items():
                held[self.model.external(full_key[:-4])] += 1 if self.model.last_copies else len(under)
            assert self.consumer.held() == held

    @rule(prompt=prompts, groups=st.lists(st.sampled_from([*GROUPS, 77]), max_size=3), limit=indices)
    def look_up(self, prompt: str, groups: list[int], limit: int) -> None:
        hashes = chain(prompt)
        for bound in (None, limit):
            found = self.pool.find_longest_prefix(hashes, groups, bound)
            assert [ids(blocks) for blocks in found] == self.model.find_longest_prefix(hashes, groups, bound)
        for block_hash in hashes:
            cached = self.pool.get_cached_block(block_hash, groups)
            expected = self.model.get_cached_block(block_hash, groups)
            assert (None if cached is None else ids(cached)) == expected

    @rule(name=st.sampled_from(list(BAD_CALLS)))
    def bad_call(self, name: str) -> None:
        needs, error, call = BAD_CALLS[name]
        if not needs(self):
            return
        before = snapshot(self.pool)
        with pytest.raises(error) as caught:
            call(self)
        assert type(caught.value) is error, name
        assert snapshot(self.pool) == before, name
        self.seen[f"bad call: {name}"] += 1

    # -------------------------------------------------------------------------------- what must always hold

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "pool"):
            return
        assert snapshot(self.pool) == self.model.state()
        self.pool.check_invariants()
        num_duplicates = self.pool.cached_block_hash_to_block.num_duplicates()
        assert num_duplicates == sum(len(under) - 1 for under in self.model.index.values())
        held = [0] * self.pool.num_gpu_blocks
        for table in self.tables:
            for block in table.blocks:
                held[block.block_id] += not block.is_null
        assert [block.ref_cnt for block in self.pool.blocks] == held

    def teardown(self) -> None:
        if not hasattr(self, "pool"):
            return
        self.take_events()
        while self.tables:
            self.free(self.tables.pop().blocks[::-1])
        assert self.pool.get_usage() == 0
        everything = list(range(1, self.pool.num_gpu_blocks))
        self.pool.evict_blocks(everything)
        self.model.evict_blocks(everything)
        self.take_events()
        assert not self.consumer.held()
        assert len(self.pool.cached_block_hash_to_block) == 0
        self.agrees()


TestPoolMachine = PoolMachine.TestCase


def walk(machine: PoolMachine, source: random.Random, steps: int) -> None:
    """Plays the machine's rules at random, those that fill the pool more often than the others."""

    def one() -> Any:
        return source.randrange(100)

    moves: list[Callable[[], None]] = [
        lambda: machine.admit(
            source.choice(PROMPTS), source.choice(list(GROUPS)), one() % 3, 1 + one() % FULLY
        ),
        lambda: machine.admit(source.choice(PROMPTS), source.choice(list(GROUPS)), 0, FULLY),
        lambda: machine.evict([one() % 14]),
        lambda: machine.odd_job(source.choice(ODD_JOBS)),
        lambda: machine.look_up(source.choice(PROMPTS), source.sample([*GROUPS, 77], one() % 4), one() % 9),
        lambda: machine.bad_call(source.choice(list(BAD_CALLS))),
    ]
    on_tables: list[Callable[[], None]] = [
        lambda: machine.index_more(one(), 1 + one() % FULLY),
        lambda: machine.slide_the_window(one(), 1 + one() % 4),
        lambda: machine.fork(one()),
        lambda: machine.finish(one(), one() % 2 == 0),
        lambda: machine.finish(one(), one() % 2 == 0),
    ]
    for _ in range(steps):
        pairs = [lambda: machine.finish_two_at_once(one(), one())] if len(machine.tables) > 1 else []
        source.choice([*moves, *moves[:2], *(on_tables if machine.tables else []), *pairs])()
        machine.agrees()


def test_a_long_walk_meets_everything() -> None:
    source = random.Random(2026)
    seen: Counter[str] = Counter()
    for _ in range(80):
        machine = PoolMachine()
        options = {name: source.choice(values) for name, values in OPTIONS.items()}
        sizes = source.randrange(6, 15), source.random() < 0.9, source.randrange(1, 4)
        machine.start(*sizes, True, options, source.choice(sorted(MAPS)))
        walk(machine, source, 120)
        seen.update(machine.seen)
        seen["evictions"] += machine.pool.num_evictions
        machine.teardown()
    for what in ("hits", "evictions", "events"):
        assert seen[what] > 500, what
    for what in ("refused", "listed twice", "reset True", "reset False"):
        assert seen[what] > 20, what
    for name in BAD_CALLS:
        assert seen[f"bad call: {name}"] > 0, name

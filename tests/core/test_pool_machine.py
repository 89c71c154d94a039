"""BlockPool against an obvious model, step by step: good calls, bad calls, and a consumer of the events."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from blockpool import BlockHashListWithBlockSize, BlockPool, OutOfBlocksError

from .pool_bad_calls import BAD_CALLS, stranger
from .pool_model import PoolModel
from .support import FakeRequest, IndexConsumer, RecordingCollector, chain, event_fields, ids, snapshot

SYMBOLS = "ab"
GROUPS = {0: 1, 1: 2, 5: 1}  # group id: its block size in units of hash_block_size
prompts = st.text(SYMBOLS, min_size=0, max_size=7)


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
    """Every rule does one thing to the pool and the same to the model; invariants compare all that shows."""

    @initialize(
        num_blocks=st.integers(1, 14),
        caching=st.sampled_from([True, True, True, False]),
        hash_block_size=st.integers(1, 3),
        events=st.booleans(),
        options=st.fixed_dictionaries(
            {name: st.booleans() for name in ("reuse_uncached_first", "self_check", "int_block_hashes")}
        ),
    )
    def start(self, num_blocks: int, caching: bool, hash_block_size: int, events: bool, options: Any) -> None:
        self.collector = RecordingCollector()
        self.pool = BlockPool(num_blocks, caching, hash_block_size, events, self.collector, **options)
        self.model = PoolModel(num_blocks, caching, hash_block_size, events, options)
        self.tables: list[Table] = []
        self.consumer = IndexConsumer()
        self.foreign, self.foreign_null = stranger()

    # -------------------------------------------------------------------------------- requests come and go

    @rule(prompt=prompts, group_id=st.sampled_from(list(GROUPS)), extra=st.integers(0, 2))
    def admit(self, prompt: str, group_id: int, extra: int) -> None:
        """Look up, touch what hits, take blocks for the rest; give the hits back when there are too few."""
        table = Table(prompt, self.pool.hash_block_size, group_id)
        hits = self.pool.find_longest_prefix(table.hashes, [group_id])[0]
        assert ids(hits) == self.model.find_longest_prefix(list(table.hashes), [group_id], None)[0]
        self.pool.touch(hits)
        self.model.touch(ids(hits))
        wanted = table.num_full - len(hits) + extra
        before = snapshot(self.pool)
        if wanted > len(self.model.queue):
            with pytest.raises(OutOfBlocksError) as caught:
                self.pool.get_new_blocks(wanted)
            assert (caught.value.wanted, caught.value.free) == (wanted, len(self.model.queue))
            assert snapshot(self.pool) == before
            self.pool.free_blocks(reversed(hits))
            self.model.free_blocks(ids(hits)[::-1])
            return
        pinned = {block.block_id for block in self.pool.blocks if block.ref_cnt > 0}
        fresh = self.pool.get_new_blocks(wanted)
        assert ids(fresh) == self.model.get_new_blocks(wanted)
        assert not pinned & set(ids(fresh)), "a block in use was handed out"
        table.blocks = [*hits, *fresh]
        table.num_cached = len(hits)
        self.tables.append(table)

    @precondition(lambda self: self.model.caching and self.tables)
    @rule(data=st.data())
    def cache(self, data: st.DataObject) -> None:
        table = data.draw(st.sampled_from(self.tables))
        stop = data.draw(st.integers(table.num_cached, table.num_full))
        pool_call = (table.num_cached, stop, table.block_size, table.group_id)
        self.pool.cache_full_blocks(table.request, table.blocks, *pool_call)
        request = table.request
        self.model.cache_full_blocks(
            request.all_token_ids, request.block_hashes, ids(table.blocks), *pool_call
        )
        table.num_cached = stop

    @precondition(lambda self: self.tables)
    @rule(data=st.data())
    def slide_the_window(self, data: st.DataObject) -> None:
        """The blocks that attention no longer sees are freed, and the null block stands in for them."""
        table = data.draw(st.sampled_from(self.tables))
        if not table.blocks:
            return
        count = data.draw(st.integers(1, len(table.blocks)))
        gone = table.blocks[:count]
        self.pool.free_blocks(reversed(gone))
        self.model.free_blocks(ids(gone)[::-1])
        table.blocks[:count] = [self.pool.null_block] * count

    @precondition(lambda self: self.tables)
    @rule(data=st.data())
    def fork(self, data: st.DataObject) -> None:
        """Another request holds the same blocks."""
        table = data.draw(st.sampled_from(self.tables))
        twin = Table("", self.pool.hash_block_size, table.group_id)
        twin.blocks = list(table.blocks)
        self.pool.touch(twin.blocks)
        self.model.touch(ids(twin.blocks))
        self.tables.append(twin)

    @precondition(lambda self: self.tables)
    @rule(data=st.data(), lazily=st.booleans())
    def finish(self, data: st.DataObject, lazily: bool) -> None:
        table = data.draw(st.sampled_from(self.tables))
        self.tables.remove(table)
        self.pool.free_blocks(reversed(table.blocks) if lazily else table.blocks[::-1])
        self.model.free_blocks(ids(table.blocks)[::-1])

    @precondition(lambda self: len(self.tables) > 1)
    @rule(data=st.data())
    def finish_two_at_once(self, data: st.DataObject) -> None:
        """One call may list a block as often as it is held."""
        first, second = data.draw(st.permutations(self.tables))[:2]
        blocks = data.draw(st.permutations([*first.blocks, *second.blocks]))
        self.tables = [table for table in self.tables if table is not first and table is not second]
        self.pool.free_blocks(blocks)
        self.model.free_blocks(ids(blocks))

    # -------------------------------------------------------------------------------- the rest of the calls

    @rule(data=st.data())
    def evict(self, data: st.DataObject) -> None:
        doomed = data.draw(st.lists(st.integers(1, max(1, self.model.num_blocks - 1)), max_size=4))
        if self.model.num_blocks == 1:
            return
        self.pool.evict_blocks(doomed)
        self.model.evict_blocks(doomed)
        for table in self.tables:  # what a connector spoiled will be indexed again only by another request
            table.num_cached = table.num_full

    @rule()
    def reset(self) -> None:
        assert self.pool.reset_prefix_cache() is self.model.reset_prefix_cache()

    @precondition(lambda self: self.tables)
    @rule()
    def finish_all_and_reset(self) -> None:
        while self.tables:
            table = self.tables.pop()
            self.pool.free_blocks(reversed(table.blocks))
            self.model.free_blocks(ids(table.blocks)[::-1])
        assert self.pool.reset_prefix_cache() is True
        assert self.model.reset_prefix_cache() is True

    @rule(
        prompt=prompts, groups=st.lists(st.sampled_from([*GROUPS, 77]), max_size=3), limit=st.integers(0, 8)
    )
    def look_up(self, prompt: str, groups: list[int], limit: int) -> None:
        hashes = chain(prompt)
        for bound in (None, limit):
            found = self.pool.find_longest_prefix(hashes, groups, bound)
            assert [ids(blocks) for blocks in found] == self.model.find_longest_prefix(hashes, groups, bound)
        for block_hash in hashes:
            cached = self.pool.get_cached_block(block_hash, groups)
            assert (None if cached is None else ids(cached)) == self.model.get_cached_block(
                block_hash, groups
            )

    @rule()
    def nothing_much(self) -> None:
        self.pool.touch([self.pool.null_block])
        self.pool.free_blocks([self.pool.null_block, self.pool.null_block])
        assert self.pool.get_new_blocks(0) == []

    @rule()
    def take_events(self) -> None:
        events = self.pool.take_events()
        assert [event_fields(event) for event in events] == self.model.events
        self.model.events = []
        self.consumer.apply(events)
        if self.model.events_on:
            held: dict[Any, int] = {}
            for full_key, under in self.model.index.items():
                shown = self.model.external(full_key[:-4])
                held[shown] = held.get(shown, 0) + len(under)
            assert dict(self.consumer.held()) == held

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

    # -------------------------------------------------------------------------------- what must always hold

    @invariant()
    def shows_what_the_model_says(self) -> None:
        if hasattr(self, "pool"):
            assert snapshot(self.pool) == self.model.state()

    @invariant()
    def keeps_its_invariants(self) -> None:
        if hasattr(self, "pool"):
            self.pool.check_invariants()

    @invariant()
    def what_requests_hold_is_held(self) -> None:
        if not hasattr(self, "pool"):
            return
        held = [0] * self.pool.num_gpu_blocks
        for table in self.tables:
            for block in table.blocks:
                if not block.is_null:
                    held[block.block_id] += 1
        assert [block.ref_cnt for block in self.pool.blocks] == held

    def teardown(self) -> None:
        if not hasattr(self, "pool"):
            return
        while self.tables:
            self.pool.free_blocks(reversed(self.tables.pop().blocks))
        assert self.pool.get_usage() == 0
        self.consumer.apply(self.pool.take_events())
        self.pool.evict_blocks(range(1, self.pool.num_gpu_blocks))
        self.consumer.apply(self.pool.take_events())
        assert not self.consumer.held()
        assert len(self.pool.cached_block_hash_to_block) == 0
        self.pool.check_invariants()


TestPoolMachine = PoolMachine.TestCase

"""Random workloads through vLLM 0.16's own BlockPool and through ours: equal ids, order, hits, events and usage.

Where the two differ on purpose, a test of its own shows what vLLM does and what we do.
"""

import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import blockpool
from benchmarks.peer import Peer
from blockpool import (
    BlockHashListWithBlockSize,
    BlockPool,
    BlockPoolError,
    BlockStateError,
    ConfigError,
    KVCacheMetricsCollector,
)

from .core.support import FakeClock, FakeRequest, chain, ids, queue_ids

pytestmark = pytest.mark.peer

GROUPS = {0: 1, 1: 2, 7: 1}  # group id: block size in units of hash_block_size
HASH_BLOCK_SIZE = 4


def fields(event: Any) -> tuple[Any, ...]:
    """An event of either side, field by field."""
    names = {
        "BlockStored": (
            "block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium", "lora_name",
        ),
        "BlockRemoved": ("block_hashes", "medium"),
        "AllBlocksCleared": (),
    }  # fmt: skip
    kind = type(event).__name__
    return (kind, *(getattr(event, name) for name in names[kind]))


class Pair:
    """The same pool twice: every call goes to both, every answer is compared."""

    def __init__(
        self, peer: Peer, monkeypatch: pytest.MonkeyPatch, num_blocks: int, caching: bool = True
    ) -> None:
        self.peer = peer
        self.clock = FakeClock()
        self.draws: list[float] = []
        draw = random.Random(5)
        monkeypatch.setattr(peer.kv_cache_metrics, "time", SimpleNamespace(monotonic_ns=self.clock))
        monkeypatch.setattr(
            peer.kv_cache_metrics, "random", SimpleNamespace(random=lambda: self.drawn(draw.random()))
        )
        self.their_metrics = peer.KVCacheMetricsCollector(0.5)
        self.our_metrics = KVCacheMetricsCollector(0.5, clock=self.clock, random=lambda: self.draws.pop(0))
        self.theirs = peer.BlockPool(num_blocks, caching, HASH_BLOCK_SIZE, True, self.their_metrics)
        self.ours = BlockPool(num_blocks, caching, HASH_BLOCK_SIZE, True, self.our_metrics)

    def drawn(self, value: float) -> float:
        self.draws.append(value)
        return value

    def both(self, method: str, blocks_of: Callable[[Any], tuple[Any, ...]]) -> Any:
        """Theirs first, for its random draws are replayed to ours; blocks answered are compared by id."""
        theirs = getattr(self.theirs, method)(*blocks_of(self.theirs))
        ours = getattr(self.ours, method)(*blocks_of(self.ours))
        if isinstance(theirs, list):
            assert ids(theirs) == ids(ours)
            return ids(ours)
        assert theirs == ours
        return ours

    def compare(self) -> None:
        theirs, ours = self.theirs, self.ours
        assert ids(theirs.free_block_queue.get_all_free_blocks()) == queue_ids(ours)
        assert theirs.get_num_free_blocks() == ours.get_num_free_blocks()
        assert theirs.get_usage() == ours.get_usage()
        assert [block.ref_cnt for block in theirs.blocks] == [block.ref_cnt for block in ours.blocks]
        assert [block.block_hash for block in theirs.blocks] == [block.block_hash for block in ours.blocks]
        assert len(theirs.cached_block_hash_to_block) == len(ours.cached_block_hash_to_block)
        assert list(map(fields, theirs.take_events())) == list(map(fields, ours.take_events()))
        residencies = [*self.our_metrics.drain_events(), *self.our_metrics.drain_recycled()]
        assert sorted(map(residency, self.their_metrics.drain_events())) == sorted(
            map(residency, residencies)
        )
        ours.check_invariants()


def residency(event: Any) -> tuple[Any, ...]:
    return (event.lifetime_seconds, event.idle_seconds, tuple(event.reuse_gaps_seconds))


class Workload:
    """Requests over a few prompts come, grow, slide their window and go, in a pool that is too small for all."""

    def __init__(self, pair: Pair, seed: int) -> None:
        self.pair = pair
        self.random = random.Random(seed)
        self.running: list[tuple[int, list[int], str, int]] = []
        self.hits = 0

    def step(self) -> None:
        self.pair.clock.advance(self.random.random())
        action = self.random.choice([self.admit, self.admit, self.admit, self.finish, self.finish, self.rest])
        action()
        self.pair.compare()

    def admit(self) -> None:
        pair = self.pair
        group_id = self.random.choice(list(GROUPS))
        prompt = "".join(self.random.choice("ab") for _ in range(self.random.randrange(1, 9)))
        size = GROUPS[group_id] * HASH_BLOCK_SIZE
        fine = chain(prompt)
        coarse = list(BlockHashListWithBlockSize(fine, HASH_BLOCK_SIZE, size))
        hits: list[int] = []
        for block_hash in coarse:
            found = pair.both("get_cached_block", lambda pool, h=block_hash: (h, [group_id]))
            if found is None:
                break
            hits += found
        assert ids(pair.ours.find_longest_prefix(coarse, [group_id])[0]) == hits
        self.hits += len(hits)
        pair.both("touch", lambda pool: ([pool.blocks[i] for i in hits],))
        wanted = len(coarse) - len(hits) + self.random.randrange(2)
        if wanted > pair.ours.get_num_free_blocks():
            for pool in (pair.theirs, pair.ours):
                with pytest.raises(ValueError, match="free"):
                    pool.get_new_blocks(wanted)
            pair.both("free_blocks", lambda pool: ([pool.blocks[i] for i in reversed(hits)],))
            return
        table = hits + pair.both("get_new_blocks", lambda pool: (wanted,))
        lora = SimpleNamespace(name="lora", adapter_id=3) if self.random.random() < 0.3 else None
        tokens = [ord(symbol) for symbol in prompt for _ in range(HASH_BLOCK_SIZE)]
        request = FakeRequest(fine, tokens, lora)  # type: ignore[arg-type]
        middle = self.random.randint(len(hits), len(coarse))
        for start, stop in ((len(hits), middle), (middle, len(coarse))):
            pair.both(
                "cache_full_blocks",
                lambda pool, a=start, b=stop: (
                    request,
                    [pool.blocks[i] for i in table],
                    a,
                    b,
                    size,
                    group_id,
                ),
            )
        self.running.append((group_id, table, prompt, len(coarse)))

    def finish(self) -> None:
        if self.running:
            _, table, _, _ = self.running.pop(self.random.randrange(len(self.running)))
            self.pair.both("free_blocks", lambda pool: ([pool.blocks[i] for i in reversed(table)],))

    def rest(self) -> None:
        choice = self.random.randrange(4)
        if choice == 0:
            doomed = self.random.sample(range(1, self.pair.ours.num_gpu_blocks), 3)
            self.pair.both("evict_blocks", lambda pool: (doomed,))
        elif choice == 1:
            self.pair.both("reset_prefix_cache", lambda pool: ())
        elif self.running and choice == 2:
            _, table, _, _ = self.random.choice(self.running)
            self.pair.both("touch", lambda pool: ([pool.blocks[i] for i in table],))
            self.running.append((0, list(table), "", 0))
        else:
            while self.running and self.random.random() < 0.8:
                self.finish()


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("num_blocks", [6, 20, 60])
def test_a_random_workload(peer: Peer, monkeypatch: pytest.MonkeyPatch, num_blocks: int, seed: int) -> None:
    workload = Workload(Pair(peer, monkeypatch, num_blocks), seed)
    for _ in range(150):
        workload.step()
    assert workload.hits > 10
    assert workload.pair.ours.num_evictions > 10


def test_raw_hashes_in_events(peer: Peer) -> None:
    theirs = peer.BlockPool(5, True, 4, True)
    ours = BlockPool(5, True, 4, True, int_block_hashes=False)
    request = FakeRequest(chain("abcd"), range(16))
    peer.use_int_block_hashes(False)
    try:
        for pool in (theirs, ours):
            blocks = pool.get_new_blocks(4)
            pool.cache_full_blocks(request, blocks, 0, 2, 4, 0)
            pool.cache_full_blocks(request, blocks, 2, 4, 4, 0)
            pool.evict_blocks({2})
    finally:
        peer.use_int_block_hashes(True)
    events = list(map(fields, ours.take_events()))
    assert list(map(fields, theirs.take_events())) == events
    assert events[0][1] == request.block_hashes[:2]


# ------------------------------------------------------------------------------- differences on purpose


def pools(peer: Peer, num_blocks: int = 5, **options: Any) -> tuple[Any, BlockPool]:
    return peer.BlockPool(num_blocks, True, 4, True), BlockPool(num_blocks, True, 4, True, **options)


def test_ours_the_null_block_is_not_counted(peer: Peer) -> None:
    theirs, ours = pools(peer)
    for pool in (theirs, ours):
        pool.free_blocks([pool.null_block] * 8)
        pool.touch([pool.null_block])
    assert theirs.null_block.ref_cnt == -7
    assert ours.null_block.ref_cnt == 0


def test_ours_a_block_is_not_freed_twice(peer: Peer) -> None:
    theirs, ours = pools(peer)
    (their_block,), (our_block,) = theirs.get_new_blocks(1), ours.get_new_blocks(1)
    theirs.free_blocks([their_block])
    theirs.free_blocks([their_block])
    assert their_block.ref_cnt == -1
    ours.free_blocks([our_block])
    with pytest.raises(BlockStateError) as caught:
        ours.free_blocks([our_block])
    assert caught.value.block_id == 1
    assert our_block.ref_cnt == 0


def test_ours_a_block_held_twice_may_be_listed_twice(peer: Peer) -> None:
    theirs, ours = pools(peer)
    for pool in (theirs, ours):
        (block,) = pool.get_new_blocks(1)
        pool.touch([block])
        pool.free_blocks([block, block])
    assert theirs.get_num_free_blocks() == 5  # one more than there are
    assert ours.get_num_free_blocks() == 4
    assert queue_ids(ours) == [2, 3, 4, 1]


def test_ours_a_negative_number_of_blocks(peer: Peer) -> None:
    theirs, ours = pools(peer)
    assert theirs.get_new_blocks(-1) == []
    assert theirs.get_num_free_blocks() == 5  # one more than there are
    with pytest.raises(ConfigError):
        ours.get_new_blocks(-1)
    assert ours.get_num_free_blocks() == 4
    with pytest.raises(ConfigError):
        ours.free_block_queue.popleft_n(-1)


def test_ours_events_name_the_tokens_of_their_blocks_only(peer: Peer) -> None:
    theirs, ours = pools(peer)
    request = FakeRequest(chain("abcd"), range(16))
    for pool in (theirs, ours):
        first, last = pool.get_new_blocks(2)
        pool.cache_full_blocks(request, [first, pool.null_block, pool.null_block, last], 0, 4, 4, 0)
        pool.cache_full_blocks(request, [pool.null_block] * 4, 0, 4, 4, 0)
    one, nothing = theirs.take_events()
    assert len(one.block_hashes) == 2
    assert one.token_ids == list(range(16))
    assert nothing.block_hashes == []
    head, tail = ours.take_events()
    assert head.token_ids == list(range(4))  # type: ignore[union-attr]
    assert tail.token_ids == list(range(12, 16))  # type: ignore[union-attr]
    assert tail.parent_block_hash == blockpool.external_block_hash(request.block_hashes[2])  # type: ignore[union-attr]


def test_ours_an_unknown_id_spoils_the_whole_eviction(peer: Peer) -> None:
    theirs, ours = pools(peer, 10)
    for pool in (theirs, ours):
        pool.cache_full_blocks(FakeRequest(chain("abc"), range(12)), pool.get_new_blocks(3), 0, 3, 4, 0)
    with pytest.raises(AssertionError):
        theirs.evict_blocks([3, 999])
    assert theirs.blocks[3].block_hash is None
    with pytest.raises(BlockStateError):
        ours.evict_blocks([3, 999])
    assert ours.blocks[3].block_hash is not None


def test_ours_a_negative_id_is_not_a_block_from_the_end(peer: Peer) -> None:
    theirs, ours = pools(peer, 4)
    for pool in (theirs, ours):
        pool.cache_full_blocks(FakeRequest(chain("abc"), range(12)), pool.get_new_blocks(3), 0, 3, 4, 0)
    theirs.evict_blocks([-1])
    assert theirs.blocks[3].block_hash is None
    with pytest.raises(BlockStateError):
        ours.evict_blocks([-1])
    assert ours.blocks[3].block_hash is not None


def test_ours_a_block_of_another_pool_is_refused(peer: Peer) -> None:
    theirs, ours = pools(peer)
    (foreign,) = peer.BlockPool(5, True, 4).get_new_blocks(1)
    theirs.free_blocks([foreign])
    assert theirs.get_num_free_blocks() == 5
    (foreign,) = BlockPool(5, True, 4).get_new_blocks(1)
    with pytest.raises(BlockPoolError):
        ours.free_blocks([foreign])
    assert ours.get_num_free_blocks() == 4


def test_ours_blocks_never_indexed_are_no_evictions(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = Pair(peer, monkeypatch, 2)
    pair.their_metrics.sample_rate = 1.0
    pair.our_metrics = KVCacheMetricsCollector(1.0, clock=pair.clock, random=lambda: 0.0)
    pair.ours.metrics_collector = pair.our_metrics
    for pool in (pair.theirs, pair.ours):
        pool.free_blocks(pool.get_new_blocks(1))
        pool.get_new_blocks(1)
    assert len(pair.their_metrics.drain_events()) == 1
    assert pair.our_metrics.drain_events() == []
    assert len(pair.our_metrics.drain_recycled()) == 1


def test_ours_a_failed_indexing_leaves_nothing_behind(peer: Peer) -> None:
    theirs, ours = pools(peer)
    request = FakeRequest(chain("ab"), range(8))
    for pool in (theirs, ours):
        (block,) = pool.get_new_blocks(1)
        with pytest.raises(AssertionError):
            pool.cache_full_blocks(request, [block, block], 0, 2, 4, 0)
    assert len(theirs.cached_block_hash_to_block) == 1
    assert len(ours.cached_block_hash_to_block) == 0
    assert ours.blocks[1].block_hash is None

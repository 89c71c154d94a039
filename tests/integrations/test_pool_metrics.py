"""Snapshots: right after every step of a random pool, immutable, and taken only when the engine says so."""

from __future__ import annotations

from typing import Any

import pytest

from blockpool import ArgumentError, BlockPool, ConfigError, KVCacheMetricsCollector
from blockpool.integrations.pool_metrics import PoolMetrics
from blockpool.integrations.pool_snapshot import PrefixCacheTotals
from blockpool.kv_cache import PrefixCacheStats
from tests.core.support import FakeClock, FakeRequest, chain
from tests.events.support import GENEROUS_SECONDS, PoolRun, publisher
from tests.events.test_publisher import StalledSocket
from tests.kv_cache.support import admit, full, make_manager, make_request, run_once

from .support import Engine


def cached(pool: BlockPool, word: str) -> list[Any]:
    blocks = pool.get_new_blocks(len(word))
    pool.cache_full_blocks(FakeRequest(chain(word)), blocks, 0, len(word), pool.hash_block_size, 0)
    return blocks


def test_where_the_blocks_are() -> None:
    """Numbers 14 and 18 of the faults that people met: idle is its own number and no usage."""
    pool = BlockPool(11, True, 4)
    metrics = PoolMetrics(pool)
    idle = cached(pool, "xyz")
    pool.free_blocks(idle)
    held = pool.get_new_blocks(5)
    assert metrics.snapshot.occupancy == (0, 0, 10)  # of the construction
    metrics.update()
    assert (metrics.snapshot.usage, metrics.snapshot.occupancy) == (0.5, (5, 3, 2))
    pool.free_blocks(held)
    metrics.update()
    assert (metrics.snapshot.usage, metrics.snapshot.occupancy) == (0.0, (0, 3, 7))
    assert metrics.snapshot.num_updates == 3


def test_index_and_duplicates() -> None:
    pool = BlockPool(11, True, 4)
    metrics = PoolMetrics(pool)
    first, second = cached(pool, "abc"), cached(pool, "ab")
    metrics.update()
    assert (metrics.snapshot.num_hashes, metrics.snapshot.num_duplicates) == (3, 2)
    pool.evict_blocks([first[0].block_id])
    metrics.update()
    seen = metrics.snapshot
    assert (seen.num_hashes, seen.num_duplicates, seen.num_evictions) == (3, 1, 1)
    pool.free_blocks(first + second)
    assert pool.reset_prefix_cache()
    metrics.update()
    seen = metrics.snapshot
    assert (seen.num_hashes, seen.num_duplicates, seen.num_evictions) == (0, 0, 1)


@pytest.mark.parametrize("seed", range(3))
def test_every_snapshot_is_what_a_walk_finds(seed: int) -> None:
    run = PoolRun(seed)
    metrics = PoolMetrics(run.pool)
    most_duplicates = 0
    for _ in range(300):
        run.step()
        metrics.update()
        usable = run.pool.blocks[1:]
        keys = [block.block_hash for block in usable if block.block_hash is not None]
        idle = sum(block.ref_cnt == 0 and block.block_hash is not None for block in usable)
        held = sum(block.ref_cnt > 0 for block in usable)
        seen = metrics.snapshot
        assert seen.occupancy == (held, idle, len(usable) - held - idle)
        assert seen.usage == pytest.approx(held / len(usable))
        assert (seen.num_hashes, seen.num_duplicates) == (len(set(keys)), len(keys) - len(set(keys)))
        most_duplicates = max(most_duplicates, seen.num_duplicates)
    assert most_duplicates > 0
    assert seen.num_evictions == run.pool.num_evictions > 0


# --- the prefix cache


def test_a_pool_alone_says_nothing_of_the_prefix_cache_until_somebody_does() -> None:
    metrics = PoolMetrics(BlockPool(5, True, 4))
    metrics.update()
    assert metrics.snapshot.prefix_cache is None
    metrics.record(100, 64)
    metrics.record(40, 0)
    metrics.record(70, 64, preempted=True)
    assert metrics.snapshot.prefix_cache is None
    metrics.update()
    assert metrics.snapshot.prefix_cache == PrefixCacheTotals(2, 140, 64, 1, 70, 64)


def test_statistics_of_a_manager_add_up() -> None:
    manager = make_manager(full(4), num_blocks=20, log_stats=True)
    metrics = PoolMetrics(manager)
    assert metrics.snapshot.prefix_cache == PrefixCacheTotals(0, 0, 0, 0, 0, 0)
    run_once(manager, range(8))
    metrics.update()
    request = make_request("r", range(9), manager)
    admit(manager, request)
    manager.free(request)
    request.preempt()
    admit(manager, request)
    metrics.update()
    metrics.update()
    assert metrics.snapshot.prefix_cache == PrefixCacheTotals(2, 17, 8, 1, 9, 8)


def test_an_engine_may_take_the_statistics_itself() -> None:
    manager = make_manager(full(4), num_blocks=20, log_stats=True)
    metrics = PoolMetrics(manager)
    run_once(manager, range(8))
    taken = manager.make_prefix_cache_stats()
    run_once(manager, range(9))  # afterwards, so still with the manager
    metrics.update(taken)
    assert metrics.snapshot.prefix_cache == PrefixCacheTotals(2, 17, 8, 0, 0, 0)
    assert taken == PrefixCacheStats(requests=1, queries=8)


def test_a_manager_without_statistics() -> None:
    metrics = PoolMetrics(make_manager(full(4)))
    metrics.update()
    assert metrics.snapshot.prefix_cache is None


# --- residency and publisher


def test_residency_of_evicted_and_of_recycled_blocks_is_apart() -> None:
    clock = FakeClock()
    collector = KVCacheMetricsCollector(1.0, clock=clock, random=lambda: 0.0)
    pool = BlockPool(3, True, 4, metrics_collector=collector)
    metrics = PoolMetrics(pool)
    evicted, recycled = metrics.snapshot.evicted, metrics.snapshot.recycled
    assert evicted is not None
    assert evicted == recycled
    assert evicted.lifetime.cumulative[-1] == 0
    (blocks, plain) = cached(pool, "a"), pool.get_new_blocks(1)
    clock.advance(2)
    pool.touch(blocks)
    clock.advance(1)
    pool.touch(blocks)
    pool.free_blocks(blocks * 3)
    pool.free_blocks(plain)
    clock.advance(4)
    pool.get_new_blocks(2)
    before = metrics.snapshot
    metrics.update()
    assert before.evicted is evicted
    assert before.evicted.lifetime.cumulative[-1] == 0
    evicted, recycled = metrics.snapshot.evicted, metrics.snapshot.recycled
    assert evicted is not None
    assert recycled is not None
    assert (evicted.lifetime.total, evicted.idle.total, evicted.reuse_gap.total) == (7.0, 4.0, 1.0)
    assert (recycled.lifetime.total, recycled.idle.total) == (7.0, 7.0)
    assert [part.cumulative[-1] for part in (*evicted, *recycled)] == [1, 1, 1, 1, 1, 0]
    metrics.update()
    assert metrics.snapshot.evicted is evicted  # nothing came: nothing is made


def test_a_collector_of_another_kind_is_not_drained() -> None:
    class Hooks:
        def on_block_allocated(self, block: Any) -> None: ...
        def on_block_accessed(self, block: Any) -> None: ...
        def on_block_evicted(self, block: Any) -> None: ...
        def reset(self) -> None: ...

    metrics = PoolMetrics(BlockPool(5, True, 4, metrics_collector=Hooks()))
    metrics.update()
    assert metrics.snapshot.evicted is None


def test_counts_of_the_publisher(engine: Engine) -> None:
    engine.run(0, 8)
    seen = engine.metrics.snapshot.publisher
    assert seen is not None
    assert (seen.num_batches, seen.num_sent, seen.num_dropped, seen.num_waiting) == (1, 1, 0, 0)
    assert PoolMetrics(engine.manager).snapshot.publisher is None


def test_what_a_stalled_publisher_drops_is_seen() -> None:
    """Number 8 of the faults that people met."""
    run = PoolRun(1)
    with publisher(max_queue_size=2) as made:
        metrics = PoolMetrics(run.pool, publisher=made)
        made._worker._pub = stalled = StalledSocket(made._worker._pub)  # type: ignore[assignment]
        made.publish(run.batch(20))
        assert stalled.stalled.wait(GENEROUS_SECONDS)
        for _ in range(5):
            made.publish(run.batch(20))
        metrics.update()
        seen = metrics.snapshot.publisher
        assert seen is not None
        assert (seen.num_batches, seen.num_sent, seen.num_dropped) == (6, 0, 3)
        assert seen.num_waiting >= 2
        stalled.go.set()
        assert made.flush(GENEROUS_SECONDS)
        metrics.update()
        seen = metrics.snapshot.publisher
        assert seen is not None
        assert (seen.num_sent, seen.num_dropped, seen.num_waiting) == (3, 3, 0)


def test_a_closed_publisher_is_still_shown() -> None:
    run = PoolRun(1)
    with publisher() as made:
        metrics = PoolMetrics(run.pool, publisher=made)
        made.publish(run.batch(20))
    metrics.update()
    seen = metrics.snapshot.publisher
    assert seen is not None
    assert (seen.num_batches, seen.num_sent) == (1, 1)


def test_a_snapshot_cannot_be_changed(engine: Engine) -> None:
    engine.run(0, 8)
    with pytest.raises(AttributeError):
        engine.metrics.snapshot.usage = 0.5  # type: ignore[misc]
    hash(engine.metrics.snapshot)  # of immutable parts only


# --- bad input


@pytest.mark.parametrize("source", [None, "pool", 5, BlockPool])
def test_only_pools_and_managers(source: Any) -> None:
    with pytest.raises(ArgumentError) as caught:
        PoolMetrics(source)
    assert caught.value.field == "source"


def test_only_publishers() -> None:
    with pytest.raises(ArgumentError) as caught:
        PoolMetrics(BlockPool(5, True, 4), publisher=object())  # type: ignore[arg-type]
    assert caught.value.field == "publisher"


@pytest.mark.parametrize(
    ("arguments", "error", "field"),
    [
        ((-1, 0), ConfigError, "num_tokens"),
        ((1.5, 0), ArgumentError, "num_tokens"),
        ((5, -1), ConfigError, "num_hits"),
        ((5, 6), ConfigError, "num_hits"),
        ((5, None), ArgumentError, "num_hits"),
        ((5, 5, 1), ArgumentError, "preempted"),
    ],
)
def test_bad_records_change_nothing(arguments: Any, error: type[ConfigError], field: str) -> None:
    metrics = PoolMetrics(BlockPool(5, True, 4))
    with pytest.raises(error) as caught:
        metrics.record(*arguments)
    assert caught.value.field == field
    metrics.update()
    assert metrics.snapshot.prefix_cache is None


@pytest.mark.parametrize(
    ("stats", "error"),
    [
        ({"queries": 5}, ArgumentError),
        (PrefixCacheStats(queries=-1), ConfigError),
        (PrefixCacheStats(requests="1"), ArgumentError),  # type: ignore[arg-type]
        (PrefixCacheStats(queries=1, hits=2), ConfigError),
        (PrefixCacheStats(preempted_queries=1, preempted_hits=2), ConfigError),
    ],
)
def test_bad_statistics_change_nothing(stats: Any, error: type[ConfigError]) -> None:
    manager = make_manager(full(4), log_stats=True)
    metrics = PoolMetrics(manager)
    run_once(manager, range(8))
    before = metrics.snapshot
    with pytest.raises(error):
        metrics.update(stats)
    assert metrics.snapshot is before
    metrics.update()
    assert metrics.snapshot.prefix_cache == PrefixCacheTotals(1, 8, 0, 0, 0, 0)

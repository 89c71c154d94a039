"""Sampled residency metrics under an injected clock and random source."""

import time

import pytest

from blockpool import ArgumentError, BlockPool, ConfigError, KVCacheBlock, KVCacheMetricsCollector
from blockpool import KVCacheEvictionEvent as Eviction

from .support import FakeClock, ScriptedRandom, cache_chain, key


def collector(clock: FakeClock, *randoms: float, rate: float = 0.5) -> KVCacheMetricsCollector:
    return KVCacheMetricsCollector(rate, clock=clock, random=ScriptedRandom(*randoms))


def indexed_block(block_id: int = 1) -> KVCacheBlock:
    block = KVCacheBlock(block_id)
    block.block_hash = key(b"h" * 32)
    return block


def test_lifetime_idle_and_gaps() -> None:
    clock = FakeClock()
    metrics = collector(clock, 0.0)
    block = indexed_block()
    metrics.on_block_allocated(block)
    clock.advance(1)
    metrics.on_block_accessed(block)
    clock.advance(2)
    metrics.on_block_accessed(block)
    clock.advance(4)
    metrics.on_block_evicted(block)
    assert metrics.drain_events() == [
        Eviction(lifetime_seconds=7.0, idle_seconds=4.0, reuse_gaps_seconds=(2.0,))
    ]


def test_a_block_never_accessed_is_idle_since_birth() -> None:
    clock = FakeClock()
    metrics = collector(clock, 0.0)
    block = indexed_block()
    metrics.on_block_allocated(block)
    clock.advance(3)
    metrics.on_block_evicted(block)
    (event,) = metrics.drain_events()
    assert event.lifetime_seconds == 3.0
    assert event.idle_seconds == 3.0
    assert event.reuse_gaps_seconds == ()


def test_one_access_makes_no_gap() -> None:
    clock = FakeClock()
    metrics = collector(clock, 0.0)
    block = indexed_block()
    metrics.on_block_allocated(block)
    clock.advance(3)
    metrics.on_block_accessed(block)
    clock.advance(0.5)
    metrics.on_block_evicted(block)
    (event,) = metrics.drain_events()
    assert (event.lifetime_seconds, event.idle_seconds, event.reuse_gaps_seconds) == (3.5, 0.5, ())


def test_only_the_last_four_accesses_are_kept() -> None:
    clock = FakeClock()
    metrics = collector(clock, 0.0)
    block = indexed_block()
    metrics.on_block_allocated(block)
    for gap in (1, 2, 4, 8, 16, 32):
        clock.advance(gap)
        metrics.on_block_accessed(block)
    metrics.on_block_evicted(block)
    (event,) = metrics.drain_events()
    assert tuple(event.reuse_gaps_seconds) == (8.0, 16.0, 32.0)
    assert event.lifetime_seconds == 63.0
    assert event.idle_seconds == 0.0


def test_sampling_asks_once_for_each_allocation() -> None:
    clock = FakeClock()
    random = ScriptedRandom(0.49, 0.5, 0.51, 0.0)
    metrics = KVCacheMetricsCollector(0.5, clock=clock, random=random)
    blocks = [indexed_block(i) for i in range(4)]
    for block in blocks:
        metrics.on_block_allocated(block)
    assert random.asked == 4
    clock.advance(1)
    for block in blocks:
        metrics.on_block_accessed(block)
        metrics.on_block_evicted(block)
    assert random.asked == 4
    assert len(metrics.drain_events()) == 2


def test_a_rate_of_one_samples_all() -> None:
    metrics = KVCacheMetricsCollector(1, clock=FakeClock(), random=ScriptedRandom(0.999999))
    block = indexed_block()
    metrics.on_block_allocated(block)
    metrics.on_block_evicted(block)
    assert len(metrics.drain_events()) == 1


def test_drain_hands_over_at_once() -> None:
    metrics = collector(FakeClock(), 0.0, 0.0)
    for block in (indexed_block(1), indexed_block(2)):
        metrics.on_block_allocated(block)
        metrics.on_block_evicted(block)
    assert len(metrics.drain_events()) == 2
    assert metrics.drain_events() == []


def test_an_evicted_block_is_forgotten() -> None:
    metrics = collector(FakeClock(), 0.0, 0.9)
    block = indexed_block()
    metrics.on_block_allocated(block)
    metrics.on_block_evicted(block)
    metrics.on_block_evicted(block)
    assert len(metrics.drain_events()) == 1
    metrics.on_block_allocated(block)
    metrics.on_block_evicted(block)
    assert metrics.drain_events() == []


def test_a_block_never_indexed_is_reported_apart() -> None:
    clock = FakeClock()
    metrics = collector(clock, 0.0, 0.0)
    blank, indexed = KVCacheBlock(1), indexed_block(2)
    metrics.on_block_allocated(blank)
    metrics.on_block_allocated(indexed)
    clock.advance(2)
    metrics.on_block_evicted(blank)
    clock.advance(1)
    metrics.on_block_evicted(indexed)
    assert [event.lifetime_seconds for event in metrics.drain_events()] == [3.0]
    assert [event.lifetime_seconds for event in metrics.drain_recycled()] == [2.0]
    assert metrics.drain_recycled() == []


def test_reset_forgets_everything() -> None:
    metrics = collector(FakeClock(), 0.0, 0.0, 0.0)
    living, evicted, recycled = indexed_block(1), indexed_block(2), KVCacheBlock(3)
    for block in (living, evicted, recycled):
        metrics.on_block_allocated(block)
    metrics.on_block_evicted(evicted)
    metrics.on_block_evicted(recycled)
    metrics.reset()
    metrics.on_block_evicted(living)
    assert metrics.drain_events() == []
    assert metrics.drain_recycled() == []


def test_an_unsampled_block_costs_nothing_on_access() -> None:
    clock = FakeClock()
    metrics = collector(clock, 0.9)
    block = indexed_block()
    metrics.on_block_allocated(block)
    metrics.on_block_accessed(block)
    metrics.on_block_evicted(block)
    assert metrics.drain_events() == []
    assert metrics.drain_recycled() == []


@pytest.mark.parametrize("rate", [0, 0.0, -0.1, 1.0001, 2, float("nan"), float("inf")])
def test_the_rate_is_above_zero_and_at_most_one(rate: float) -> None:
    with pytest.raises(ConfigError) as caught:
        KVCacheMetricsCollector(rate)
    assert type(caught.value) is ConfigError
    assert caught.value.field == "sample_rate"


@pytest.mark.parametrize("rate", ["0.5", None, [0.5]])
def test_the_rate_is_a_number(rate: object) -> None:
    with pytest.raises(ArgumentError):
        KVCacheMetricsCollector(rate)  # type: ignore[arg-type]


@pytest.mark.parametrize("source", [{"clock": 5}, {"random": "random"}])
def test_sources_are_callables(source: dict[str, object]) -> None:
    with pytest.raises(ArgumentError):
        KVCacheMetricsCollector(0.5, **source)  # type: ignore[arg-type]


def test_the_default_rate_and_clock() -> None:
    assert KVCacheMetricsCollector().sample_rate == 0.01
    metrics = KVCacheMetricsCollector(1.0)
    block = indexed_block()
    before = time.monotonic_ns()
    metrics.on_block_allocated(block)
    metrics.on_block_evicted(block)
    (event,) = metrics.drain_events()
    assert 0 <= event.lifetime_seconds <= (time.monotonic_ns() - before) / 1e9


def test_eviction_events_compare_by_value() -> None:
    assert Eviction(1.0, 2.0, (3.0,)) == Eviction(1.0, 2.0, (3.0,))
    assert Eviction(1.0, 2.0, (3.0,)) != Eviction(1.0, 2.0, ())
    assert Eviction(1.0, 2.0, (3.0,)) != Eviction(1.0, 2.5, (3.0,))


def test_through_the_pool_a_life_of_one_block() -> None:
    clock = FakeClock()
    metrics = KVCacheMetricsCollector(1.0, clock=clock, random=lambda: 0.5)
    pool = BlockPool(2, True, 4, metrics_collector=metrics)
    blocks, _ = cache_chain(pool, "a")
    clock.advance(1)
    pool.free_blocks(blocks)
    clock.advance(1)
    pool.touch(blocks)
    clock.advance(1)
    pool.touch(blocks)
    pool.free_blocks(blocks * 2)
    clock.advance(5)
    assert metrics.drain_events() == []
    pool.get_new_blocks(1)
    assert metrics.drain_events() == [Eviction(8.0, 5.0, (1.0,))]
    assert metrics.drain_recycled() == []


def test_through_the_pool_a_blank_block_is_recycled_not_evicted() -> None:
    clock = FakeClock()
    metrics = KVCacheMetricsCollector(1.0, clock=clock, random=lambda: 0.5)
    pool = BlockPool(2, True, 4, metrics_collector=metrics)
    blocks = pool.get_new_blocks(1)
    clock.advance(2)
    pool.free_blocks(blocks)
    pool.get_new_blocks(1)
    assert metrics.drain_events() == []
    assert metrics.drain_recycled() == [Eviction(2.0, 2.0, ())]


def test_through_the_pool_reset_forgets() -> None:
    metrics = KVCacheMetricsCollector(1.0, clock=FakeClock(), random=lambda: 0.5)
    pool = BlockPool(3, True, 4, metrics_collector=metrics)
    blocks, _ = cache_chain(pool, "ab")
    pool.free_blocks(blocks)
    assert pool.reset_prefix_cache() is True
    pool.get_new_blocks(2)
    assert metrics.drain_events() == []
    assert metrics.drain_recycled() == []


def test_through_the_pool_evict_blocks_ends_a_residency() -> None:
    clock = FakeClock()
    metrics = KVCacheMetricsCollector(1.0, clock=clock, random=lambda: 0.5)
    pool = BlockPool(3, True, 4, metrics_collector=metrics)
    blocks, _ = cache_chain(pool, "ab")
    clock.advance(1)
    pool.evict_blocks({blocks[0].block_id})
    assert metrics.drain_events() == [Eviction(1.0, 1.0, ())]

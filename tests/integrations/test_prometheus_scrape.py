"""A scrape touches no pool, and sees whole steps only."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from blockpool import BlockPool
from blockpool.integrations.prometheus import PoolCollector, PoolMetrics

from .support import INSIDE, LABELS, Engine, Server, samples_of, scrape, shown


class Guarded:
    """Stands before an object: whoever touches it in a thread other than the first fails."""

    def __init__(self, inner: object) -> None:
        self.__dict__["inner"], self.__dict__["owner"] = inner, threading.get_ident()

    def __getattr__(self, name: str) -> Any:
        if threading.get_ident() != self.__dict__["owner"]:
            raise AssertionError(f"{name} was touched by a scrape")
        return getattr(self.__dict__["inner"], name)


def test_a_scrape_touches_neither_pool_nor_manager_nor_publisher(
    engine: Engine, registry: CollectorRegistry
) -> None:
    shown(engine, registry)
    metrics = engine.metrics
    for name in ("_pool", "_manager", "_publisher"):
        setattr(metrics, name, Guarded(getattr(metrics, name)))
    engine.run(0, 20)  # goes through the guards, in this thread
    pool = metrics._pool
    refused: list[str] = []

    def touch() -> None:
        try:
            pool.get_usage()
        except AssertionError as error:
            refused.append(str(error))

    with Server(registry) as server:
        thread = threading.Thread(target=touch)
        thread.start()
        thread.join()
        assert refused == ["get_usage was touched by a scrape"]
        assert samples_of(server.get()[1])[f"blockpool:prefix_cache_queries_total{{{INSIDE}}}"] == 20


def test_a_scrape_in_the_middle_of_a_call_shows_the_last_snapshot(registry: CollectorRegistry) -> None:
    """The pool stands still half-way through an allocation, its counts in disorder, while a scrape is answered."""
    inside, go_on = threading.Event(), threading.Event()

    class SlowHooks:
        def on_block_allocated(self, block: Any) -> None:
            inside.set()
            assert go_on.wait(30)

        def on_block_accessed(self, block: Any) -> None: ...
        def on_block_evicted(self, block: Any) -> None: ...
        def reset(self) -> None: ...

    pool = BlockPool(11, True, 4, metrics_collector=SlowHooks())
    metrics = PoolMetrics(pool)
    PoolCollector(registry=registry).add(metrics, LABELS)
    with Server(registry) as server:
        before = server.get()[1]
        thread = threading.Thread(target=pool.get_new_blocks, args=(5,))
        thread.start()
        assert inside.wait(30)
        during = server.get()[1]
        go_on.set()
        thread.join()
        assert during == before == server.get()[1]
        metrics.update()
        assert samples_of(server.get()[1])[f'blockpool:kv_blocks{{{INSIDE},state="in_use"}}'] == 5


def test_scrapes_see_whole_steps_while_the_engine_runs(registry: CollectorRegistry) -> None:
    """States always add up, and counters never go back, whatever a scrape meets."""
    pool = BlockPool(101, True, 4)
    metrics = PoolMetrics(pool)
    PoolCollector(registry=registry).add(metrics, LABELS)
    seen: list[dict[str, float]] = []
    failed: list[Exception] = []

    def look() -> None:
        try:
            for _ in range(200):
                seen.append(scrape(registry))
        except Exception as error:
            failed.append(error)

    thread = threading.Thread(target=look)
    thread.start()
    steps = 0
    while thread.is_alive():
        blocks = pool.get_new_blocks(1 + steps % 100)
        metrics.update()
        pool.free_blocks(blocks)
        steps += 1
    assert not failed
    assert len(seen) == 200
    updates = 0.0
    for found in seen:
        states = [value for name, value in found.items() if name.startswith("blockpool:kv_blocks{")]
        assert sum(states) == 100
        usage = found[f"blockpool:kv_cache_usage_perc{{{INSIDE}}}"]
        assert usage == pytest.approx(found[f'blockpool:kv_blocks{{{INSIDE},state="in_use"}}'] / 100)
        assert found[f"blockpool:metrics_updates_total{{{INSIDE}}}"] >= updates
        updates = found[f"blockpool:metrics_updates_total{{{INSIDE}}}"]

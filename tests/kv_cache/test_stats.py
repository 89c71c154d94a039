"""Statistics: once per request, when it is admitted; resumed ones apart (faults that people met, number 10)."""

from __future__ import annotations

from blockpool.kv_cache import PrefixCacheStats

from .support import admit, decode, full, make_manager, make_request, run_once


def test_a_request_that_waits_is_admitted_is_preempted_and_resumes() -> None:
    manager = make_manager(full(16), num_blocks=6, log_stats=True)
    run_once(manager, range(32))
    manager.make_prefix_cache_stats()
    holder = make_request("holder", range(1000, 1040), manager)
    admit(manager, holder)
    request = make_request("a", range(64), manager)
    for _ in range(3):
        assert manager.get_computed_blocks(request)[1] == 32
        assert admit(manager, request) is None
    assert manager.make_prefix_cache_stats() == PrefixCacheStats(requests=1, queries=40, hits=0)
    manager.free(holder)
    assert admit(manager, request) is not None
    assert decode(manager, request) is not None
    assert manager.make_prefix_cache_stats() == PrefixCacheStats(requests=1, queries=64, hits=32)
    manager.free(request)
    request.preempt()
    assert admit(manager, request) is not None
    assert manager.make_prefix_cache_stats() == PrefixCacheStats(
        preempted_requests=1, preempted_queries=65, preempted_hits=64
    )


def test_a_reset_is_noted_once() -> None:
    manager = make_manager(full(4), log_stats=True)
    request = make_request("a", range(9), manager)
    admit(manager, request)
    assert not manager.reset_prefix_cache()
    stats = manager.make_prefix_cache_stats()
    assert stats is not None
    assert not stats.reset
    manager.free(request)
    assert manager.reset_prefix_cache()
    assert manager.make_prefix_cache_stats() == PrefixCacheStats(reset=True)
    assert manager.make_prefix_cache_stats() == PrefixCacheStats()


def test_without_statistics() -> None:
    manager = make_manager(full(4))
    run_once(manager, range(9))
    assert manager.reset_prefix_cache()
    assert manager.make_prefix_cache_stats() is None

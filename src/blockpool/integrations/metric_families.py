"""`FAMILIES`: what is shown of a pool: names, kinds, explanations, and where in a snapshot the numbers stand."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from blockpool.core.occupancy import Occupancy
from blockpool.integrations.bucket_counts import BucketCounts
from blockpool.integrations.pool_snapshot import PoolSnapshot, PrefixCacheTotals, Residency

if TYPE_CHECKING:
    from blockpool.events.publisher import PublisherStats

Reading: TypeAlias = float | Occupancy | BucketCounts | None
"""A number, numbers by state, a histogram; None when the pool has nothing to say."""
STATE_LABEL: Final = "state"


class MetricFamily(NamedTuple):
    """One name.

    Attributes:
        name: Without prefix, and without the `_total` of counters.
        kind: How Prometheus is to take it.
        documentation: The help text.
        read: Finds it in a snapshot.
        has_states: Whether there is one number per state of a block, under the label `state`.
    """

    name: str
    kind: Literal["gauge", "counter", "histogram"]
    documentation: str
    read: Callable[[PoolSnapshot], Reading]
    has_states: bool = False


def _prefix_cache(read: Callable[[PrefixCacheTotals], int]) -> Callable[[PoolSnapshot], Reading]:
    return lambda snapshot: None if snapshot.prefix_cache is None else read(snapshot.prefix_cache)


def _evicted(read: Callable[[Residency], BucketCounts]) -> Callable[[PoolSnapshot], Reading]:
    return lambda snapshot: None if snapshot.evicted is None else read(snapshot.evicted)


def _recycled(read: Callable[[Residency], BucketCounts]) -> Callable[[PoolSnapshot], Reading]:
    return lambda snapshot: None if snapshot.recycled is None else read(snapshot.recycled)


def _publisher(read: Callable[[PublisherStats], int]) -> Callable[[PoolSnapshot], Reading]:
    return lambda snapshot: None if snapshot.publisher is None else read(snapshot.publisher)


VLLM_FAMILIES: Final = (
    MetricFamily(
        "kv_cache_usage_perc",
        "gauge",
        "Share of the KV cache blocks that requests hold, 0 to 1. Idle cached blocks are not held.",
        lambda snapshot: snapshot.usage,
    ),
    MetricFamily(
        "prefix_cache_queries",
        "counter",
        "Tokens of admitted requests, for which the prefix cache was asked.",
        _prefix_cache(lambda totals: totals.queries),
    ),
    MetricFamily(
        "prefix_cache_hits",
        "counter",
        "Tokens of admitted requests that the prefix cache had.",
        _prefix_cache(lambda totals: totals.hits),
    ),
    MetricFamily(
        "kv_block_lifetime_seconds",
        "histogram",
        "From allocation to eviction of a cached block. Sampled.",
        _evicted(lambda residency: residency.lifetime),
    ),
    MetricFamily(
        "kv_block_idle_before_evict_seconds",
        "histogram",
        "From the last use to eviction of a cached block. Sampled.",
        _evicted(lambda residency: residency.idle),
    ),
    MetricFamily(
        "kv_block_reuse_gap_seconds",
        "histogram",
        "Between the last uses of a cached block that was evicted. Sampled.",
        _evicted(lambda residency: residency.reuse_gap),
    ),
)
"""Of vLLM's names, with vLLM's meanings but for what docs/metrics.md says."""

OWN_FAMILIES: Final = (
    MetricFamily(
        "kv_blocks",
        "gauge",
        "Usable KV cache blocks by state: held by requests, idle with content that can be found, or blank.",
        lambda snapshot: snapshot.occupancy,
        has_states=True,
    ),
    MetricFamily(
        "kv_block_evictions",
        "counter",
        "Blocks whose content was dropped from the prefix index, without resets of the whole.",
        lambda snapshot: snapshot.num_evictions,
    ),
    MetricFamily(
        "prefix_index_hashes",
        "gauge",
        "Different block hashes in the prefix index, all groups together.",
        lambda snapshot: snapshot.num_hashes,
    ),
    MetricFamily(
        "prefix_index_duplicate_blocks",
        "gauge",
        "Blocks in the prefix index beside another block of the same hash and group.",
        lambda snapshot: snapshot.num_duplicates,
    ),
    MetricFamily(
        "prefix_cache_requests",
        "counter",
        "Requests admitted for the first time.",
        _prefix_cache(lambda totals: totals.requests),
    ),
    MetricFamily(
        "preempted_prefix_cache_requests",
        "counter",
        "Requests admitted again after a preemption.",
        _prefix_cache(lambda totals: totals.preempted_requests),
    ),
    MetricFamily(
        "preempted_prefix_cache_queries",
        "counter",
        "Tokens of requests admitted again, for which the prefix cache was asked.",
        _prefix_cache(lambda totals: totals.preempted_queries),
    ),
    MetricFamily(
        "preempted_prefix_cache_hits",
        "counter",
        "Tokens of requests admitted again that the prefix cache had.",
        _prefix_cache(lambda totals: totals.preempted_hits),
    ),
    MetricFamily(
        "kv_block_recycled_lifetime_seconds",
        "histogram",
        "From allocation to the next allocation of a block that was never cached. Sampled.",
        _recycled(lambda residency: residency.lifetime),
    ),
    MetricFamily(
        "kv_block_recycled_idle_seconds",
        "histogram",
        "From the last use to the next allocation of a block that was never cached. Sampled.",
        _recycled(lambda residency: residency.idle),
    ),
    MetricFamily(
        "kv_event_queue_batches",
        "gauge",
        "Batches of KV cache events that wait to be sent.",
        _publisher(lambda stats: stats.num_waiting),
    ),
    MetricFamily(
        "kv_event_batches",
        "counter",
        "Batches of KV cache events given to the publisher.",
        _publisher(lambda stats: stats.num_batches),
    ),
    MetricFamily(
        "kv_event_dropped_batches",
        "counter",
        "Batches of KV cache events that were not sent because the queue was full or time ran out.",
        _publisher(lambda stats: stats.num_dropped),
    ),
    MetricFamily(
        "kv_event_failed_batches",
        "counter",
        "Batches of KV cache events that could not be written.",
        _publisher(lambda stats: stats.num_failed),
    ),
    MetricFamily(
        "metrics_updates",
        "counter",
        "Snapshots taken by the engine: a scrape shows the last one.",
        lambda snapshot: snapshot.num_updates,
    ),
)

FAMILIES: Final = (*VLLM_FAMILIES, *OWN_FAMILIES)

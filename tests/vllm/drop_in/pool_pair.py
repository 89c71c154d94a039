"""vLLM's own pool and the one that takes its place, side by side in one process: each call goes to both.

Blocks are named by their ids. After every call what it gave must be the same, and so must all that can be seen of the
pools: queue, counts, hashes, index, partial entries. Needs the whole of vLLM, which is imported when a pair is made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from blockpool.integrations.vllm.shown_results import has_gaps, only_hashes

from .pool_check import check_pool


@dataclass(frozen=True)
class PoolSetting:
    """What a pair is made for.

    Attributes:
        factor: Hashes per block.
        groups: Of the KV cache.
    """

    num_blocks: int
    hash_block_size: int
    factor: int
    groups: tuple[int, ...]
    events: bool
    metrics: bool
    caching: bool


@dataclass(frozen=True)
class Parts:
    """What a line of vLLM has of its own, and what takes its place."""

    own_pool: Any
    our_pool: Any
    own_look_up: Callable[..., Any]
    our_look_up: Callable[..., Any]
    collectors: tuple[Any, Any]
    is_new: bool


def load_parts() -> Parts:
    """Of the vLLM that is here; nothing of it is replaced."""
    import vllm.version
    from vllm.v1.core import block_pool, kv_cache_metrics, single_type_kv_cache_manager

    from blockpool.integrations.vllm import full_attention, metrics

    own_look_up = single_type_kv_cache_manager.FullAttentionManager.find_longest_cache_hit.__func__
    own_collector = kv_cache_metrics.KVCacheMetricsCollector
    is_new = not vllm.version.__version__.startswith("0.16.")
    our_pool: Any
    if is_new:
        from blockpool.integrations.vllm import pool_0_32

        our_pool, hit, ours = pool_0_32.BlockPool, full_attention.hit_0_32, own_collector
    else:
        from blockpool.integrations.vllm import pool_0_16

        our_pool, hit, ours = pool_0_16.BlockPool, full_attention.hit_0_16, metrics.KVCacheMetricsCollector
    our_look_up = full_attention.make_find_longest_cache_hit(own_look_up, hit)
    return Parts(block_pool.BlockPool, our_pool, own_look_up, our_look_up, (own_collector, ours), is_new)


def checked(parts: Parts) -> Parts:
    """The same, with what `BLOCKPOOL_VLLM=check` puts in place."""
    from blockpool.integrations.vllm.checked_pool import make_checked_look_up, make_checked_pool

    return Parts(
        parts.own_pool,
        make_checked_pool(parts.own_pool, parts.our_pool),
        parts.own_look_up,
        make_checked_look_up(parts.own_look_up, parts.our_look_up),
        (parts.collectors[0], parts.collectors[0]),
        parts.is_new,
    )


class Different(Exception):
    """The two pools differ. The text says where."""


class PoolPair:
    """The two pools.

    Attributes:
        pools: vLLM's own, and the one in its place.
        seen: How often each call was made, and what came of it.
    """

    def __init__(self, parts: Parts, setting: PoolSetting) -> None:
        self.parts = parts
        self.setting = setting
        self.seen: Counter[str] = Counter()
        self.pools: list[Any] = []
        self.collectors: list[Any] = []
        for pool, collector in zip((parts.own_pool, parts.our_pool), parts.collectors, strict=True):
            made = collector(1.0) if setting.metrics else None
            self.collectors.append(made)
            self.pools.append(
                pool(
                    setting.num_blocks,
                    setting.caching,
                    setting.hash_block_size,
                    enable_kv_cache_events=setting.events,
                    metrics_collector=made,
                )
            )

    def call(self, name: str, work: Callable[[Any], Any]) -> Any:
        """Does something to both pools and compares; what came of it, with ids for blocks.

        Args:
            work: Gets the pool.
        """
        self.seen[name] += 1
        theirs, ours = (_outcome(work, pool) for pool in self.pools)
        if theirs != ours:
            raise Different(f"{name}: vLLM gives {theirs!r}, ours {ours!r}")
        if isinstance(theirs, _Raised):
            self.seen[f"{name}: {theirs.kind}"] += 1
        self.compare(name)
        return theirs

    def look_up(self, hashes: Any, max_length: int, groups: list[int], spec: Any, **more: Any) -> Any:
        """The cached start of a prompt, from both."""
        functions = dict(
            zip(map(id, self.pools), (self.parts.own_look_up, self.parts.our_look_up), strict=True)
        )

        def work(pool: Any) -> Any:
            from vllm.v1.core.single_type_kv_cache_manager import FullAttentionManager

            find = functions[id(pool)]
            return find(
                FullAttentionManager,
                block_hashes=hashes,
                max_length=max_length,
                kv_cache_group_ids=groups,
                block_pool=pool,
                kv_cache_spec=spec,
                **more,
            )

        found = self.call("find_longest_cache_hit", work)
        self.seen["hits"] += bool(found[0][0] if self.parts.is_new else found[0])
        return found

    def take_events(self) -> None:
        """Both lists of events must be equal, but where 0.16 names tokens of null blocks."""
        self.seen["take_events"] += 1
        theirs, ours = (pool.take_events() for pool in self.pools)
        self.seen["events"] += len(theirs)
        if theirs != ours and not self.parts.is_new and has_gaps(theirs):
            theirs, ours = only_hashes(theirs), only_hashes(ours)
        if theirs != ours:
            raise Different(f"take_events: vLLM gives {theirs!r}, ours {ours!r}")

    def compare(self, name: str) -> None:
        """All that can be seen of the pools."""
        theirs, ours = map(self._state, self.pools)
        for what, value in theirs.items():
            if value != ours[what]:
                raise Different(f"{name}: {what}: vLLM has {value!r}, ours {ours[what]!r}")
        for collector in self.collectors[: 2 if self.setting.metrics else 0]:
            followed = sorted(collector.block_metrics)
            if followed != sorted(self.collectors[0].block_metrics):
                raise Different(f"{name}: the collectors follow different blocks")
        check_pool(self.pools[1])

    def _state(self, pool: Any) -> dict[str, Any]:
        index = {
            key: list(entry) if isinstance(entry, dict) else [entry.block_id]
            for key, entry in pool.cached_block_hash_to_block._cache.items()
        }
        drifts = not self.parts.is_new  # the count of 0.16's null block
        return {
            "free queue": [block.block_id for block in pool.free_block_queue.get_all_free_blocks()],
            "number of free blocks": (pool.get_num_free_blocks(), pool.get_usage()),
            "blocks": [
                (
                    (drifts and block.is_null) or block.ref_cnt,
                    block.block_hash,
                    getattr(block, "block_hash_num_tokens", None),
                )
                for block in pool.blocks
            ],
            "index": index,
            "partial entries": getattr(pool, "cached_block_hashes_by_block", None),
            "watched": sorted(getattr(pool, "_reuse_watchers", ())),
        }


@dataclass(frozen=True)
class _Raised:
    kind: str


def _outcome(work: Callable[[Any], Any], pool: Any) -> Any:
    try:
        return _named(work(pool))
    except (AssertionError, RuntimeError, ValueError) as error:
        for kind in (ValueError, AssertionError, RuntimeError):
            if isinstance(error, kind):
                return _Raised(kind.__name__)
        raise


def _named(value: Any) -> Any:
    """Ids in the place of blocks."""
    if isinstance(value, (list, tuple)):
        return [_named(one) for one in value]
    return getattr(value, "block_id", value)

"""`KVCacheManager`: what a scheduler talks to. Names and meanings are those of vLLM 0.16."""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

from blockpool.core.arguments import as_bool, as_size
from blockpool.core.event_log import EventLog
from blockpool.core.events import KVCacheEvent
from blockpool.core.pool import BlockPool
from blockpool.core.refusals import cannot_copy
from blockpool.core.types import BoolArg, IntArg, MetricsCollector, StrArg
from blockpool.errors import ArgumentError, ConfigError
from blockpool.kv_cache.admission import (
    checked_hits,
    looked_up,
    num_preemptions_to_count,
    num_wanted,
    require_room,
)
from blockpool.kv_cache.blocks import KVCacheBlocks, empty_blocks
from blockpool.kv_cache.checks import as_id, as_num_tokens, as_request_id
from blockpool.kv_cache.config import KVCacheConfig
from blockpool.kv_cache.coordinator import KVCacheCoordinator
from blockpool.kv_cache.demand import ZERO, Demand
from blockpool.kv_cache.found_hit import FoundHit
from blockpool.kv_cache.outlook import Outlook, has_all, require_same, require_slots
from blockpool.kv_cache.prefix_cache_stats import PrefixCacheStats
from blockpool.kv_cache.setup_coordinator import make_coordinator
from blockpool.kv_cache.sizing import max_blocks_per_request
from blockpool.kv_cache.types import BlockGroupsArg, BlocksArg, RequestArg


@final
class KVCacheManager:
    """The block tables of all running requests. One thread at a time.

    A call that raises, and an `allocate_slots` that returns None, has changed nothing.

    Args:
        kv_cache_config: The blocks, and the groups of layers that share them.
        max_model_len: Tokens that a request can have at most; slots beyond it are never needed.
        hash_block_size: Tokens per entry of a request's `block_hashes`; it divides every group's block size.
        enable_caching: Whether what was computed once is found again.
        use_eagle: Whether the last block found is computed again, because a draft model needs its hidden states.
        log_stats: Whether `make_prefix_cache_stats` has something to tell.
        enable_kv_cache_events: Whether changes of the prefix index are noted for `take_events`.
        dcp_world_size: Ranks of decode context parallelism. Above 1 only with a single group of full attention.
        pcp_world_size: Ranks of prefill context parallelism. Likewise.
        metrics_collector: See `BlockPool`.
        reuse_uncached_first: See `BlockPool`, as for all that follow.
        self_check: Likewise.
        int_block_hashes: Likewise.
        event_granularity: Likewise.
        batch_removes: Likewise.
        fingerprint: Likewise.

    Attributes:
        block_pool: The pool. For reading; a scheduler takes and frees blocks through the manager.
        coordinator: The managers of all groups.
        empty_kv_cache_blocks: No blocks. What is returned when there are none.
        prefix_cache_stats: The counts so far, None without `log_stats`.
        metrics_collector: As given. The pool has its own reference: setting this one changes nothing.

    Raises:
        ArgumentError: For an argument of the wrong type.
        ConfigError: For numbers that do not fit together: a hash block size that does not divide, and, with caching, a
            group with which nothing can ever hit.

    Logs:
        A warning when block sizes are such that short prompts cannot hit, or none can; it says how short.
    """

    def __init__(
        self,
        kv_cache_config: KVCacheConfig,
        max_model_len: IntArg,
        hash_block_size: IntArg,
        enable_caching: BoolArg = True,
        use_eagle: BoolArg = False,
        log_stats: BoolArg = False,
        enable_kv_cache_events: BoolArg = False,
        dcp_world_size: IntArg = 1,
        pcp_world_size: IntArg = 1,
        metrics_collector: MetricsCollector | None = None,
        *,
        reuse_uncached_first: BoolArg = False,
        self_check: BoolArg = False,
        int_block_hashes: BoolArg = True,
        event_granularity: StrArg = "every_copy",
        batch_removes: BoolArg = False,
        fingerprint: StrArg | None = None,
    ) -> None:
        if not isinstance(kv_cache_config, KVCacheConfig):
            raise ArgumentError("kv_cache_config", kv_cache_config, "a KVCacheConfig is needed")
        self.kv_cache_config: KVCacheConfig = kv_cache_config
        self.max_model_len: int = as_size("max_model_len", as_num_tokens("max_model_len", max_model_len))
        self.enable_caching: bool = as_bool("enable_caching", enable_caching)
        self.use_eagle: bool = as_bool("use_eagle", use_eagle)
        self.log_stats: bool = as_bool("log_stats", log_stats)
        self._num_ranks: int = as_size("dcp_world_size", dcp_world_size) * as_size(
            "pcp_world_size", pcp_world_size
        )
        self.block_pool: BlockPool = BlockPool(
            kv_cache_config.num_blocks,
            self.enable_caching,
            hash_block_size,
            enable_kv_cache_events,
            metrics_collector,
            reuse_uncached_first=reuse_uncached_first,
            self_check=self_check,
            int_block_hashes=int_block_hashes,
            event_granularity=event_granularity,
            batch_removes=batch_removes,
            fingerprint=fingerprint,
        )
        self.coordinator: KVCacheCoordinator = make_coordinator(
            kv_cache_config, self.block_pool, self.max_model_len, self.use_eagle, self._num_ranks
        )
        self.num_kv_cache_groups: int = len(kv_cache_config.kv_cache_groups)
        self.empty_kv_cache_blocks: KVCacheBlocks = empty_blocks(self.num_kv_cache_groups)
        self._found: FoundHit | None = None
        self.metrics_collector: MetricsCollector | None = metrics_collector
        self.prefix_cache_stats: PrefixCacheStats | None = PrefixCacheStats() if self.log_stats else None

    def __reduce_ex__(self, protocol: object) -> tuple[object, ...]:
        raise cannot_copy("KVCacheManager")

    def get_computed_blocks(self, request: RequestArg) -> tuple[KVCacheBlocks, int]:
        """Looks up how much of a new request's tokens has been computed before. Changes nothing, holds nothing.

        At least the last token is left to compute, for its logits. Nothing is looked up when caching is off or the
        request has `skip_reading_prefix_cache`.

        Returns:
            The blocks to pass to `allocate_slots`, before any other call that takes blocks; and the tokens in them.

        Raises:
            ArgumentError: For a request that lacks what is read.
        """
        num_tokens, block_hashes, skips = looked_up(request, self.enable_caching)
        if skips or num_tokens <= 1:
            return self.empty_kv_cache_blocks, 0
        found, length = self.coordinator.find_longest_cache_hit(block_hashes, num_tokens - 1)
        if length == 0:
            return self.empty_kv_cache_blocks, 0
        blocks = KVCacheBlocks(tuple([tuple(group) for group in found]))
        if isinstance(block_hashes, list):
            self._found = FoundHit(block_hashes, blocks, length, self.block_pool)
        return blocks, length

    def cache_blocks(self, request: RequestArg, num_computed_tokens: IntArg) -> None:
        """Indexes the blocks of a running request that its first tokens fill: after a transfer that was waited for.

        Nothing happens when caching is off.

        Args:
            request: The request.
            num_computed_tokens: Tokens whose KV is there.

        Raises:
            ArgumentError: For a request that lacks what is read.
            ConfigError: If the request has fewer slots, hashes or tokens, or is not the one that runs under its id.
        """
        request_id = as_request_id(request)
        num_tokens = as_num_tokens("num_computed_tokens", num_computed_tokens)
        if not self.enable_caching:
            return
        require_slots(self.coordinator.outlooks.get(request_id), request, request_id, num_tokens)
        self.coordinator.require_cacheable(request, self.empty_kv_cache_blocks.blocks, 0, num_tokens)
        self.coordinator.cache_blocks(request, num_tokens)

    def evict_blocks(self, block_ids: Iterable[int]) -> None:
        """Drops the hashes of these blocks, because their content is no good. See `BlockPool.evict_blocks`."""
        self.block_pool.evict_blocks(block_ids)

    def reset_prefix_cache(self) -> bool:
        """Forgets all that was computed, for new weights or a benchmark, if no request runs.

        Returns:
            True when it was done. False, after a warning, when blocks are in use: nothing has changed.
        """
        if not self.coordinator.reset_prefix_cache():
            return False
        if self.prefix_cache_stats is not None:
            self.prefix_cache_stats.reset = True
        return True

    def make_prefix_cache_stats(self) -> PrefixCacheStats | None:
        """Hands over the counts since the last call and starts new ones; None without `log_stats`."""
        stats = self.prefix_cache_stats
        if stats is not None:
            self.prefix_cache_stats = PrefixCacheStats()
        return stats

    def allocate_slots(
        self,
        request: RequestArg,
        num_new_tokens: IntArg,
        num_new_computed_tokens: IntArg = 0,
        new_computed_blocks: BlocksArg | None = None,
        num_lookahead_tokens: IntArg = 0,
        num_external_computed_tokens: IntArg = 0,
        delay_cache_blocks: BoolArg = False,
        num_encoder_tokens: IntArg = 0,
    ) -> KVCacheBlocks | None:
        """Gives a request blocks for the tokens of its next step, all or nothing.

        The tokens of a request, in order::

            | computed | new computed | external |  new  | lookahead |
                       | hits, held   |      given blocks            |
            |            indexed when full               |

        What attention no longer needs of the computed ones is freed first. Of the new tokens those beyond
        `request.num_tokens` are drafts and are not indexed.

        Args:
            request: The request; `num_computed_tokens` of it are computed.
            num_new_tokens: Tokens to compute; 0 only with external ones.
            num_new_computed_tokens: The hits of a new request, as `get_computed_blocks` returned them.
            new_computed_blocks: The blocks of the hits.
            num_lookahead_tokens: Slots for draft tokens beyond the new ones.
            num_external_computed_tokens: Tokens after the hits whose KV a connector brings. Only for a new request.
            delay_cache_blocks: Whether nothing is indexed yet, because the KV is still on its way; `cache_blocks` does
                it later.
            num_encoder_tokens: Tokens that cross attention looks at; 0 once the request has blocks for them.

        Returns:
            The new blocks, without the hits and those for external tokens; None when they do not fit now.

        Raises:
            ArgumentError: For an argument of the wrong type, and a request that lacks what is read.
            BlockStateError: If a computed block is of another pool or group, null where attention looks, or was
                recycled since it was looked up.
            ConfigError: For numbers that do not fit together; for a running request that comes with hits or external
                tokens, as if it were new; for another request under its id; for too few hashes.
            OutOfBlocksError: For a new request that the whole pool could not hold; `wanted` and `free` tell how much.

        Complexity:
            O(1) for a running request that needs no new block; else O(blocks that change hands).
        """
        if (
            new_computed_blocks is None
            and num_new_computed_tokens is ZERO
            and num_external_computed_tokens is ZERO
            and delay_cache_blocks is False
            and num_encoder_tokens is ZERO
            and has_all(self.coordinator.outlooks, request, num_new_tokens, num_lookahead_tokens)
        ):
            return self.empty_kv_cache_blocks
        demand = Demand(
            request,
            self.max_model_len,
            num_new_tokens,
            num_new_computed_tokens,
            num_lookahead_tokens,
            num_external_computed_tokens,
            num_encoder_tokens,
        )
        caches = not as_bool("delay_cache_blocks", delay_cache_blocks) and self.enable_caching
        coordinator = self.coordinator
        if new_computed_blocks is not None and not isinstance(new_computed_blocks, KVCacheBlocks):
            raise ArgumentError("new_computed_blocks", new_computed_blocks, "KVCacheBlocks are needed")
        outlook = coordinator.outlooks.get(demand.request_id)
        if outlook is None:
            return self._admit(request, demand, new_computed_blocks, caches)
        if demand.is_admission or (new_computed_blocks is not None and new_computed_blocks.any_blocks()):
            raise ConfigError("request_id", demand.request_id, "it runs already; this is for a new one")
        return self._grow(request, demand, outlook, caches)

    def free(self, request: RequestArg) -> None:
        """Gives all blocks of a request back, the last one first; they can be found until they are recycled.

        Nothing happens when the request has none: an abort may come early.

        Raises:
            ArgumentError: For a request without a `request_id`.
        """
        self.coordinator.free(as_request_id(request))

    def remove_skipped_blocks(self, request_id: StrArg, total_computed_tokens: IntArg) -> None:
        """Frees those blocks of a request that attention will not need once so many tokens are computed."""
        total = as_num_tokens("total_computed_tokens", total_computed_tokens)
        self.coordinator.remove_skipped_blocks(as_id("request_id", request_id), total)

    @property
    def usage(self) -> float:
        """Share of the blocks that are held, in [0, 1]. O(1)."""
        return self.block_pool.get_usage()

    @property
    def num_usable_blocks(self) -> int:
        """Blocks that requests can have: all but the null block and those of sinks."""
        return self.block_pool.num_gpu_blocks - 1 - self.coordinator.num_reserved_blocks()

    def get_blocks(self, request_id: StrArg) -> KVCacheBlocks:
        """The block tables of a request, copied; empty when it has none. O(blocks)."""
        return self.create_kv_cache_blocks(self.coordinator.get_blocks(as_id("request_id", request_id)))

    def get_block_ids(self, request_id: StrArg) -> tuple[list[int], ...]:
        """The block ids of a request, one list per group; 0 stands for what attention skips. O(blocks)."""
        return self.get_blocks(request_id).get_block_ids()

    def max_blocks_per_request(
        self,
        num_tokens: IntArg,
        max_num_batched_tokens: IntArg,
        num_lookahead_tokens: IntArg = 0,
        num_encoder_tokens: IntArg = 0,
    ) -> int:
        """See `sizing.max_blocks_per_request`. What needs more than `num_usable_blocks` had better be refused."""
        return max_blocks_per_request(
            self.kv_cache_config,
            num_tokens,
            max_num_batched_tokens,
            num_lookahead_tokens=num_lookahead_tokens,
            num_encoder_tokens=num_encoder_tokens,
            max_model_len=self.max_model_len,
            context_parallel_size=self._num_ranks,
        )

    def get_num_common_prefix_blocks(self, running_request_id: StrArg) -> list[int]:
        """Per group, how many blocks from the first on are shared by all requests that hold blocks.

        0 for attention types whose first blocks are not needed to the end, and while caching is off.

        Args:
            running_request_id: Any request that holds blocks.
        """
        return self.coordinator.get_num_common_prefix_blocks(as_id("running_request_id", running_request_id))

    def take_events(self) -> list[KVCacheEvent]:
        """Hands over the events since the last call. See `BlockPool.take_events`."""
        return self.block_pool.take_events()

    def take_event_log(self) -> EventLog:
        """Hands over the same as a log, cheaper and for another thread to read. See `BlockPool.take_event_log`."""
        return self.block_pool.take_event_log()

    def create_kv_cache_blocks(self, blocks: BlockGroupsArg) -> KVCacheBlocks:
        """Wraps the blocks of each group, a tuple of lists; `empty_kv_cache_blocks` when all are empty."""
        made = KVCacheBlocks(blocks)
        return made if made.any_blocks() else self.empty_kv_cache_blocks

    def _admit(
        self, request: RequestArg, demand: Demand, new_computed_blocks: KVCacheBlocks | None, caches: bool
    ) -> KVCacheBlocks | None:
        """`allocate_slots` of a new request."""
        coordinator = self.coordinator
        computed = checked_hits(coordinator, request, demand, new_computed_blocks, self._found)
        require_room(coordinator, demand, self.max_model_len, self.num_usable_blocks)
        if caches:
            coordinator.require_cacheable(request, computed, demand.total_computed, demand.num_to_cache)
        counted = num_preemptions_to_count(request) if self.log_stats and self.enable_caching else -1
        num_free = self.block_pool.get_num_free_blocks()
        at_most = coordinator.max_blocks(demand.num_slots, demand.num_encoder_tokens)
        if at_most > num_free and num_wanted(coordinator, demand, computed) > num_free:  # counting is O(hits)
            return None
        self._found = None
        new_blocks = coordinator.admit(request, demand, computed, caches)
        if counted >= 0 and self.prefix_cache_stats is not None:
            self.prefix_cache_stats.record(demand.num_request_tokens, demand.num_new_computed, counted > 0)
        return self.create_kv_cache_blocks(new_blocks)

    def _grow(
        self, request: RequestArg, demand: Demand, outlook: Outlook, caches: bool
    ) -> KVCacheBlocks | None:
        """`allocate_slots` of a running request. Does only what the outlook says is due."""
        require_same(outlook, request, demand)
        coordinator = self.coordinator
        empty = self.empty_kv_cache_blocks.blocks
        takes = demand.num_slots > outlook.num_slots or demand.num_encoder_tokens > 0
        fills = caches and demand.num_to_cache >= outlook.next_to_cache
        skips = demand.total_computed >= outlook.next_to_skip
        if not takes and not fills and not skips:
            return self.empty_kv_cache_blocks
        if fills:
            coordinator.require_cacheable(request, empty, demand.total_computed, demand.num_to_cache)
        num_lacking = 0
        if takes:
            num_lacking = num_wanted(coordinator, demand, empty) - self.block_pool.get_num_free_blocks()
        if num_lacking > 0:
            if not skips:
                return None
            if num_lacking > coordinator.num_freed_by_skipping(demand.request_id, demand.total_computed):
                return None
        if skips:
            coordinator.remove_skipped_blocks(demand.request_id, demand.total_computed)
        new_blocks = coordinator.lengthen(request, demand, takes, fills)
        return self.create_kv_cache_blocks(new_blocks) if takes else self.empty_kv_cache_blocks

"""`ManagedPool`: a pool behind a `KVCacheManager`, as the replays drive it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from blockpool.core.block import KVCacheBlock
from blockpool.core.pool import BlockPool
from blockpool.core.types import MetricsCollector
from blockpool.kv_cache.blocks import KVCacheBlocks
from blockpool.kv_cache.config import KVCacheConfig
from blockpool.kv_cache.manager import KVCacheManager
from blockpool.replay.attention.grammar import ALIGNED_MAMBA, AttentionPart
from blockpool.replay.attention.kv_groups import kv_cache_groups

_NO_LIMIT = 1 << 50  # tokens of a request; a trace has no longest one that is known before it ends


class Hit(NamedTuple):
    """What a look-up found.

    Attributes:
        num_tokens: Leading tokens that need not be computed, whole blocks.
        blocks: For the manager; opaque here.
    """

    num_tokens: int
    blocks: KVCacheBlocks


class ManagedRequest:
    """What `KVCacheManager` reads of a request.

    Attributes:
        request_id: Its name, of which there is one at a time.
        block_hashes: Of the full blocks that can be indexed, in order.
        num_tokens: As many as the call at hand is about.
        num_computed_tokens: Computed before it.
    """

    __slots__ = ("block_hashes", "num_computed_tokens", "num_tokens", "request_id")

    num_preemptions = 0  # for the manager's own statistics only, which are off
    skip_reading_prefix_cache = False
    all_token_ids: tuple[int, ...] = ()  # for events only, which are off
    lora_request = None

    def __init__(self, request_id: str, block_hashes: list[bytes]) -> None:
        self.request_id = request_id
        self.block_hashes = block_hashes
        self.num_tokens = 0
        self.num_computed_tokens = 0


class ManagedPool:
    """One pool, the groups that share it, and the calls that a scheduler makes.

    Attributes:
        manager: The manager.
        pool: Its pool.
        block_size: Tokens per block, of every group.
    """

    def __init__(
        self,
        blocks: int,
        parts: Sequence[AttentionPart],
        block_size: int,
        *,
        collector: MetricsCollector,
        reuse_uncached_first: bool,
    ) -> None:
        """Makes the pool, cold.

        Args:
            blocks: Usable blocks; the null block comes on top.
            parts: The groups.
            block_size: Tokens per block, at least 1.
            collector: See `BlockPool`.
            reuse_uncached_first: See `BlockPool`.
        """
        self.block_size = block_size
        self.manager = KVCacheManager(
            KVCacheConfig(blocks + 1, kv_cache_groups(parts, block_size)),
            _NO_LIMIT,
            block_size,
            metrics_collector=collector,
            reuse_uncached_first=reuse_uncached_first,
        )
        self.pool: BlockPool = self.manager.block_pool
        self.nothing = Hit(0, self.manager.empty_kv_cache_blocks)
        self._stops_at_blocks = any(part.kind == ALIGNED_MAMBA for part in parts)

    def look_up(self, request: ManagedRequest, num_tokens: int) -> Hit:
        """How much of a new request's first tokens, the last of which is to be computed, is there. Changes nothing."""
        request.num_tokens = num_tokens
        blocks, length = self.manager.get_computed_blocks(request)
        return Hit(length, blocks)

    def has_room(self, request: ManagedRequest, num_tokens: int, hit: Hit) -> bool:
        """Whether `extend` would find enough blocks for a new request."""
        wanted = self.manager.coordinator.get_num_blocks_to_allocate(
            request.request_id, num_tokens, hit.blocks.blocks, 0, hit.num_tokens, num_tokens
        )
        return wanted <= self.pool.get_num_free_blocks()

    def extend(
        self, request: ManagedRequest, start: int, num_tokens: int, hit: Hit | None = None
    ) -> KVCacheBlocks | None:
        """Makes the blocks of a request cover its first tokens, and indexes those that they fill.

        Args:
            request: It covers fewer.
            start: Tokens that are there when the step begins; of a new request, those of its hit.
            num_tokens: Computed when the step is done, more than `start`.
            hit: What `look_up` has just found, for a new request.

        Returns:
            The new blocks; None: there are not enough, and nothing has changed.
        """
        # What is not hashed, because nobody knows what was generated, cannot be indexed.
        request.num_tokens = len(request.block_hashes) * self.block_size
        if hit is None:
            request.num_computed_tokens = start
            return self.manager.allocate_slots(request, num_tokens - start)
        request.num_computed_tokens = 0
        return self.manager.allocate_slots(request, num_tokens - start, start, hit.blocks)

    def free(self, request: ManagedRequest) -> None:
        """Gives all blocks of a request back, group by group, tail first."""
        self.manager.free(request)

    def held_blocks(self, request: ManagedRequest) -> list[KVCacheBlock]:
        """The blocks that a request holds now, without null blocks. O(blocks)."""
        return self.without_null(self.manager.get_blocks(request.request_id))

    def without_null(self, blocks: KVCacheBlocks) -> list[KVCacheBlock]:
        """The blocks of all groups, without null blocks. O(blocks)."""
        null_block = self.pool.null_block
        return [block for table in blocks.blocks for block in table if block is not null_block]

    def step_tokens(self, computed: int, target: int, budget: int) -> int:
        """How many tokens of a prompt one step computes.

        All that there are and the budget allows; with states that are kept at the end of every step it ends where a
        block does, as in vLLM, as long as there is one.

        Args:
            computed: Tokens that are there already, fewer than `target`.
            target: Where the prompt ends.
            budget: The most, at least 1.

        Returns:
            0 when the budget does not reach the end of a block.
        """
        stop = min(target, computed + budget)
        if self._stops_at_blocks:
            last = target - target % self.block_size
            if stop < last:
                stop -= stop % self.block_size
            elif computed < last:
                stop = last
        return max(stop - computed, 0)

    def next_event(self, request: ManagedRequest, token: int) -> int:
        """The first token after `token` at which the manager must do something: take a block, index one, or free one.

        Args:
            request: It runs, and gets one token per step from now on.
            token: The last one that `extend` was told of.
        """
        outlook = self.manager.coordinator.outlooks[request.request_id]
        event = min(outlook.num_slots, outlook.next_to_skip) + 1
        if outlook.next_to_cache <= len(request.block_hashes) * self.block_size:
            event = min(event, outlook.next_to_cache)
        return max(event, token + 1)

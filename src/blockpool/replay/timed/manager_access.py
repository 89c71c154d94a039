"""`ManagerAccess`: the scheduler's way to the pool through `KVCacheManager`, for every attention type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from blockpool.core.block import KVCacheBlock
from blockpool.core.pool import BlockPool
from blockpool.kv_cache.blocks import KVCacheBlocks
from blockpool.replay.attention.block_sizes import block_size_for, require_block_size
from blockpool.replay.attention.grammar import ALIGNED_MAMBA, FULL, AttentionPart, parse_attention
from blockpool.replay.attention.kv_groups import blocks_needed
from blockpool.replay.attention.managed_pool import Hit, ManagedPool, ManagedRequest
from blockpool.replay.pool_run import POOL_BLOCK_SIZE
from blockpool.replay.settings import ENGINE_RULES, ReplaySettings
from blockpool.replay.timed.block_access import BlockAccess, Found
from blockpool.replay.timed.pool_access import PoolAccess
from blockpool.replay.timed.timed_request import TimedRequest
from blockpool.replay.timed.timed_statistics import TimedStatistics
from blockpool.trace.request import TraceRequest

FULL_ATTENTION = (AttentionPart(FULL, 0, 1),)


class ManagerAccess:
    """Engine rules, any attention; blocks of one size. See `BlockAccess`.

    Attributes:
        managed: The pool with its manager.
    """

    def __init__(
        self,
        blocks: int,
        settings: ReplaySettings,
        statistics: TimedStatistics,
        first: TraceRequest,
        *,
        step_tokens: int,
    ) -> None:
        """Makes the pool.

        Args:
            blocks: Usable blocks.
            settings: The attention, and how the pool recycles.
            statistics: Told by the pool what becomes of blocks.
            first: The first request: all others must have blocks of the same size.
            step_tokens: The most that one step computes.

        Raises:
            ConfigError: The blocks of the request are of unequal size; or states are kept at the ends of steps, to
                which this scheduler does not cut its steps.
        """
        self._attention = settings.attention
        self._parts = parse_attention(settings.attention)
        if any(part.kind == ALIGNED_MAMBA for part in self._parts):
            settings.require_full_attention("steps that end with blocks are not modelled with time; mamba is")
        self._step_tokens = step_tokens
        self._block_size = block_size_for(settings.attention, first)
        self._make_pool(blocks, settings, statistics)

    def _make_pool(self, blocks: int, settings: ReplaySettings, statistics: TimedStatistics) -> None:
        self._block_map = statistics.block_map
        self.managed = ManagedPool(
            blocks,
            self._parts,
            self._block_size,
            collector=statistics.collector,
            reuse_uncached_first=settings.reuse_uncached_first,
        )

    @property
    def pool(self) -> BlockPool:
        """See `BlockAccess`."""
        return self.managed.pool

    def num_blocks(self, request: TimedRequest) -> int:
        """See `BlockAccess`. That is for steps as large as they can be."""
        require_block_size(self._attention, request.request, self._block_size)
        return blocks_needed(
            self._parts, request.total_tokens, block_size=self._block_size, step_tokens=self._step_tokens
        )

    def look_up(self, request: TimedRequest) -> Found:
        """See `BlockAccess`."""
        request.managed = ManagedRequest(str(request.number), request.plan.keys)
        hit = self.managed.look_up(request.managed, self._look_up_tokens(request))
        return Found(hit.num_tokens // self.managed.block_size, hit)

    def is_resident(self, key: Any) -> bool:
        """See `BlockAccess`."""
        return self.pool.get_cached_block(key, [0]) is not None

    def has_room(self, request: TimedRequest, num_tokens: int, found: Found) -> bool:
        """See `BlockAccess`."""
        return self.managed.has_room(_managed(request), self._position(request, num_tokens), found.blocks)

    def admit(self, request: TimedRequest, num_tokens: int, found: Found) -> None:
        """See `BlockAccess`."""
        hit: Hit = found.blocks
        stop = self._position(request, num_tokens)
        new = self.managed.extend(_managed(request), hit.num_tokens, stop, hit)
        assert new is not None
        self._note_extended(request, [], new)

    def grow(self, request: TimedRequest, num_tokens: int) -> bool:
        """See `BlockAccess`."""
        # While it decodes, all but this token has been computed by the steps before.
        is_prefill = request.computed < request.prefill_target
        start = request.computed if is_prefill else num_tokens - 1
        before = [] if self._block_map is None else self.managed.held_blocks(_managed(request))
        new = self.managed.extend(_managed(request), start, num_tokens)
        if new is None:
            return False
        self._note_extended(request, before, new)
        return True

    def free(self, request: TimedRequest) -> None:
        """See `BlockAccess`."""
        managed = _managed(request)
        held = [] if self._block_map is None else self.managed.held_blocks(managed)
        self.managed.free(managed)
        if self._block_map is not None:
            self._block_map.note_changed(held)

    def next_event(self, request: TimedRequest, token: int) -> int:
        """See `BlockAccess`."""
        return min(self.managed.next_event(_managed(request), token), request.total_tokens)

    def next_change(self, request: TimedRequest) -> int:
        """See `BlockAccess`. Windows move with every token, so no two steps are taken to be equal."""
        return request.computed + 1

    def _look_up_tokens(self, request: TimedRequest) -> int:
        return request.prefill_target

    def _position(self, request: TimedRequest, num_tokens: int) -> int:
        """Where the manager puts the end of a request's first tokens."""
        return num_tokens

    def _note_extended(
        self, request: TimedRequest, before: Sequence[KVCacheBlock], new: KVCacheBlocks
    ) -> None:
        """Tells of a request that has got blocks and may have lost some of those that it held before."""
        if self._block_map is not None:
            self._block_map.note_handed_out(self.managed.without_null(new))
            self._block_map.note_changed(before)
            self._block_map.note_changed(self.managed.held_blocks(_managed(request)))


class FullAttentionAccess(ManagerAccess):
    """Engine rules, full attention; blocks of any sizes, and misses can be explained. See `BlockAccess`.

    The manager counts in equal blocks. As full attention never looks at positions, a request is told to it in blocks of
    its own: so many full ones, and one token of the next when that has begun.
    """

    def __init__(self, blocks: int, settings: ReplaySettings, statistics: TimedStatistics) -> None:
        self._parts = FULL_ATTENTION
        self._block_size = POOL_BLOCK_SIZE
        self._misses = statistics.misses
        self._make_pool(blocks, settings, statistics)

    def num_blocks(self, request: TimedRequest) -> int:
        """See `BlockAccess`."""
        return request.layout.blocks_for(request.total_tokens)

    def admit(self, request: TimedRequest, num_tokens: int, found: Found) -> None:
        """See `BlockAccess`."""
        hit: Hit = found.blocks
        stop = self._position(request, num_tokens)
        new = self.managed.extend(_managed(request), hit.num_tokens, stop, hit)
        assert new is not None
        self._note_reached(request, stop, num_indexed=0)
        if self._block_map is not None:
            self._block_map.note_handed_out(new.blocks[0])
            self._block_map.note_changed((*hit.blocks.blocks[0], *new.blocks[0]))

    def grow(self, request: TimedRequest, num_tokens: int) -> bool:
        """See `BlockAccess`."""
        stop = self._position(request, num_tokens)
        start = request.position
        if stop == start:
            return True
        new = self.managed.extend(_managed(request), start, stop)
        if new is None:
            return False
        self._note_reached(request, stop, num_indexed=start // self._block_size)
        if self._block_map is not None:
            self._block_map.note_handed_out(new.blocks[0])
            self._block_map.note_changed(new.blocks[0])
        return True

    def next_event(self, request: TimedRequest, token: int) -> int:
        """See `BlockAccess`."""
        return request.next_event(token, num_blocks=-(-request.position // self._block_size))

    def next_change(self, request: TimedRequest) -> int:
        """See `BlockAccess`."""
        return request.next_change(num_blocks=-(-request.position // self._block_size))

    def _look_up_tokens(self, request: TimedRequest) -> int:
        # One token more than what may be found is what there has to be.
        return request.layout.full_blocks(request.prefill_target - 1) * self._block_size + 1

    def _position(self, request: TimedRequest, num_tokens: int) -> int:
        num_full = request.layout.full_blocks(num_tokens)
        return num_full * self._block_size + (request.layout.blocks_for(num_tokens) > num_full)

    def _note_reached(self, request: TimedRequest, position: int, *, num_indexed: int) -> None:
        request.position = position
        if self._misses is not None:
            num_keys = len(request.plan.keys)
            first, stop = min(num_indexed, num_keys), min(position // self._block_size, num_keys)
            if stop > first:
                self._misses.note_indexed(request.request, request.plan, first, stop)


def access_for(
    blocks: int,
    settings: ReplaySettings,
    statistics: TimedStatistics,
    first: TraceRequest,
    *,
    step_tokens: int,
) -> BlockAccess:
    """The way to the pool that the settings ask for.

    Args:
        blocks: Usable blocks of the pool.
        settings: Trace rules go without a manager.
        statistics: Is told what happens to blocks.
        first: The first request, of whose block size all are.
        step_tokens: The most that one step computes.
    """
    if settings.rules != ENGINE_RULES:
        return PoolAccess(blocks, settings, statistics)
    if settings.is_full_attention:
        return FullAttentionAccess(blocks, settings, statistics)
    return ManagerAccess(blocks, settings, statistics, first, step_tokens=step_tokens)


def _managed(request: TimedRequest) -> ManagedRequest:
    return cast(ManagedRequest, request.managed)

"""`ManagerRun`: a `PoolRun` whose requests go through `KVCacheManager`, for every attention type."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from blockpool.core.block import KVCacheBlock
from blockpool.core.pool import BlockPool
from blockpool.core.types import MetricsCollector
from blockpool.kv_cache.blocks import KVCacheBlocks
from blockpool.replay.attention.block_sizes import block_size_for, require_block_size
from blockpool.replay.attention.grammar import parse_attention
from blockpool.replay.attention.kv_groups import blocks_needed
from blockpool.replay.attention.managed_pool import Hit, ManagedPool, ManagedRequest
from blockpool.replay.pool_run import PoolRun
from blockpool.replay.rules import RequestPlan, computed_tokens
from blockpool.replay.settings import DEFAULT_STEP_TOKENS, ReplaySettings
from blockpool.trace.request import TraceRequest


class ManagerRun(PoolRun):
    """Plays requests one after the other, by engine rules, each as a scheduler would that has nothing else to do.

    A prompt is computed in steps of at most `step_tokens`, then the output token by token, as far as the trace has it;
    windows and states move on with it, and what they leave behind is free for the rest.

    Attributes:
        managed: The pool with its manager.
    """

    managed: ManagedPool

    def __init__(
        self,
        blocks: int,
        settings: ReplaySettings,
        first: TraceRequest,
        *,
        pictures: bool = False,
        step_tokens: int = DEFAULT_STEP_TOKENS,
    ) -> None:
        """Makes the pool.

        Args:
            blocks: Usable blocks, 1 … 100,000,000, shared by all groups.
            settings: Rules are those of an engine.
            first: The first request: all others must have blocks of the same size.
            pictures: Collect what only a report draws, too.
            step_tokens: Tokens of a prompt that one step computes, at least 1.

        Raises:
            ConfigError: `blocks` is out of range, or the blocks of the request are of unequal size.
        """
        self._attention = settings.attention
        self._parts = parse_attention(settings.attention)
        self._block_size = block_size_for(settings.attention, first)
        self._step_tokens = max(step_tokens, self._block_size)
        super().__init__(blocks, settings, pictures=pictures)

    def _make_pool(self, collector: MetricsCollector) -> BlockPool:
        self.managed = ManagedPool(
            self._blocks,
            self._parts,
            self._block_size,
            collector=collector,
            reuse_uncached_first=self._settings.reuse_uncached_first,
        )
        return self.managed.pool

    def _plan(self, request: TraceRequest) -> RequestPlan:
        require_block_size(self._attention, request, self._block_size)
        needed = blocks_needed(
            self._parts,
            computed_tokens(request),
            block_size=self._block_size,
            step_tokens=self._step_tokens,
        )
        return super()._plan(request)._replace(num_blocks=needed)

    def _play_plan(self, request: TraceRequest, plan: RequestPlan) -> int:
        managed = self.managed
        running = ManagedRequest(str(self._requests_seen), plan.keys)
        hit = managed.look_up(running, request.prompt_tokens)
        new_blocks = self._compute(running, hit, request.prompt_tokens, computed_tokens(request))
        held = [] if self._block_map is None else managed.held_blocks(running)
        self._note_held(request, new_blocks, held)
        managed.free(running)
        num_hits = hit.num_tokens // self._block_size
        self._note_played(request, plan, num_hits)
        return num_hits

    def _compute(
        self, running: ManagedRequest, hit: Hit, prompt_tokens: int, num_tokens: int
    ) -> list[KVCacheBlock]:
        """All steps of a request. Returns the blocks that it was given, if anybody wants to know."""
        managed = self.managed
        given: list[KVCacheBlock] = []
        new_hit: Hit | None = hit
        token = hit.num_tokens
        while token < num_tokens:
            if token < prompt_tokens:
                start = token
                token += managed.step_tokens(token, prompt_tokens, self._step_tokens)
            else:
                # Between two events decoding is nothing but counting.
                token = min(managed.next_event(running, token), num_tokens)
                start = token - 1
            self._note_given(given, managed.extend(running, start, token, new_hit))
            new_hit = None
        return given

    def _note_given(self, given: list[KVCacheBlock], new: KVCacheBlocks | None) -> None:
        assert new is not None, "blocks_needed says that a request that is alone fits"
        if self._block_map is not None:
            given += self.managed.without_null(new)


def start_run(
    requests: Iterator[TraceRequest],
    blocks: int,
    settings: ReplaySettings,
    *,
    pictures: bool = False,
    step_tokens: int = DEFAULT_STEP_TOKENS,
) -> tuple[PoolRun, Iterator[TraceRequest]]:
    """The run that the settings ask for, and the requests to play on it: all, though the first may have been read.

    Args:
        requests: At least one.
        blocks: Usable blocks.
        settings: Say which attention.
        pictures: Collect what only a report draws, too.
        step_tokens: As for `ManagerRun`.

    Raises:
        ConfigError: As `PoolRun` and `ManagerRun` do.
        TraceError, OSError: As reading the first request does.
    """
    if settings.is_full_attention:
        return PoolRun(blocks, settings, pictures=pictures), requests
    first = next(requests)
    run = ManagerRun(blocks, settings, first, pictures=pictures, step_tokens=step_tokens)
    return run, chain([first], requests)

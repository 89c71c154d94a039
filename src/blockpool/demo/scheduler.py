"""A scheduler on `KVCacheManager`: continuous batching, chunked prefill, prefix caching, preemption.

This is the whole of what an engine needs around the manager. A step goes: `schedule` says which tokens are computed now
and has their blocks ready, the engine computes them, `update` takes the results. The manager is asked four things:

* `get_computed_blocks(request)`: which blocks of a new request are in the cache already?
* `allocate_slots(request, n, ...)`: blocks for its next n tokens, all or nothing;
* `get_block_ids(request_id)`: its block table, for the engine;
* `free(request)`: its blocks go back, still to be found by others until they are recycled.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from blockpool.demo.arithmetic import Floats
from blockpool.demo.request import EngineRequest
from blockpool.kv_cache import KVCacheBlocks, KVCacheManager


class Chunk(NamedTuple):
    """What a step computes of one request: its tokens start … stop - 1."""

    request: EngineRequest
    start: int
    stop: int


@dataclasses.dataclass(slots=True)
class Schedule:
    """One step.

    Attributes:
        chunks: What to compute.
        new_block_ids: Blocks that were handed out for it; what stands in them is of no use to anybody.
        preempted: Requests that lost their blocks to older ones, and wait again.
    """

    chunks: list[Chunk] = dataclasses.field(default_factory=list)
    new_block_ids: list[int] = dataclasses.field(default_factory=list)
    preempted: list[EngineRequest] = dataclasses.field(default_factory=list)

    def add(self, request: EngineRequest, num_new_tokens: int, new_blocks: KVCacheBlocks) -> None:
        """Notes the next tokens of a request and the blocks that came with them."""
        start = request.num_computed_tokens
        self.chunks.append(Chunk(request, start, start + num_new_tokens))
        for block_ids in new_blocks.get_block_ids():
            self.new_block_ids += block_ids


class Scheduler:
    """First come, first served, under a budget of tokens per step.

    Args:
        manager: The KV cache manager; this scheduler is its only caller.
        max_num_scheduled_tokens: Tokens per step, of all requests; longer prompts are cut into chunks.
        max_num_running: Requests that run at a time.

    Attributes:
        waiting: Next to be admitted first.
        running: Those that hold blocks, oldest first.
    """

    def __init__(self, manager: KVCacheManager, max_num_scheduled_tokens: int, max_num_running: int) -> None:
        self.manager = manager
        self.max_num_scheduled_tokens = max_num_scheduled_tokens
        self.max_num_running = max_num_running
        self.waiting: deque[EngineRequest] = deque()
        self.running: list[EngineRequest] = []

    def add(self, request: EngineRequest) -> None:
        """Puts a request at the end of the queue."""
        self.waiting.append(request)

    def schedule(self) -> Schedule:
        """Chooses the tokens of the next step and allocates their blocks; empty when there is nothing to do."""
        step = Schedule()
        budget = self._schedule_running(step, self.max_num_scheduled_tokens)
        if not step.preempted:  # else there is no room for more
            self._admit_waiting(step, budget)
        return step

    def _schedule_running(self, step: Schedule, budget: int) -> int:
        """Goes on with what runs, oldest first; returns what is left of the budget.

        A request that is decoded has one token to compute, the one generated last; one whose prompt was cut has more.
        """
        index = 0
        while index < len(self.running) and budget > 0:
            request = self.running[index]
            num_new_tokens = min(request.num_tokens - request.num_computed_tokens, budget)
            new_blocks = self.manager.allocate_slots(request, num_new_tokens)
            if new_blocks is None:
                self._preempt_youngest(step)
                continue  # with this request again, or with the end of the list when it was the youngest itself
            step.add(request, num_new_tokens, new_blocks)
            budget -= num_new_tokens
            index += 1
        return budget

    def _preempt_youngest(self, step: Schedule) -> None:
        """Takes the blocks of the request that came last; it starts over, and may find some of them again.

        It has no tokens in this step yet, for those are given out from the oldest on.
        """
        request = self.running.pop()
        self.manager.free(request)
        request.preempt()
        self.waiting.appendleft(request)
        step.preempted.append(request)

    def _admit_waiting(self, step: Schedule, budget: int) -> None:
        """Admits requests in their order, as long as there are budget and blocks."""
        while self.waiting and len(self.running) < self.max_num_running and budget > 0:
            request = self.waiting[0]
            computed_blocks, num_computed_tokens = self.manager.get_computed_blocks(request)
            num_new_tokens = min(request.num_tokens - num_computed_tokens, budget)
            new_blocks = self.manager.allocate_slots(
                request, num_new_tokens, num_computed_tokens, computed_blocks
            )
            if new_blocks is None:
                return
            request.num_cached_tokens = request.num_computed_tokens = num_computed_tokens
            self.running.append(self.waiting.popleft())
            step.add(request, num_new_tokens, new_blocks)
            budget -= num_new_tokens

    def update(self, step: Schedule, sampled: Sequence[tuple[int, Floats]]) -> list[EngineRequest]:
        """Takes the results of a step; returns the requests that are done, whose blocks have gone back.

        Args:
            step: What `schedule` returned.
            sampled: Token and logits of every chunk that reached the last known token of its request, in their order.
        """
        results = iter(sampled)
        for request, _, stop in step.chunks:
            request.num_computed_tokens = stop
            if stop == request.num_tokens:
                request.append_output(*next(results))
        finished = [request for request in self.running if request.is_finished]
        self.running = [request for request in self.running if not request.is_finished]
        for request in finished:
            self.manager.free(request)
        return finished

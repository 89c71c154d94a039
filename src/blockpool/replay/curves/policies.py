"""`PolicyTrace`: what other policies than the pool's would hit, one capacity at a time. Compiled with mypyc.

Both are counted as the published simulator kvcache-simulator counts them. Under `fifo` a block goes when those inserted
before it have gone, however often it was used. `optimal` is Belady's rule: what is needed again last goes first,
be it the block that has just been computed. A child is needed again no sooner than its parent and goes before it,
so that a block never stands without its parents when it is looked up; the hit blocks are the most that any
policy can have. (Hit tokens are those of the same choice: blocks of unequal size may allow a few more.)
"""

from __future__ import annotations

import heapq
from typing import Final, final

from mypy_extensions import i64

from blockpool.replay.curves.integer_lists import IntegerList, append, filled

_NAMELESS: Final = -1
_NEVER: Final = (1 << 31) - 1
_SLOT_BITS: Final = 32


@final
class PolicyTrace:
    """A trace as numbers, in memory: 16 bytes per block looked up."""

    def __init__(self) -> None:
        """No requests."""
        self._slots: dict[object, int] = {}
        self._stream: IntegerList = filled(0, 0)
        self._tokens: IntegerList = filled(0, 0)
        self._ends: IntegerList = filled(0, 0)
        self._limits: IntegerList = filled(0, 0)
        self._nameless: IntegerList = filled(0, 0)
        self._first_measured: i64 = -1
        self._num_blocks: i64 = 0

    def add(
        self, keys: list[object], max_hit_blocks: i64, tokens: list[int], num_nameless: i64, measured: bool
    ) -> None:
        """Appends one request; arguments as of `StackPass.play`. O(len(keys))."""
        if measured and self._first_measured < 0:
            self._first_measured = len(self._ends)
        index: i64 = 0
        for key in keys:
            slot = self._slots.get(key)
            if slot is None:
                slot = len(self._slots)
                self._slots[key] = slot
            block_tokens: i64 = tokens[index] if index < len(tokens) else 0
            self._stream = append(self._stream, slot)
            self._tokens = append(self._tokens, block_tokens)
            index += 1
        self._ends = append(self._ends, len(self._stream))
        self._limits = append(self._limits, max_hit_blocks)
        self._nameless = append(self._nameless, num_nameless)
        self._num_blocks += index + num_nameless

    def fifo(self, capacity: i64) -> tuple[int, int]:
        """Hit blocks and tokens when the block that was inserted first goes first. O(look-ups)."""
        stream = self._stream
        present = filled(len(self._slots), 0)
        queue = filled(min(capacity, self._num_blocks), _NAMELESS)
        oldest: i64 = 0
        size: i64 = 0
        hit_blocks: i64 = 0
        hit_tokens: i64 = 0
        start: i64 = 0
        request: i64 = 0
        while request < len(self._ends):
            end = self._ends[request]
            nameless = self._nameless[request]
            if end - start + nameless <= capacity:
                found = self._leading_run(present, start, end, self._limits[request])
                if 0 <= self._first_measured <= request:
                    hit_blocks += found
                    hit_tokens += self._tokens_between(start, start + found)
                index = start
                while index < end + nameless:
                    slot: i64 = stream[index] if index < end else _NAMELESS
                    index += 1
                    if slot != _NAMELESS and present[slot] != 0:
                        continue
                    if size == capacity:
                        victim = queue[oldest]
                        if victim != _NAMELESS:
                            present[victim] = 0
                    else:
                        size += 1
                    queue[oldest] = slot
                    oldest = oldest + 1 if oldest + 1 < capacity else 0
                    if slot != _NAMELESS:
                        present[slot] = 1
            start = end
            request += 1
        return hit_blocks, hit_tokens

    def optimal(self, capacity: i64) -> tuple[int, int]:
        """Hit blocks and tokens under Belady's rule. O(look-ups · log capacity)."""
        stream = self._stream
        next_use = self._next_uses(capacity)
        present = filled(len(self._slots), 0)
        needed = filled(len(self._slots), 0)
        heap: list[int] = []
        size: i64 = 0
        hit_blocks: i64 = 0
        hit_tokens: i64 = 0
        start: i64 = 0
        request: i64 = 0
        while request < len(self._ends):
            end = self._ends[request]
            if end - start + self._nameless[request] <= capacity:
                found = self._leading_run(present, start, end, self._limits[request])
                if 0 <= self._first_measured <= request:
                    hit_blocks += found
                    hit_tokens += self._tokens_between(start, start + found)
                index = start
                while index < end:
                    slot = stream[index]
                    use = next_use[index]
                    index += 1
                    if use == _NEVER:
                        size -= present[slot]
                        present[slot] = 0
                        continue
                    if present[slot] == 0:
                        if size == capacity:
                            # What was overtaken by a later use of the same block is no longer true.
                            while not _is_true(heap[0], present, needed):
                                heapq.heappop(heap)
                            last_needed: i64 = -heap[0] >> _SLOT_BITS
                            if last_needed <= use:
                                continue
                            victim: i64 = -heapq.heappop(heap) & _NEVER
                            present[victim] = 0
                            size -= 1
                        present[slot] = 1
                        size += 1
                    needed[slot] = use
                    heapq.heappush(heap, -((use << _SLOT_BITS) + slot))
                if len(heap) > 2 * capacity + 1024:
                    heap = [entry for entry in heap if _is_true(entry, present, needed)]
                    heapq.heapify(heap)
            start = end
            request += 1
        return hit_blocks, hit_tokens

    def _leading_run(self, present: IntegerList, start: i64, end: i64, limit: i64) -> i64:
        stream = self._stream
        stop = start + limit if start + limit < end else end
        index = start
        while index < stop and present[stream[index]] != 0:
            index += 1
        return index - start

    def _tokens_between(self, start: i64, stop: i64) -> i64:
        total: i64 = 0
        while start < stop:
            total += self._tokens[start]
            start += 1
        return total

    def _next_uses(self, capacity: i64) -> IntegerList:
        """For each block of each request, the next request that may hit it; never, when it is computed anew before."""
        stream = self._stream
        next_use = filled(len(stream), _NEVER)
        coming = filled(len(self._slots), _NEVER)
        request: i64 = len(self._ends) - 1
        while request >= 0:
            start: i64 = self._ends[request - 1] if request > 0 else 0
            end = self._ends[request]
            if end - start + self._nameless[request] <= capacity:
                index = start
                while index < end:
                    slot = stream[index]
                    next_use[index] = coming[slot]
                    coming[slot] = request if index - start < self._limits[request] else _NEVER
                    index += 1
            request -= 1
        return next_use


def _is_true(entry: int, present: IntegerList, needed: IntegerList) -> bool:
    number: i64 = -entry
    slot = number & _NEVER
    return present[slot] != 0 and needed[slot] == number >> _SLOT_BITS

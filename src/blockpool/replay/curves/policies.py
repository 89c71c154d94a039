"""`PolicyTrace`: what other policies than the pool's would hit, one capacity at a time. Compiled with mypyc.

`fifo` is counted as the published simulator kvcache-simulator counts it: a block goes when those inserted before it
have gone, however often it was used.

`optimal` is Belady's rule: what is needed last goes first, be it the block that has just been computed. Needed is what
will hit and be counted; before the window nothing is, nor is a block that is computed anew before it can hit. Keeping
blocks from one use to the next is choosing intervals of which no more than `capacity` may overlap, each worth one
block, and to drop the one that ends last is the best choice (Faigle and Nawijn, 1995; Carlisle and Lloyd, 1995). Of
blocks needed by the same request the deepest goes first, so that what is kept of a prompt are its first blocks and
every block that was kept does hit: the hit blocks are the most that any policy can have. Hit tokens would need another
choice where blocks are of unequal size; `most_tokens` bounds them.
"""

from __future__ import annotations

import heapq
from typing import Final, final

from mypy_extensions import i64

from blockpool.replay.curves.integer_lists import IntegerList, append, filled

_NAMELESS: Final = -1
_NEVER: Final = (1 << 62) - 1
_LEVELS: Final = 8


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
        self._sizes: set[int] = set()  # of blocks that may hit, in tokens

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
            if measured and index < max_hit_blocks:
                self._sizes.add(block_tokens)
            self._stream = append(self._stream, slot)
            self._tokens = append(self._tokens, block_tokens)
            index += 1
        self._ends = append(self._ends, len(self._stream))
        self._limits = append(self._limits, max_hit_blocks)
        self._nameless = append(self._nameless, num_nameless)
        self._num_blocks += index + num_nameless

    @property
    def unequal(self) -> bool:
        """Whether blocks that may hit are of several sizes."""
        return len(self._sizes) > 1

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

    def optimal(self, capacity: i64, least_tokens: i64 = 0) -> tuple[int, int]:
        """Hit blocks and tokens under Belady's rule. O(look-ups · log capacity).

        Args:
            capacity: Usable blocks.
            least_tokens: Blocks of fewer tokens count nothing: the most blocks of at least that size that can hit.
        """
        stream = self._stream
        next_use = self._next_uses(capacity, least_tokens)
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
                index = start
                while index < end:
                    slot = stream[index]
                    if present[slot] != 0:
                        hit_blocks += 1
                        hit_tokens += self._tokens[index]
                        use = next_use[index]
                        if use == _NEVER:
                            present[slot] = 0
                            size -= 1
                        else:
                            needed[slot] = use
                            heapq.heappush(heap, -use)
                    index += 1
                index = start
                while index < end:
                    slot = stream[index]
                    use = next_use[index]
                    index += 1
                    if use == _NEVER or present[slot] != 0:
                        continue
                    if size == capacity:
                        # What was overtaken by a later use of the same block is no longer true.
                        while not self._is_true(-heap[0], present, needed):
                            heapq.heappop(heap)
                        last_needed: i64 = -heap[0]
                        if last_needed < use:
                            continue
                        heapq.heappop(heap)
                        present[stream[last_needed]] = 0
                        size -= 1
                    present[slot] = 1
                    size += 1
                    needed[slot] = use
                    heapq.heappush(heap, -use)
                if len(heap) > 2 * capacity + 1024:
                    heap = [entry for entry in heap if self._is_true(-entry, present, needed)]
                    heapq.heapify(heap)
            start = end
            request += 1
        return hit_blocks, hit_tokens

    def most_tokens(self, capacity: i64) -> int:
        """Hit tokens that no policy exceeds. O(look-ups · log capacity), `_LEVELS` times for blocks of unequal size.

        A block of so many tokens is as many layers of one token each, and of every layer `optimal` knows the most
        blocks that can hit. Layers are taken together in bands. What the bands leave out is no more than the tokens
        of all blocks that could hit at all.
        """
        most: i64 = 0
        floor: i64 = 0
        for ceiling in self._bands():
            blocks = self.optimal(capacity, floor + 1)[0]
            band = blocks * (ceiling - floor)
            reachable = self._reusable_tokens(capacity, floor, ceiling)
            most += band if band < reachable else reachable
            floor = ceiling
        return most

    def _bands(self) -> list[int]:
        """Upper ends of the bands of sizes: all sizes if there are few, else evenly spread."""
        if not self._sizes:
            return []
        sizes = sorted(self._sizes)
        if len(sizes) <= _LEVELS:
            return sizes
        largest = sizes[-1]
        return [max(1, largest * level // _LEVELS) for level in range(1, _LEVELS + 1)]

    def _reusable_tokens(self, capacity: i64, floor: i64, ceiling: i64) -> i64:
        """Tokens between two sizes of all blocks that hit in a pool without end."""
        next_use = self._next_uses(capacity, floor + 1)
        total: i64 = 0
        index: i64 = 0
        while index < len(next_use):
            use = next_use[index]
            if use != _NEVER:
                tokens = self._tokens[use]
                total += (tokens if tokens < ceiling else ceiling) - floor
            index += 1
        return total

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

    def _next_uses(self, capacity: i64, least_tokens: i64) -> IntegerList:
        """For each block of each request, where in the stream it hits next if it is kept.

        Never, when it is computed anew before, or when that hit counts nothing: before the window, or of a small block.
        Places in the stream are in order of need: of a request's blocks, the first ones are needed most.
        """
        stream = self._stream
        next_use = filled(len(stream), _NEVER)
        coming = filled(len(self._slots), _NEVER)
        request: i64 = len(self._ends) - 1
        while request >= 0:
            start: i64 = self._ends[request - 1] if request > 0 else 0
            end = self._ends[request]
            if end - start + self._nameless[request] <= capacity:
                counted: i64 = self._limits[request] if 0 <= self._first_measured <= request else 0
                index = start
                while index < end:
                    slot = stream[index]
                    next_use[index] = coming[slot]
                    counts = index - start < counted and self._tokens[index] >= least_tokens
                    coming[slot] = index if counts else _NEVER
                    index += 1
            request -= 1
        return next_use

    def _is_true(self, use: i64, present: IntegerList, needed: IntegerList) -> bool:
        slot = self._stream[use]
        return present[slot] != 0 and needed[slot] == use

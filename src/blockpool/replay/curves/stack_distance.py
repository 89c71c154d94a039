"""`StackPass`: one pass over a trace that tells the hits at every capacity at once. Compiled with mypyc.

A pool of C blocks holds the C entries of the recency list that are youngest; so a block is found by every pool that is
larger than what is younger than it: its stack distance (Mattson et al., 1970). What an engine does besides, and what is
no stack, is kept exact as follows (docs/curve.md has the reasons):

* A block without a hash takes a place in the list and is never looked up.
* A last block that may not hit is computed again, and a second *copy* of it is indexed. The pool finds the copy
  that was indexed first. When copies have been evicted from some pools and not from others, these pools take different
  copies to the young end, and afterwards a place in the list is vacant in some and taken in others: an `_Uncertain`
  place, with the capacities at which it is taken. It lasts until no pool that lacks it reaches so deep.
* With `reuse_uncached_first`, the blocks without a hash take no place; but a pool that needed one has lost its oldest
  block for it.

Capacities are exact from the largest request on; for smaller pools, which refuse requests, a pass of its own is made.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from blockpool.replay.curves.hit_histogram import UNBOUNDED, HitHistogram
from blockpool.replay.curves.integer_lists import IntegerList, append, filled
from blockpool.replay.curves.recency_list import RecencyList

NEVER_FOUND: Final = -1
_ROOT: Final = -1
_NOTHING_LOST: Final = 0
_EVERYTHING_LOST: Final = 1 << 62


@final
class _Uncertain:
    """A place that is taken at some capacities only.

    Attributes:
        position: Where it is in the recency list.
        bounds: Where it is taken: from bounds[0], not from bounds[1], again from bounds[2], … An odd number of them.
        older: Position of the next older copy at the time. Pools that had that one let this place be.
    """

    __slots__ = ("bounds", "older", "position")

    def __init__(self, position: i64, bounds: list[int], older: i64) -> None:
        self.position: i64 = position
        self.bounds: list[int] = bounds
        self.older: i64 = older


def _contains(bounds: list[int], capacity: i64) -> bool:
    inside = False
    for bound in bounds:
        if bound > capacity:
            break
        inside = not inside
    return inside


@final
class StackPass:
    """Plays requests one after the other on pools of all capacities at once, cold at the start.

    Memory: O(distinct keys + copies of last blocks + uncertain places), not O(look-ups).

    Attributes:
        hits: What has been found.
        num_uncertain: How many uncertain places there have been.
    """

    def __init__(self, reuse_uncached_first: bool, record: bool = False) -> None:
        """An empty list.

        Args:
            reuse_uncached_first: As the pool's.
            record: Keep every look-up that is counted, for `take_record`.
        """
        self.hits: HitHistogram = HitHistogram()
        self.num_uncertain: int = 0
        self._reuse_uncached_first: bool = reuse_uncached_first
        self._record: bool = record
        self._recorded: IntegerList = filled(0, 0)
        self._slots: dict[object, int] = {}
        self._parents: IntegerList = filled(0, 0)
        self._recency: RecencyList = RecencyList()
        self._chain: IntegerList = filled(0, 0)  # slots of the request that is being played
        # Older copies of a block that has several, the oldest first: only those that some pool may still take.
        self._older_copies: dict[int, list[int]] = {}
        self._uncertain: list[_Uncertain] = []
        self._next_settling: int = 32
        # Only with `reuse_uncached_first`: the oldest place that was taken to the young end since blocks were lost,
        # and the uncertain places made since then.
        self._oldest_taken: i64 = _NOTHING_LOST
        self._doubts: list[_Uncertain] = []

    @property
    def distinct_keys(self) -> int:
        """Different keys seen so far."""
        return len(self._slots)

    def play(
        self, keys: list[object], max_hit_blocks: i64, tokens: list[int], num_nameless: i64, measured: bool
    ) -> int:
        """Plays one request. O(len(keys) · log of the distinct blocks), as long as few places are uncertain.

        Args:
            keys: Of the blocks to be indexed, from the first on.
            max_hit_blocks: How many of them may hit.
            tokens: Of each block that may hit.
            num_nameless: Blocks held without a key.
            measured: Whether hits are counted.

        Returns:
            -1; or the index of a key that has stood behind another key before: the trace is no set of chains, and
            the pass is spoilt.
        """
        recency = self._recency
        num_keys: i64 = len(keys)
        if not recency.has_room(num_keys):
            self._compact(num_keys)
        while len(self._chain) < num_keys:
            self._chain = append(self._chain, 0)
        chain = self._chain
        known: i64 = 0
        parent: i64 = _ROOT
        for place, key in enumerate(keys):
            found = self._slots.get(key)
            if found is None:
                slot: i64 = len(self._slots)
                self._slots[key] = slot
                self._parents = append(self._parents, parent)
                recency.add_slot()
            else:
                slot = found
                if self._parents[slot] != parent:
                    return place
                known += 1
            chain[place] = slot
            parent = slot
        num_lookups = max_hit_blocks if max_hit_blocks < num_keys else num_keys
        num_found = num_lookups if num_lookups < known else known
        bounds_of_copies = self._look_up(chain, num_found, tokens, measured)
        if self._record and measured:
            index = num_found
            while index < num_lookups:
                self._note(chain[index], NEVER_FOUND, tokens[index])
                index += 1
        self._take(chain, num_keys, num_found, num_lookups, known, bounds_of_copies)
        if not self._reuse_uncached_first:
            recency.append_nameless(num_nameless)
        elif num_nameless > 0:
            self._oldest_taken = _EVERYTHING_LOST
            self._doubts = []
        index = num_keys - 1
        while index >= 0:
            recency.append(chain[index])
            index -= 1
        return -1

    def _look_up(
        self, chain: IntegerList, num_found: i64, tokens: list[int], measured: bool
    ) -> list[list[list[int]]]:
        """Counts the hits of one request.

        Returns:
            For each block that has older copies, in order: where each of its copies but the youngest is present.
        """
        recency = self._recency
        simple = not self._uncertain and not self._reuse_uncached_first
        bounds_of_copies: list[list[list[int]]] = []
        above: i64 = 0
        before: i64 = 0
        index: i64 = 0
        while index < num_found:
            slot = chain[index]
            position = recency.positions[slot]
            # Blocks that were used together stand side by side, the later ones below.
            if index > 0 and position == before - 1:
                above += recency.weight_at(before)
            else:
                above = recency.weight_above(position)
            before = position
            if measured:
                block_tokens: i64 = tokens[index]
                if self._record:
                    self._note(slot, above, block_tokens)
                elif simple:
                    self.hits.add(above + 1, UNBOUNDED, block_tokens)
                else:
                    self._count(self._present(position, above), block_tokens)
            if self._older_copies:
                copies = self._older_copies.get(slot)
                if copies is not None:
                    bounds_of_copies.append(
                        [self._present(copy, recency.weight_above(copy)) for copy in copies]
                    )
            index += 1
        return bounds_of_copies

    def blocks_needed(self, keys: list[object], places: list[int], capacity: i64) -> list[int]:
        """The smallest pool above a size that finds each of some blocks now. Changes nothing. O(log n) each, as `play`.

        Args:
            keys: Of a request's blocks.
            places: Which of them, ascending: played before, and not found by a pool of `capacity` blocks.
            capacity: Usable blocks.

        Returns:
            One size per place; none at all if a key stands behind another one than before.
        """
        needed: list[int] = []
        parent: i64 = _ROOT
        index = 0
        for place in places:
            while index <= place:
                slot: i64 = self._slots.get(keys[index], _ROOT)
                if slot == _ROOT or self._parents[slot] != parent:
                    return []
                parent = slot
                index += 1
            position = self._recency.positions[parent]
            bounds = self._present(position, self._recency.weight_above(position))
            number = 0
            while bounds[number] <= capacity and number + 2 < len(bounds):
                number += 2
            needed.append(bounds[number])
        return needed

    def take_record(self) -> list[tuple[int, int, int]]:
        """Every look-up counted: number of the block, stack distance (or `NEVER_FOUND`), tokens. O(look-ups)."""
        record: list[tuple[int, int, int]] = []
        index: i64 = 0
        while index < len(self._recorded):
            numbers = (self._recorded[index], self._recorded[index + 1], self._recorded[index + 2])
            record.append(numbers)
            index += 3
        return record

    def _note(self, slot: i64, above: i64, tokens: i64) -> None:
        recorded = append(self._recorded, slot)
        recorded = append(recorded, above)
        self._recorded = append(recorded, tokens)

    def _count(self, bounds: list[int], tokens: i64) -> None:
        index = 0
        while index + 1 < len(bounds):
            self.hits.add(bounds[index], bounds[index + 1], tokens)
            index += 2
        self.hits.add(bounds[index], UNBOUNDED, tokens)

    def _present(self, position: i64, above: i64) -> list[int]:
        """At which capacities an entry is in the pool, as bounds; see `_Uncertain`.

        Args:
            above: Weight of what is younger, uncertain places not counted.
        """
        uncertain = [place for place in self._uncertain if place.position > position]
        width: i64 = len(uncertain)
        if width == 0:
            if self._reuse_uncached_first and self._is_lost(position, above + 1):
                return [above + 2]
            return [above + 1]
        # A pool of `above` blocks lacks it, one of above + width + 2 has it, whatever is uncertain.
        low = above + 1
        high = low + width + 1
        changes = [0] * (width + 2)
        for place in uncertain:
            sign = 1
            for bound in place.bounds:
                if bound < high:
                    changes[max(bound, low) - low] += sign
                sign = -sign
        bounds: list[int] = []
        inside = False
        above_there = above
        capacity = low
        while capacity < high:
            change: i64 = changes[capacity - low]
            above_there += change
            present = above_there < capacity
            if present and self._reuse_uncached_first and above_there + 1 == capacity:
                present = not self._is_lost(position, capacity)
            if present != inside:
                bounds.append(capacity)
                inside = present
            capacity += 1
        if not inside:
            bounds.append(high)
        return bounds

    def _is_lost(self, position: i64, capacity: i64) -> bool:
        """Whether the block that is the oldest of a pool was given up for a block without a hash.

        It was if it was the oldest already when that happened: if nothing from below has been taken up since.
        """
        if position >= self._oldest_taken:
            return False
        for doubt in self._doubts:
            if doubt.older <= position < doubt.position and _contains(doubt.bounds, capacity):
                return False
        return True

    def _take(
        self,
        chain: IntegerList,
        num_keys: i64,
        num_found: i64,
        num_lookups: i64,
        known: i64,
        bounds_of_copies: list[list[list[int]]],
    ) -> None:
        """Takes the blocks of a request out of the list, as far as they were found; copies the others."""
        recency = self._recency
        if num_keys > num_found:
            self._oldest_taken = _NOTHING_LOST
        next_bounds = 0
        index: i64 = 0
        while index < num_found:
            slot = chain[index]
            position = recency.positions[slot]
            if position < self._oldest_taken:
                self._oldest_taken = position
            if self._older_copies and slot in self._older_copies:
                self._take_oldest_copy(self._older_copies.pop(slot), position, bounds_of_copies[next_bounds])
                next_bounds += 1
            else:
                recency.vacate(position)
            index += 1
        index = num_lookups
        while index < known:
            slot = chain[index]
            position = recency.positions[slot]
            recency.pin(position)
            if slot in self._older_copies:
                self._older_copies[slot].append(position)
            else:
                self._older_copies[slot] = [position]
            index += 1

    def _take_oldest_copy(self, copies: list[int], youngest: i64, bounds: list[list[int]]) -> None:
        """Each pool takes the oldest copy that it has; younger ones stay behind, never to be found again."""
        recency = self._recency
        recency.vacate(copies[0])
        number = 0
        while number < len(bounds):
            younger: i64 = copies[number + 1] if number + 1 < len(copies) else youngest
            recency.make_weightless(younger)
            place = _Uncertain(younger, bounds[number], copies[number])
            self._uncertain.append(place)
            if self._reuse_uncached_first:
                self._doubts.append(place)
            self.num_uncertain += 1
            number += 1
        if len(self._uncertain) > self._next_settling:
            self._settle()

    def _settle(self) -> None:
        """Places that are taken wherever they can be reached are uncertain no longer."""
        recency = self._recency
        left: list[_Uncertain] = []
        for place in self._uncertain:
            last_bound: i64 = place.bounds[len(place.bounds) - 1]
            if recency.weight_above(place.position) >= last_bound - 1:
                recency.make_nameless(place.position)
            else:
                left.append(place)
        self._uncertain = left
        self._next_settling = 2 * len(left) + 32

    def _compact(self, count: i64) -> None:
        self._settle()
        recency = self._recency
        recency.compact(count)
        for copies in self._older_copies.values():
            for number in range(len(copies)):
                copies[number] = recency.moved(copies[number])
        # Doubts may have been settled, or be among the uncertain places, too: each is moved once.
        for place in self._doubts:
            place.older = recency.moved(place.older)
            place.position = recency.moved(place.position)
        doubts = {id(place) for place in self._doubts} if self._doubts else set()
        for place in self._uncertain:
            if id(place) not in doubts:
                place.position = recency.moved(place.position)
        if _NOTHING_LOST < self._oldest_taken < _EVERYTHING_LOST:
            self._oldest_taken = recency.moved(self._oldest_taken)

"""`RecencyList`: blocks in order of their last use, which counts what is younger than a block in O(log n).

Compiled with mypyc; interpreted it does the same, more slowly.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from blockpool.replay.curves.integer_lists import IntegerList, append, filled

VACANT: Final = -1
PINNED: Final = -2

_FIRST_CAPACITY: Final = 1024


@final
class RecencyList:
    """Entries at ascending positions, the youngest last; a Fenwick tree holds what each weighs.

    An entry is the youngest copy of a block (its owner is the block's slot) or pinned (somebody else notes where it
    stands). It weighs 1, or 0, and carries besides the nameless blocks that stand between it and the next older
    entry. Positions that have become vacant are won back now and then by moving all entries together, so that memory
    follows the entries and not the uses: amortised O(1).

    Attributes:
        positions: By slot, where its youngest copy stands.
        total: Weight of all entries and nameless blocks.
        kept: Old positions of the entries that the latest `compact` kept, ascending.
    """

    def __init__(self) -> None:
        self.positions: IntegerList = filled(0, 0)
        self.total: i64 = 0
        self.kept: IntegerList = filled(0, 0)
        self._capacity: i64 = _FIRST_CAPACITY
        self._next: i64 = 1
        self._tree: IntegerList = filled(_FIRST_CAPACITY + 1, 0)
        self._owner: IntegerList = filled(_FIRST_CAPACITY + 1, VACANT)
        self._nameless: dict[int, int] = {}  # by position; mostly there are none
        self._pending: i64 = 0

    def has_room(self, count: i64) -> bool:
        """Whether so many entries can be appended without `compact`. O(1)."""
        return self._next + count <= self._capacity + 1

    def add_slot(self) -> None:
        """Makes room for one more slot, whose block stands nowhere yet. O(1)."""
        self.positions = append(self.positions, 0)

    def append(self, slot: i64) -> None:
        """Puts a block at the young end. Amortised O(1). There must be room.

        Nameless blocks that were added since the last entry become its luggage.
        """
        position = self._next
        self._next = position + 1
        pending = self._pending
        self._pending = 0
        self._owner[position] = slot
        if pending:
            self._nameless[position] = pending
        self.positions[slot] = position
        # What is beyond the youngest entry is not in the tree yet, so its node is made from the nodes below.
        tree = self._tree
        weight = pending + 1
        end = position - (position & -position)
        below = position - 1
        while below > end:
            weight += tree[below]
            below -= below & -below
        tree[position] = weight
        self.total += 1

    def append_nameless(self, count: i64) -> None:
        """Puts blocks without a name at the young end. O(1)."""
        self._pending += count
        self.total += count

    def weight_above(self, position: i64) -> i64:
        """Weight of everything younger than an entry. O(log n)."""
        tree = self._tree
        older: i64 = 0
        while position > 0:
            older += tree[position]
            position -= position & -position
        return self.total - older

    def weight_at(self, position: i64) -> i64:
        """Weight of an entry that weighs 1, with its luggage. O(1)."""
        if self._nameless:
            luggage: i64 = self._nameless.get(position, 0)
            return 1 + luggage
        return 1

    def vacate(self, position: i64) -> None:
        """Takes an entry of weight 1 away; its luggage stays. O(log n)."""
        self._owner[position] = VACANT
        self._add(position, -1)
        self.total -= 1

    def pin(self, position: i64) -> None:
        """The entry is no longer the youngest copy of its block. O(1)."""
        self._owner[position] = PINNED

    def make_weightless(self, position: i64) -> None:
        """A pinned entry weighs 0 from now on. O(log n)."""
        self._owner[position] = PINNED
        self._add(position, -1)
        self.total -= 1

    def make_nameless(self, position: i64) -> None:
        """A weightless entry becomes a nameless block. O(log n)."""
        self._owner[position] = VACANT
        self._nameless[position] = self._nameless.get(position, 0) + 1
        self._add(position, 1)
        self.total += 1

    def compact(self, count: i64) -> None:
        """Moves all entries together and makes room for `count` more, and for as many as there are. O(n).

        `kept` tells afterwards which positions there were; `moved` translates them.
        """
        kept = filled(0, 0)
        old_owner, old_nameless = self._owner, self._nameless
        old: i64 = 1
        while old < self._next:
            if old_owner[old] != VACANT:
                kept = append(kept, old)
            old += 1
        self.kept = kept
        num_kept = len(kept)
        capacity = 2 * num_kept + count + _FIRST_CAPACITY
        owner = filled(capacity + 1, VACANT)
        nameless: dict[int, int] = {}
        tree = filled(capacity + 1, 0)
        positions = self.positions
        luggage: i64 = 0
        new: i64 = 0
        old = 1
        while old < self._next:
            here: i64 = old_nameless.get(old, 0)
            luggage += here
            slot = old_owner[old]
            if slot != VACANT:
                new += 1
                weight = self._tree_weight(old) - here
                owner[new] = slot
                if luggage != 0:
                    nameless[new] = luggage
                tree[new] = weight + luggage
                luggage = 0
                if slot >= 0:
                    positions[slot] = new
            old += 1
        self._pending += luggage
        self._owner, self._nameless, self._tree = owner, nameless, tree
        self._capacity = capacity
        self._next = new + 1
        self._build_tree()

    def moved(self, position: i64) -> i64:
        """Where an entry stands after `compact`; for a position that was vacant, where the next younger one does."""
        kept = self.kept
        low: i64 = 0
        high: i64 = len(kept)
        while low < high:
            middle = (low + high) // 2
            if kept[middle] < position:
                low = middle + 1
            else:
                high = middle
        return low + 1

    def _add(self, position: i64, weight: i64) -> None:
        tree = self._tree
        stop = self._next
        while position < stop:
            tree[position] += weight
            position += position & -position

    def _tree_weight(self, position: i64) -> i64:
        """Weight at one position, luggage included, out of the tree."""
        tree = self._tree
        weight = tree[position]
        end = position - (position & -position)
        position -= 1
        while position > end:
            weight -= tree[position]
            position -= position & -position
        return weight

    def _build_tree(self) -> None:
        """Makes a Fenwick tree of the weights that stand in its place. O(n)."""
        tree = self._tree
        stop = self._next
        position: i64 = 1
        while position < stop:
            above = position + (position & -position)
            if above < stop:
                tree[above] += tree[position]
            position += 1

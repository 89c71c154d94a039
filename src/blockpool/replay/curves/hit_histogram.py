"""`HitHistogram`: hits by the capacities at which they are hits. Compiled with mypyc."""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from blockpool.replay.curves.integer_lists import IntegerList, append, filled

UNBOUNDED: Final = 1 << 62


@final
class HitHistogram:
    """Counts hits as changes of a step function of the capacity. Memory follows the largest capacity that matters."""

    def __init__(self) -> None:
        self._blocks: IntegerList = filled(0, 0)
        self._tokens: IntegerList = filled(0, 0)

    def add(self, start: i64, stop: i64, tokens: i64) -> None:
        """One block of so many tokens hits at capacities `start` … `stop` - 1; `UNBOUNDED` for no end. O(1)."""
        if start >= len(self._blocks):
            self._grow(start)
        self._blocks[start] += 1
        self._tokens[start] += tokens
        if stop == UNBOUNDED:
            return
        if stop >= len(self._blocks):
            self._grow(stop)
        self._blocks[stop] -= 1
        self._tokens[stop] -= tokens

    def steps(self, first: i64, last: i64) -> tuple[list[int], list[int], list[int]]:
        """The step function from capacity `first` to `last`.

        Returns:
            Capacities, ascending, at which something changes, beginning with `first`; hit blocks and hit tokens
            from each of them on. Complexity: O(capacities).
        """
        capacities: list[int] = []
        blocks: list[int] = []
        tokens: list[int] = []
        hit_blocks: i64 = 0
        hit_tokens: i64 = 0
        capacity: i64 = 0
        length: i64 = len(self._blocks)
        while capacity < length and capacity <= last:
            block_change = self._blocks[capacity]
            token_change = self._tokens[capacity]
            hit_blocks += block_change
            hit_tokens += token_change
            if capacity > first and (block_change != 0 or token_change != 0):
                capacities.append(capacity)
                blocks.append(hit_blocks)
                tokens.append(hit_tokens)
            elif capacity == first:
                capacities, blocks, tokens = [first], [hit_blocks], [hit_tokens]
            capacity += 1
        if not capacities:
            return [first], [hit_blocks], [hit_tokens]
        return capacities, blocks, tokens

    def _grow(self, capacity: i64) -> None:
        blocks, tokens = self._blocks, self._tokens
        target = capacity + capacity // 2 + 64
        while len(blocks) <= target:
            blocks = append(blocks, 0)
            tokens = append(tokens, 0)
        self._blocks, self._tokens = blocks, tokens

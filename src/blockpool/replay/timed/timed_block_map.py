"""`TimedBlockMapSampler`: where blocks are while requests run side by side, at moments evenly spaced in time."""

from __future__ import annotations

from collections.abc import Iterable

from blockpool.core.block import KVCacheBlock
from blockpool.replay.block_map import MAX_COLUMNS, BlockMap, BlockMapColumns
from blockpool.replay.timed.time_weighted import NS_PER_MS

_BLANK, _IDLE, _IN_USE = range(3)


class TimedBlockMapSampler(BlockMapColumns):
    """Collects a `BlockMap` in the engine's time; one byte per block.

    Blocks are handed out, indexed and given back at different times here, so it keeps the state of each and is told
    whenever one may have changed: by `note_handed_out` and, when all is done to them, by `note_changed`.
    """

    def __init__(self, blocks: int) -> None:
        """For a cold pool at time 0.

        Args:
            blocks: Usable blocks, at least 1.
        """
        super().__init__(blocks)
        self._states = bytearray(blocks)
        # Blocks of each bin by state.
        self._counts = [
            [min(self._bin_blocks, blocks - number * self._bin_blocks) for number in range(self._num_bins)],
            [0] * self._num_bins,
            [0] * self._num_bins,
        ]
        self.restart(0)

    def restart(self, now_ns: int) -> None:
        """Forgets the columns, not what is in the pool. The next column is of this time."""
        self._forget_columns()
        self._interval_ns = NS_PER_MS
        self._start_ns = self._next_ns = now_ns

    def note_handed_out(self, blocks: Iterable[KVCacheBlock]) -> None:
        """The pool has just given these. O(blocks)."""
        for block in blocks:
            self._handed_out[(block.block_id - 1) // self._bin_blocks] += 1

    def note_changed(self, blocks: Iterable[KVCacheBlock]) -> None:
        """Looks at blocks that may have been taken, indexed or given back. O(blocks)."""
        states, counts, bin_blocks = self._states, self._counts, self._bin_blocks
        for block in blocks:
            position = block.block_id - 1
            if block.ref_cnt:
                state = _IN_USE
            else:
                state = _BLANK if block.block_hash is None else _IDLE
            before = states[position]
            if state != before:
                number = position // bin_blocks
                counts[before][number] -= 1
                counts[state][number] += 1
                states[position] = state

    def hold(self, now_ns: int, duration_ns: int, request: int) -> None:
        """The state that was told holds for some time.

        Args:
            now_ns: When it began: when the one before ended.
            duration_ns: How long it holds, 0 or more.
            request: Number of the latest request to leave the queue.

        Complexity: O(bins) per column, else O(1).
        """
        end_ns = now_ns + duration_ns
        while self._next_ns < end_ns:
            if len(self._columns) == MAX_COLUMNS:
                self._thin()
                self._interval_ns *= 2
            else:
                self._add_column(
                    request, self._next_ns / NS_PER_MS, self._counts[_IN_USE], self._counts[_IDLE]
                )
            self._next_ns = self._start_ns + len(self._columns) * self._interval_ns

    def result(self) -> BlockMap:
        """What has been collected."""
        return BlockMap(
            self._blocks, self._bin_blocks, 0, tuple(self._columns), self._interval_ns / NS_PER_MS
        )

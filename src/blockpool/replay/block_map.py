"""Where in the pool blocks are in use, idle or blank, and how often they were handed out, over a run.

What a block map draws: times by block positions, both in a bounded number of steps. The pool is never walked: only
blocks that were just handed out change what a look-up can find, so each request costs as much as its new blocks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from blockpool.core.block import KVCacheBlock

MAX_COLUMNS = 200
MAX_BINS = 100


class BlockMapColumn(NamedTuple):
    """The pool at one time, by bins of block positions: while one request was held or, timed, at a moment.

    Attributes:
        request: Number of that request, from 0; timed, of the latest to leave the queue.
        time_ms: Its time stamp, or None; timed, the time on the engine's clock.
        in_use: Blocks of each bin that were held.
        cached_idle: Blocks of each bin that were free, with content that a look-up can find.
        handed_out: How many times blocks of each bin were handed out since the column before, up to this one.
    """

    request: int
    time_ms: float | None
    in_use: tuple[int, ...]
    cached_idle: tuple[int, ...]
    handed_out: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BlockMap:
    """A whole run.

    Attributes:
        blocks: Usable blocks; positions are 1 … `blocks`, for block 0 is the null block.
        bin_blocks: Positions of a bin; the last one may have fewer.
        stride: Requests from one column to the next; 0 when columns are apart in time.
        columns: At most `MAX_COLUMNS`: the first request and then every `stride`-th that was played, or the first
            moment and then one every `interval_ms`.
        interval_ms: Milliseconds from one column to the next; None when columns are apart in requests.
    """

    blocks: int
    bin_blocks: int
    stride: int
    columns: tuple[BlockMapColumn, ...]
    interval_ms: float | None = None

    @property
    def num_bins(self) -> int:
        """Bins of positions, at most `MAX_BINS`."""
        return -(-self.blocks // self.bin_blocks)

    def bin_size(self, number: int) -> int:
        """Blocks of a bin, counted from 0."""
        return min(self.bin_blocks, self.blocks - number * self.bin_blocks)


class BlockMapColumns:
    """What samplers share: the bins, how often their blocks were handed out, and a bounded number of columns."""

    def __init__(self, blocks: int) -> None:
        """For a cold pool.

        Args:
            blocks: Usable blocks, at least 1.
        """
        self._blocks = blocks
        self._bin_blocks = -(-blocks // MAX_BINS)
        self._num_bins = -(-blocks // self._bin_blocks)
        self._forget_columns()

    def _forget_columns(self) -> None:
        self._columns: list[BlockMapColumn] = []
        self._handed_out = [0] * self._num_bins

    def _add_column(
        self, request: int, time_ms: float | None, in_use: list[int], cached_idle: list[int]
    ) -> None:
        column = BlockMapColumn(request, time_ms, tuple(in_use), tuple(cached_idle), tuple(self._handed_out))
        self._columns.append(column)
        self._handed_out = [0] * self._num_bins

    def _thin(self) -> None:
        """Drops every second column; what was handed out before it goes to the next one."""
        dropped = self._columns[1::2]
        kept = self._columns[::2]
        for number, column in enumerate(dropped[: len(kept) - 1], start=1):
            kept[number] = kept[number]._replace(handed_out=_sums(kept[number].handed_out, column.handed_out))
        self._handed_out = list(_sums(self._handed_out, dropped[-1].handed_out))
        self._columns = kept


class BlockMapSampler(BlockMapColumns):
    """Collects a `BlockMap` of requests that are played one after the other; one byte per block.

    It must be told of every block that a pool hands out, from the first on.
    """

    def __init__(self, blocks: int) -> None:
        """For a cold pool.

        Args:
            blocks: Usable blocks, at least 1.
        """
        super().__init__(blocks)
        self._findable = bytearray(blocks)
        self._findable_of_bin = [0] * self._num_bins
        self.restart()

    def restart(self) -> None:
        """Forgets the columns, not what is in the pool."""
        self._forget_columns()
        self._stride = 1
        self._samples = 0

    def add(
        self,
        request: int,
        time_ms: float | None,
        new_blocks: Iterable[KVCacheBlock],
        held: Iterable[KVCacheBlock],
    ) -> None:
        """Takes in one request, after its blocks were indexed and before they are given back.

        Args:
            request: Its number.
            time_ms: Its time stamp, or None.
            new_blocks: What `get_new_blocks` gave since the last call.
            held: All blocks that are held now, each once.

        Complexity: O(new blocks), for a column also O(held + bins).
        """
        self._note(new_blocks)
        if self._samples % self._stride == 0:
            if len(self._columns) == MAX_COLUMNS:
                self._thin()
                self._stride *= 2
            if self._samples % self._stride == 0:
                self._sample(request, time_ms, held)
        self._samples += 1

    def result(self) -> BlockMap:
        """What has been collected."""
        return BlockMap(self._blocks, self._bin_blocks, self._stride, tuple(self._columns))

    def _note(self, new_blocks: Iterable[KVCacheBlock]) -> None:
        findable, findable_of_bin, handed_out = self._findable, self._findable_of_bin, self._handed_out
        bin_blocks = self._bin_blocks
        for block in new_blocks:
            position = block.block_id - 1
            number = position // bin_blocks
            handed_out[number] += 1
            is_findable = block.block_hash is not None
            if is_findable != findable[position]:
                findable[position] = is_findable
                findable_of_bin[number] += 1 if is_findable else -1

    def _sample(self, request: int, time_ms: float | None, held: Iterable[KVCacheBlock]) -> None:
        in_use = [0] * self._num_bins
        idle = self._findable_of_bin.copy()
        for block in held:
            position = block.block_id - 1
            number = position // self._bin_blocks
            in_use[number] += 1
            idle[number] -= self._findable[position]
        self._add_column(request, time_ms, in_use, idle)


def _sums(left: Iterable[int], right: Iterable[int]) -> tuple[int, ...]:
    return tuple(one + other for one, other in zip(left, right, strict=True))

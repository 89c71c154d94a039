"""`FreeKVCacheBlockQueue`: the free blocks, least recently freed first, linked through the blocks themselves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, final

from mypy_extensions import i16

from blockpool.core.arguments import as_count, as_list
from blockpool.core.block import KVCacheBlock
from blockpool.core.types import IntArg
from blockpool.errors import ArgumentError, BlockStateError, OutOfBlocksError

_MAX_QUEUE_ID: Final = 0x7FFF


@final
class _QueueIds:
    """Hands each queue a number, so that a block tells whose it is. They repeat after 32,767 queues."""

    def __init__(self) -> None:
        self.last: int = 0

    def next(self) -> int:
        self.last = self.last % _MAX_QUEUE_ID + 1
        return self.last


_queue_ids = _QueueIds()


@final
class FreeKVCacheBlockQueue:
    """A doubly linked list of blocks with O(1) removal from the middle and no allocation per operation.

    Two sentinels spare the null checks: head ⇄ oldest ⇄ … ⇄ youngest ⇄ tail. The order is that of `blocks` at the
    start, afterwards least recently freed first. A block belongs to the queue that it was first put into, for good.

    Attributes:
        num_free_blocks: Length of the queue.
        fake_free_list_head: Sentinel before the oldest block; its `block_id` is -1.
        fake_free_list_tail: Sentinel after the youngest block; its `block_id` is -1.

    Args:
        blocks: The blocks, oldest first; none may be in a queue.

    Raises:
        ArgumentError: If something is not a block.
        BlockStateError: If a block is in a queue, belongs to another one, or is listed twice.
    """

    def __init__(self, blocks: Sequence[KVCacheBlock]) -> None:
        self.num_free_blocks: int = 0
        self.fake_free_list_head: KVCacheBlock = KVCacheBlock(-1)
        self.fake_free_list_tail: KVCacheBlock = KVCacheBlock(-1)
        self.fake_free_list_head.next_free_block = self.fake_free_list_tail
        self.fake_free_list_tail.prev_free_block = self.fake_free_list_head
        self._queue_id: i16 = _queue_ids.next()
        self.append_n(blocks)

    def popleft(self) -> KVCacheBlock:
        """Takes the oldest block. O(1).

        Raises:
            OutOfBlocksError: If the queue is empty.
        """
        return self.popleft_n(1)[0]

    def popleft_n(self, n: IntArg) -> list[KVCacheBlock]:
        """Takes the `n` oldest blocks, in order. O(n); all or nothing.

        Args:
            n: 0 … `num_free_blocks`.

        Raises:
            ArgumentError: If `n` is no integer.
            ConfigError: If it is negative.
            OutOfBlocksError: If it exceeds the length.
        """
        count = as_count("n", n)
        if count > self.num_free_blocks:
            raise OutOfBlocksError(count, self.num_free_blocks)
        return self.take(count)

    def take(self, count: int) -> list[KVCacheBlock]:
        """`popleft_n` for a count that is known to be right."""
        taken: list[KVCacheBlock] = []
        head = self.fake_free_list_head
        block = head.next_free_block
        for _ in range(count):
            assert block is not None
            taken.append(block)
            after = block.next_free_block
            block.prev_free_block = None
            block.next_free_block = None
            block = after
        assert block is not None
        head.next_free_block = block
        block.prev_free_block = head
        self.num_free_blocks -= count
        return taken

    def remove(self, block: KVCacheBlock) -> None:
        """Takes one block from wherever it stands. O(1).

        Raises:
            ArgumentError: If it is not a block.
            BlockStateError: If it is not in this queue.
        """
        if not isinstance(block, KVCacheBlock):
            raise ArgumentError("block", block, "a KVCacheBlock is needed")
        before = block.prev_free_block
        after = block.next_free_block
        if before is None or after is None or block._queue_id != self._queue_id:
            raise BlockStateError(block.block_id, "in this free queue", "it is not")
        before.next_free_block = after
        after.prev_free_block = before
        block.prev_free_block = None
        block.next_free_block = None
        self.num_free_blocks -= 1

    def append(self, block: KVCacheBlock) -> None:
        """Puts one block at the young end. O(1). Raises as `append_n`."""
        self.append_n([block])

    def append_n(self, blocks: Iterable[KVCacheBlock]) -> None:
        """Puts blocks at the young end, in the given order. O(n); all or nothing.

        Raises:
            ArgumentError: If something is not a block.
            BlockStateError: If a block is in a queue, belongs to another one, or is listed twice.
        """
        last = self.fake_free_list_tail.prev_free_block
        assert last is not None
        self._insert_after(last, as_list("blocks", blocks))

    def prepend_n(self, blocks: Iterable[KVCacheBlock]) -> None:
        """Puts blocks at the old end, in the given order: the first is the next to be taken. O(n); all or nothing.

        Raises:
            ArgumentError: If something is not a block.
            BlockStateError: If a block is in a queue, belongs to another one, or is listed twice.
        """
        self._insert_after(self.fake_free_list_head, as_list("blocks", blocks))

    def get_all_free_blocks(self) -> list[KVCacheBlock]:
        """All blocks, oldest first. O(n)."""
        blocks: list[KVCacheBlock] = []
        tail = self.fake_free_list_tail
        block = self.fake_free_list_head.next_free_block
        while block is not None and block is not tail:
            blocks.append(block)
            block = block.next_free_block
        return blocks

    def _insert_after(self, place: KVCacheBlock, blocks: list[object]) -> None:
        """Links blocks in behind `place`, one by one, and takes them all out again when one cannot be."""
        end = place.next_free_block
        assert end is not None
        queue_id = self._queue_id
        last = place
        for block in blocks:
            if (
                not isinstance(block, KVCacheBlock)
                or block.prev_free_block is not None
                or (block._queue_id != queue_id and block._queue_id != 0)
                or block.block_id < 0
            ):
                _unlink_until(last, place)
                place.next_free_block = end
                raise _cannot_join(block, queue_id)
            last.next_free_block = block
            block.prev_free_block = last
            block._queue_id = queue_id
            last = block
        last.next_free_block = end
        end.prev_free_block = last
        self.num_free_blocks += len(blocks)


def _unlink_until(last: KVCacheBlock, place: KVCacheBlock) -> None:
    block = last
    while block is not place:
        before = block.prev_free_block
        assert before is not None
        block.prev_free_block = None
        block.next_free_block = None
        block = before


def _cannot_join(block: object, queue_id: int) -> ArgumentError | BlockStateError:
    if not isinstance(block, KVCacheBlock):
        return ArgumentError("blocks", block, "a KVCacheBlock is needed")
    if block.block_id < 0:
        return BlockStateError(block.block_id, "a block of a pool", "it is a sentinel")
    if block._queue_id == queue_id or block._queue_id == 0:
        return BlockStateError(block.block_id, "not in a queue", "it is in one, or listed twice")
    return BlockStateError(block.block_id, "a block of this queue", "it belongs to another")

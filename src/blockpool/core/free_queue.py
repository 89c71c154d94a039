"""`FreeKVCacheBlockQueue`: the free blocks, least recently freed first, linked through the blocks themselves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast, final

from mypy_extensions import i64

from blockpool.core.arguments import as_count, as_list, as_list_from_end
from blockpool.core.block import NOBODY, OWNER_MASK, KVCacheBlock
from blockpool.core.block_store import BlockStore
from blockpool.core.refusals import (
    cannot_copy,
    cannot_free,
    cannot_join,
    cannot_leave,
    first_stranger,
    is_own_null,
    not_own,
)
from blockpool.core.types import BlockArg, IntArg
from blockpool.errors import ArgumentError, OutOfBlocksError


@final
class _Owners:
    """Numbers the queues of a process, so that a block tells whose it is."""

    def __init__(self) -> None:
        self.last: int = NOBODY

    def next(self) -> int:
        self.last += 1
        return self.last


_owners = _Owners()


@final
class FreeKVCacheBlockQueue:
    """A doubly linked list of blocks with O(1) removal from the middle and no allocation per operation.

    Two sentinels spare the null checks: head ⇄ oldest ⇄ … ⇄ youngest ⇄ tail. The order is that of `blocks` at the
    start, afterwards least recently freed first. A block belongs to the queue that it was first put into, for good.

    Attributes:
        num_free_blocks: Length of the queue.
        owner: Number of this queue among those of the process; its blocks carry it.
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
        self.fake_free_list_head._next = self.fake_free_list_tail
        self.fake_free_list_tail._prev = self.fake_free_list_head
        self.owner: i64 = _owners.next()
        self._store: BlockStore = BlockStore(0, self.owner)
        self._gap: KVCacheBlock = self._store.gap
        self.append_n(blocks)

    def __reduce_ex__(self, protocol: object) -> tuple[object, ...]:
        raise cannot_copy("FreeKVCacheBlockQueue")

    def __del__(self) -> None:
        """Cuts the links. Neighbours refer to each other, and in a compiled build nobody else would ever drop them."""
        node: KVCacheBlock | None = self.fake_free_list_head
        while node is not None:
            after = node._next
            node._prev = None
            node._next = None
            node = after

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
        taken: list[KVCacheBlock] = []
        head = self.fake_free_list_head
        gap = self._gap
        block = head._next
        for position in range(count):
            if block is gap:
                block = self._made_at_gap(count - position)
            assert block is not None
            taken.append(block)
            after = block._next
            block._prev = None
            block._next = None
            block = after
        assert block is not None
        head._next = block
        block._prev = head
        self.num_free_blocks -= count
        return taken

    def remove(self, block: BlockArg) -> None:
        """Takes one block from wherever it stands. O(1).

        Raises:
            ArgumentError: If it is not a block.
            BlockStateError: If it is not in this queue.
        """
        if not isinstance(block, KVCacheBlock):
            raise ArgumentError("block", block, "a KVCacheBlock is needed")
        before = block._prev
        after = block._next
        if before is None or after is None or block._home & OWNER_MASK != self.owner:
            raise cannot_leave(block)
        before._next = after
        after._prev = before
        block._prev = None
        block._next = None
        self.num_free_blocks -= 1

    def append(self, block: BlockArg) -> None:
        """Puts one block at the young end. O(1). Raises as `append_n`."""
        self.append_n(cast("list[KVCacheBlock]", [block]))

    def append_n(self, blocks: Iterable[KVCacheBlock]) -> None:
        """Puts blocks at the young end, in the given order. O(n); all or nothing.

        Raises:
            ArgumentError: If something is not a block.
            BlockStateError: If a block is in a queue, belongs to another one, or is listed twice.
        """
        last = self.fake_free_list_tail._prev
        assert last is not None
        self._insert_after(last, self._joinable(blocks))

    def prepend_n(self, blocks: Iterable[KVCacheBlock]) -> None:
        """Puts blocks at the old end, in the given order: the first is the next to be taken. O(n); all or nothing.

        Raises:
            ArgumentError: If something is not a block.
            BlockStateError: If a block is in a queue, belongs to another one, or is listed twice.
        """
        self._insert_after(self.fake_free_list_head, self._joinable(blocks))

    def get_all_free_blocks(self) -> list[KVCacheBlock]:
        """All blocks, oldest first. O(n)."""
        blocks: list[KVCacheBlock] = []
        self._store.all()
        tail = self.fake_free_list_tail
        block = self.fake_free_list_head._next
        while block is not None and block is not tail:
            blocks.append(block)
            block = block._next
        return blocks

    # ------------------------------------------------------------------------------------------------- for the pool

    def provide(self, num_blocks: int) -> BlockStore:
        """Puts so many blocks into a new queue, oldest first by their ids; they are made when they are needed. O(1)."""
        self._store = BlockStore(num_blocks, self.owner)
        self._gap = self._store.gap
        self._store.open_gap(self.fake_free_list_head)
        self.num_free_blocks += num_blocks
        return self._store

    def hand_out(self, count: i64) -> list[KVCacheBlock]:
        """`BlockPool.get_new_blocks`: `popleft_n` of a count that is known to be right; each block is held once."""
        head = self.fake_free_list_head
        gap = self._gap
        taken: list[KVCacheBlock] = [head] * count if count != 1 else [head]
        block = head._next
        for position in range(count):
            if block is gap:
                block = self._made_at_gap(count - position)
            assert block is not None
            taken[position] = block
            after = block._next
            block._prev = None
            block._next = None
            block.ref_cnt = 1
            block = after
        assert block is not None
        head._next = block
        block._prev = head
        self.num_free_blocks -= count
        return taken

    def oldest(self) -> KVCacheBlock | None:
        """What stands at the old end: the next block to be taken, or the gap, or the sentinel of an empty queue."""
        return self.fake_free_list_head._next

    def claim(self, blocks: list[object]) -> int:
        """`BlockPool.touch`: raises the count of each block; one that nobody held leaves the queue.

        The null block is passed over: it is the one block that nobody holds and that is not linked.

        Args:
            blocks: Known to be of this queue.

        Returns:
            How many of those that left have a hash.
        """
        # What is usual is not counted: interpreted, a large count is a new object each time.
        num_uncached: i64 = 0
        num_stayed: i64 = 0
        # Blocks that were freed together leave together, youngest first: only the two ends of such a run are linked.
        before: KVCacheBlock | None = None
        after: KVCacheBlock | None = None
        for block in cast("list[KVCacheBlock]", blocks):
            if block.ref_cnt != 0:
                block.ref_cnt += 1
                num_stayed += 1
                continue
            if block is not before:
                if before is not None and after is not None:
                    before._next = after
                    after._prev = before
                after = block._next
            before = block._prev
            if before is None:
                num_stayed += 1
                continue
            block._prev = None
            block._next = None
            block.ref_cnt = 1
            if block._hash is None:
                num_uncached += 1
        if before is not None and after is not None:
            before._next = after
            after._prev = before
        num_left = len(blocks) - num_stayed
        self.num_free_blocks -= num_left
        return num_left - num_uncached

    def release(self, ordered_blocks: object, uncached_first: bool) -> int:
        """`BlockPool.free_blocks`: lowers the count of each block; one that nobody holds joins. All or nothing.

        Args:
            ordered_blocks: In the order in which they join the young end.
            uncached_first: Whether those without a hash join the old end instead, in the given order.

        Returns:
            How many of those that joined have a hash.

        Raises:
            ArgumentError: If something is not a block.
            BlockStateError: If a block belongs to another queue, or is listed more often than it is held.
        """
        blocks = as_list_from_end("ordered_blocks", ordered_blocks)
        owner = self.owner
        tail = self.fake_free_list_tail
        youngest = tail._prev
        assert youngest is not None
        last = youngest
        num_uncached: i64 = 0  # as in `claim`
        num_apart: i64 = 0
        to_old_end: list[object] | None = None
        try:
            for num_done, block in enumerate(reversed(cast("list[KVCacheBlock]", blocks))):
                if block._home != owner and block._home & OWNER_MASK != owner:
                    if is_own_null(block, owner):
                        num_apart += 1
                        continue
                    self._undo_release(blocks, num_done, youngest)
                    raise not_own("ordered_blocks", block)
                count = block.ref_cnt - 1
                if count == 0:
                    if block._hash is None:
                        if uncached_first:
                            if to_old_end is None:
                                to_old_end = []
                            to_old_end.append(block)
                            num_apart += 1
                            block.ref_cnt = 0
                            continue
                        num_uncached += 1
                    last._next = block
                    block._prev = last
                    last = block
                elif count < 0:
                    self._undo_release(blocks, num_done, youngest)
                    raise cannot_free(block, blocks.count(block))
                else:
                    num_apart += 1
                block.ref_cnt = count
        except (AttributeError, TypeError):  # how both builds tell what is no block
            num_done = first_stranger(blocks[::-1])
            self._undo_release(blocks, num_done, youngest)
            raise not_own("ordered_blocks", blocks[-1 - num_done]) from None
        last._next = tail
        tail._prev = last
        num_joined = len(blocks) - num_apart
        self.num_free_blocks += num_joined
        if to_old_end is not None:
            self._insert_after(self.fake_free_list_head, to_old_end)
        return num_joined - num_uncached

    def _undo_release(self, blocks: list[object], num_done: int, youngest: KVCacheBlock) -> None:
        """Gives the last so many blocks their count back, and takes them out of the queue again."""
        for block in cast("list[KVCacheBlock]", blocks)[len(blocks) - num_done :]:
            if not block.is_null:
                block._prev = None
                block._next = None
                block.ref_cnt += 1
        youngest._next = self.fake_free_list_tail

    # ------------------------------------------------------------------------------------------------- inside

    def _made_at_gap(self, count: int) -> KVCacheBlock:
        """The gap is the oldest in the queue: makes `count` blocks, if there are so many, and returns the first."""
        store = self._store
        self._gap._prev = self.fake_free_list_head  # what stood between is being taken out
        first = len(store.made)
        store.make(count)
        return store.made[first]

    def _joinable(self, blocks: object) -> list[object]:
        """The blocks of an iterable, each known to be able to join."""
        items = as_list("blocks", blocks)
        for item in items:
            if (
                not isinstance(item, KVCacheBlock)
                or item._prev is not None
                or item._home & OWNER_MASK not in (self.owner, NOBODY)
                or item.block_id < 0
            ):
                raise cannot_join(item, self.owner)
        if len(items) > 1 and len(set(items)) < len(items):
            raise cannot_join(_first_repeated(items), self.owner)
        return items

    def _insert_after(self, place: KVCacheBlock, blocks: list[object]) -> None:
        """Links in blocks that are known to be able to join."""
        end = place._next
        assert end is not None
        owner = self.owner
        last = place
        for block in cast("list[KVCacheBlock]", blocks):
            last._next = block
            block._prev = last
            if block._home & OWNER_MASK != owner:
                block._home += owner - NOBODY
            last = block
        last._next = end
        end._prev = last
        self.num_free_blocks += len(blocks)


def _first_repeated(items: list[object]) -> object:
    seen: set[object] = set()
    for item in items:
        if item in seen:
            return item
        seen.add(item)
    return None

"""FreeKVCacheBlockQueue against a plain list, step by step, with calls that must be refused."""

from collections.abc import Callable

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from blockpool import (
    BlockPoolError,
    BlockStateError,
    ConfigError,
    FreeKVCacheBlockQueue,
    KVCacheBlock,
    OutOfBlocksError,
)

from .support import ids

NUM_BLOCKS = 8


class QueueMachine(RuleBasedStateMachine):
    """`queued` and `outside` together are all blocks; the queue must list the former in order."""

    @initialize(length=st.integers(0, NUM_BLOCKS))
    def start(self, length: int) -> None:
        self.blocks = [KVCacheBlock(i) for i in range(NUM_BLOCKS)]
        self.queue = FreeKVCacheBlockQueue(self.blocks[:length])
        self.queued = self.blocks[:length]
        self.outside = self.blocks[length:]
        self.other = FreeKVCacheBlockQueue([KVCacheBlock(i) for i in range(3)])

    @precondition(lambda self: self.queued)
    @rule()
    def popleft(self) -> None:
        expected = self.queued.pop(0)
        assert self.queue.popleft() is expected
        self.outside.append(expected)

    @precondition(lambda self: not self.queued)
    @rule()
    def popleft_of_nothing(self) -> None:
        self.refused(OutOfBlocksError, self.queue.popleft)

    @rule(count=st.integers(-2, NUM_BLOCKS + 2))
    def popleft_n(self, count: int) -> None:
        if count < 0:
            self.refused(ConfigError, lambda: self.queue.popleft_n(count))
        elif count > len(self.queued):
            self.refused(OutOfBlocksError, lambda: self.queue.popleft_n(count))
        else:
            expected, self.queued = self.queued[:count], self.queued[count:]
            assert self.queue.popleft_n(count) == expected
            self.outside += expected

    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        block = data.draw(st.sampled_from(self.blocks))
        if block in self.outside:
            self.refused(BlockStateError, lambda: self.queue.remove(block))
        else:
            self.queue.remove(block)
            self.queued.remove(block)
            self.outside.append(block)

    @rule(data=st.data())
    def append(self, data: st.DataObject) -> None:
        block = data.draw(st.sampled_from(self.blocks))
        if block in self.queued:
            self.refused(BlockStateError, lambda: self.queue.append(block))
        else:
            self.queue.append(block)
            self.outside.remove(block)
            self.queued.append(block)

    @rule(data=st.data(), at_old_end=st.booleans())
    def join_n(self, data: st.DataObject, at_old_end: bool) -> None:
        joining = data.draw(
            st.lists(st.sampled_from(self.outside), unique=True) if self.outside else st.just([])
        )
        if at_old_end:
            self.queue.prepend_n(joining)
            self.queued = joining + self.queued
        else:
            self.queue.append_n(joining)
            self.queued = self.queued + joining
        self.outside = [block for block in self.outside if block not in joining]

    @rule(data=st.data(), at_old_end=st.booleans())
    def join_n_with_one_too_many(self, data: st.DataObject, at_old_end: bool) -> None:
        """A list that holds a queued, a foreign, a repeated block or a sentinel somewhere."""
        joining = data.draw(
            st.lists(st.sampled_from(self.outside), unique=True) if self.outside else st.just([])
        )
        bad = [*self.queued, *joining, *self.other.get_all_free_blocks(), self.queue.fake_free_list_tail]
        joining.insert(data.draw(st.integers(0, len(joining))), data.draw(st.sampled_from(bad)))
        if self.is_fine(joining):
            return
        join = self.queue.prepend_n if at_old_end else self.queue.append_n
        self.refused(BlockStateError, lambda: join(joining))

    def is_fine(self, joining: list[KVCacheBlock]) -> bool:
        return len(set(joining)) == len(joining) and all(block in self.outside for block in joining)

    def refused(self, error: type[BlockPoolError], call: Callable[[], object]) -> None:
        with pytest.raises(error) as caught:
            call()
        assert type(caught.value) is error

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "queue"):
            return
        assert self.queue.get_all_free_blocks() == self.queued
        assert self.queue.num_free_blocks == len(self.queued)
        backwards = []
        block = self.queue.fake_free_list_tail.prev_free_block
        while block is not self.queue.fake_free_list_head:
            assert block is not None
            backwards.append(block)
            block = block.prev_free_block
        assert backwards == self.queued[::-1]
        for block in self.outside:
            assert block.prev_free_block is None
            assert block.next_free_block is None
        assert ids(self.other.get_all_free_blocks()) == [0, 1, 2]


TestQueueMachine = QueueMachine.TestCase

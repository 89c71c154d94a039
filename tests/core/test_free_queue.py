"""FreeKVCacheBlockQueue: order, links, counts and refusals."""

from collections.abc import Callable

import pytest

from blockpool import (
    ArgumentError,
    BlockStateError,
    ConfigError,
    FreeKVCacheBlockQueue,
    KVCacheBlock,
    OutOfBlocksError,
)

from .support import ids


def make_queue(length: int) -> tuple[FreeKVCacheBlockQueue, list[KVCacheBlock]]:
    blocks = [KVCacheBlock(i) for i in range(length)]
    return FreeKVCacheBlockQueue(blocks), blocks


def backwards(queue: FreeKVCacheBlockQueue) -> list[int]:
    found = []
    block = queue.fake_free_list_tail.prev_free_block
    while block is not None and block is not queue.fake_free_list_head:
        found.append(block.block_id)
        block = block.prev_free_block
    return found


def assert_order(queue: FreeKVCacheBlockQueue, expected: list[int]) -> None:
    assert ids(queue.get_all_free_blocks()) == expected
    assert backwards(queue) == expected[::-1]
    assert queue.num_free_blocks == len(expected)


def assert_out(*blocks: KVCacheBlock) -> None:
    for block in blocks:
        assert block.prev_free_block is None
        assert block.next_free_block is None


def test_starts_in_the_given_order() -> None:
    queue, blocks = make_queue(3)
    assert_order(queue, [0, 1, 2])
    assert queue.fake_free_list_head.block_id == -1
    assert queue.fake_free_list_tail.block_id == -1
    assert queue.fake_free_list_head.next_free_block is blocks[0]
    assert queue.fake_free_list_tail.prev_free_block is blocks[2]


def test_starts_empty() -> None:
    queue, _ = make_queue(0)
    assert_order(queue, [])
    assert queue.fake_free_list_head.next_free_block is queue.fake_free_list_tail
    assert queue.fake_free_list_tail.prev_free_block is queue.fake_free_list_head


def test_popleft_takes_the_oldest_and_clears_its_links() -> None:
    queue, blocks = make_queue(2)
    assert queue.popleft() is blocks[0]
    assert_out(blocks[0])
    assert_order(queue, [1])
    assert queue.popleft() is blocks[1]
    assert_order(queue, [])


def test_popleft_of_an_empty_queue() -> None:
    queue, _ = make_queue(0)
    with pytest.raises(ValueError) as caught:
        queue.popleft()
    assert type(caught.value) is OutOfBlocksError
    assert (caught.value.wanted, caught.value.free) == (1, 0)
    assert_order(queue, [])


def test_popleft_n_takes_the_oldest_in_order() -> None:
    queue, blocks = make_queue(5)
    taken = queue.popleft_n(3)
    assert taken == blocks[:3]
    assert_out(*taken)
    assert_order(queue, [3, 4])


def test_popleft_n_of_all_and_of_none() -> None:
    queue, blocks = make_queue(3)
    assert queue.popleft_n(0) == []
    assert_order(queue, [0, 1, 2])
    assert queue.popleft_n(3) == blocks
    assert_order(queue, [])
    assert queue.popleft_n(0) == []
    queue.append_n(blocks)
    assert_order(queue, [0, 1, 2])


@pytest.mark.parametrize(
    ("count", "error"),
    [(-1, ConfigError), (-(2**70), ConfigError), (4, OutOfBlocksError), (2**70, OutOfBlocksError)],
)
def test_popleft_n_refuses_and_changes_nothing(count: int, error: type[Exception]) -> None:
    queue, blocks = make_queue(3)
    with pytest.raises(ValueError) as caught:
        queue.popleft_n(count)
    assert type(caught.value) is error
    assert_order(queue, [0, 1, 2])
    assert blocks[0].prev_free_block is queue.fake_free_list_head


def test_popleft_n_names_both_numbers() -> None:
    queue, _ = make_queue(3)
    with pytest.raises(OutOfBlocksError) as caught:
        queue.popleft_n(4)
    assert (caught.value.wanted, caught.value.free) == (4, 3)


@pytest.mark.parametrize("position", [0, 1, 2, 3])
def test_remove_from_anywhere(position: int) -> None:
    queue, blocks = make_queue(4)
    queue.remove(blocks[position])
    assert_out(blocks[position])
    assert_order(queue, [i for i in range(4) if i != position])


def test_remove_the_only_one() -> None:
    queue, blocks = make_queue(1)
    queue.remove(blocks[0])
    assert_order(queue, [])
    queue.append(blocks[0])
    assert_order(queue, [0])


def test_remove_twice_is_refused() -> None:
    queue, blocks = make_queue(3)
    queue.remove(blocks[1])
    with pytest.raises(RuntimeError) as caught:
        queue.remove(blocks[1])
    assert type(caught.value) is BlockStateError
    assert caught.value.block_id == 1
    assert_order(queue, [0, 2])


def test_remove_of_a_block_that_was_never_in() -> None:
    queue, _ = make_queue(3)
    with pytest.raises(BlockStateError):
        queue.remove(KVCacheBlock(1))
    assert_order(queue, [0, 1, 2])


def test_remove_of_a_sentinel_is_refused() -> None:
    queue, _ = make_queue(2)
    for sentinel in (queue.fake_free_list_head, queue.fake_free_list_tail):
        with pytest.raises(BlockStateError):
            queue.remove(sentinel)
        assert_order(queue, [0, 1])


def test_append_goes_to_the_young_end() -> None:
    queue, blocks = make_queue(3)
    queue.append(queue.popleft())
    assert_order(queue, [1, 2, 0])
    assert queue.fake_free_list_tail.prev_free_block is blocks[0]


def test_append_n_keeps_the_given_order() -> None:
    queue, blocks = make_queue(4)
    queue.popleft_n(3)
    queue.append_n([blocks[2], blocks[0], blocks[1]])
    assert_order(queue, [3, 2, 0, 1])


def test_prepend_n_keeps_the_given_order() -> None:
    queue, blocks = make_queue(4)
    queue.popleft_n(3)
    queue.prepend_n([blocks[2], blocks[0]])
    assert_order(queue, [2, 0, 3])
    queue.prepend_n([blocks[1]])
    assert_order(queue, [1, 2, 0, 3])


def test_prepend_n_to_an_empty_queue() -> None:
    queue, blocks = make_queue(2)
    queue.popleft_n(2)
    queue.prepend_n([blocks[1], blocks[0]])
    assert_order(queue, [1, 0])


def test_joining_nothing_changes_nothing() -> None:
    queue, _ = make_queue(2)
    queue.append_n([])
    queue.prepend_n([])
    assert_order(queue, [0, 1])


Join = Callable[[FreeKVCacheBlockQueue, list[KVCacheBlock]], None]
JOINS = {
    "append": lambda queue, blocks: queue.append(blocks[-1]),
    "append_n": lambda queue, blocks: queue.append_n(blocks),
    "prepend_n": lambda queue, blocks: queue.prepend_n(blocks),
}


@pytest.mark.parametrize("how", JOINS)
def test_a_queued_block_cannot_join_again(how: str) -> None:
    queue, blocks = make_queue(4)
    free = queue.popleft()
    with pytest.raises(BlockStateError) as caught:
        JOINS[how](queue, [free, blocks[2]])
    assert caught.value.block_id == 2
    assert_order(queue, [1, 2, 3])
    assert_out(free)


@pytest.mark.parametrize("how", ["append_n", "prepend_n"])
def test_a_block_listed_twice_cannot_join(how: str) -> None:
    queue, blocks = make_queue(3)
    queue.popleft_n(2)
    with pytest.raises(BlockStateError) as caught:
        JOINS[how](queue, [blocks[0], blocks[1], blocks[0]])
    assert caught.value.block_id == 0
    assert_order(queue, [2])
    assert_out(blocks[0], blocks[1])


@pytest.mark.parametrize("how", JOINS)
def test_a_sentinel_cannot_join(how: str) -> None:
    queue, _ = make_queue(2)
    with pytest.raises(BlockStateError):
        JOINS[how](queue, [queue.fake_free_list_head])
    assert_order(queue, [0, 1])


@pytest.mark.parametrize(
    "call",
    [
        lambda queue: queue.remove("block"),
        lambda queue: queue.remove(None),
        lambda queue: queue.append(None),
        lambda queue: queue.append(3),
        lambda queue: queue.append_n(None),
        lambda queue: queue.append_n([3]),
        lambda queue: queue.prepend_n([None]),
        lambda queue: queue.prepend_n(7),
        lambda queue: queue.popleft_n("2"),
        lambda queue: queue.popleft_n(1.0),
        lambda queue: queue.popleft_n(None),
    ],
)
def test_wrong_types(call: Callable[[FreeKVCacheBlockQueue], None]) -> None:
    queue, _ = make_queue(3)
    with pytest.raises(ArgumentError):
        call(queue)
    assert_order(queue, [0, 1, 2])


@pytest.mark.parametrize("blocks", [None, 5, ["block"], [None]])
def test_a_queue_is_made_of_blocks(blocks: object) -> None:
    with pytest.raises(ArgumentError):
        FreeKVCacheBlockQueue(blocks)  # type: ignore[arg-type]


def test_a_refused_block_still_belongs_to_nobody() -> None:
    queue, _ = make_queue(2)
    stray = KVCacheBlock(7)
    with pytest.raises(ArgumentError):
        queue.append_n([stray, "no block"])  # type: ignore[list-item]
    other = FreeKVCacheBlockQueue([])
    other.append(stray)
    assert_order(other, [7])
    assert_order(queue, [0, 1])


def test_a_block_of_another_queue_is_refused() -> None:
    queue, _ = make_queue(3)
    other, others = make_queue(3)
    with pytest.raises(BlockStateError):
        queue.remove(others[1])
    with pytest.raises(BlockStateError):
        queue.append(others[1])
    assert_order(queue, [0, 1, 2])
    assert_order(other, [0, 1, 2])


@pytest.mark.parametrize("position", [0, 2])
def test_a_queue_of_a_block_listed_twice(position: int) -> None:
    blocks = [KVCacheBlock(i) for i in range(3)]
    with pytest.raises(BlockStateError) as caught:
        FreeKVCacheBlockQueue([*blocks, blocks[position]])
    assert caught.value.block_id == position
    assert_out(*blocks)
    assert_order(FreeKVCacheBlockQueue(blocks), [0, 1, 2])


def test_a_bad_block_late_in_the_list_leaves_the_early_ones_out() -> None:
    queue, blocks = make_queue(3)
    queue.popleft_n(2)
    for join in (queue.append_n, queue.prepend_n):
        with pytest.raises(ArgumentError):
            join([blocks[0], blocks[1], "no block"])  # type: ignore[list-item]
        assert_out(blocks[0], blocks[1])
        assert_order(queue, [2])

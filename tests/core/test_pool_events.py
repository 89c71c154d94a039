"""What BlockPool tells the outside: BlockStored, BlockRemoved, AllBlocksCleared."""

import pytest

from blockpool import AllBlocksCleared, BlockPool, BlockRemoved, BlockStored

from .support import (
    FakeLoRA,
    FakeRequest,
    IndexConsumer,
    cache_chain,
    chain,
    external,
    ids,
    indexed_copies,
)


def stored(
    hashes: list[bytes], parent: bytes | None, tokens: range, block_size: int = 4, **fields: object
) -> BlockStored:
    return BlockStored(
        block_hashes=[external(block_hash) for block_hash in hashes],
        parent_block_hash=None if parent is None else external(parent),
        token_ids=list(tokens),
        block_size=block_size,
        lora_id=fields.get("lora_id"),
        medium="GPU",
        lora_name=fields.get("lora_name"),
    )


def test_the_start_of_a_prompt_has_no_parent() -> None:
    pool = BlockPool(6, True, 4, True)
    _, request = cache_chain(pool, "abc")
    assert pool.take_events() == [stored(request.block_hashes, None, range(12))]


def test_a_continuation_names_its_parent() -> None:
    pool = BlockPool(6, True, 4, True)
    hashes = chain("abcd")
    request = FakeRequest(hashes, range(100, 116))
    blocks = pool.get_new_blocks(4)
    pool.cache_full_blocks(request, blocks, 0, 2, 4, 0)
    pool.cache_full_blocks(request, blocks, 2, 3, 4, 0)
    assert pool.take_events() == [
        stored(hashes[:2], None, range(100, 108)),
        stored(hashes[2:3], hashes[1], range(108, 112)),
    ]


def test_lora_is_named() -> None:
    pool = BlockPool(6, True, 4, True)
    hashes = chain("a")
    request = FakeRequest(hashes, range(4), FakeLoRA("adapter", 7))
    pool.cache_full_blocks(request, pool.get_new_blocks(1), 0, 1, 4, 0)
    assert pool.take_events() == [stored(hashes, None, range(4), lora_id=7, lora_name="adapter")]


def test_token_ids_are_a_list_of_their_own() -> None:
    pool = BlockPool(6, True, 4, True)
    request = FakeRequest(chain("a"), range(4))
    pool.cache_full_blocks(request, pool.get_new_blocks(1), 0, 1, 4, 0)
    request.all_token_ids[0] = 99
    (event,) = pool.take_events()
    assert event.token_ids == [0, 1, 2, 3]  # type: ignore[union-attr]


def test_tokens_may_be_any_sequence() -> None:
    pool = BlockPool(6, True, 4, True)
    request = FakeRequest(chain("ab"))
    request.all_token_ids = tuple(range(9))  # type: ignore[assignment]
    pool.cache_full_blocks(request, pool.get_new_blocks(2), 0, 2, 4, 0)
    (event,) = pool.take_events()
    assert list(event.token_ids) == list(range(8))  # type: ignore[union-attr]


def test_raw_hashes() -> None:
    pool = BlockPool(4, True, 4, True, int_block_hashes=False)
    hashes = chain("abc")
    request = FakeRequest(hashes, range(12))
    blocks = pool.get_new_blocks(3)
    pool.cache_full_blocks(request, blocks, 0, 1, 4, 5)
    pool.cache_full_blocks(request, blocks, 1, 3, 4, 5)
    pool.evict_blocks([1])
    first, second, removed = pool.take_events()
    assert isinstance(first, BlockStored)
    assert (first.block_hashes, first.parent_block_hash) == ([hashes[0]], None)
    assert isinstance(second, BlockStored)
    assert (second.block_hashes, second.parent_block_hash) == (hashes[1:], hashes[0])
    assert removed == BlockRemoved([hashes[0]], "GPU")


def test_recycling_emits_one_removal_per_block() -> None:
    pool = BlockPool(4, True, 4, True)
    blocks, request = cache_chain(pool, "abc")
    pool.free_blocks(reversed(blocks))
    pool.take_events()
    pool.get_new_blocks(2)
    hashes = request.block_hashes
    assert pool.take_events() == [
        BlockRemoved([external(hashes[2])], "GPU"),
        BlockRemoved([external(hashes[1])], "GPU"),
    ]


def test_freeing_and_touching_emit_nothing() -> None:
    pool = BlockPool(4, True, 4, True)
    blocks, _ = cache_chain(pool, "abc")
    pool.take_events()
    pool.free_blocks(reversed(blocks))
    pool.touch(blocks)
    assert pool.take_events() == []


def test_blank_blocks_emit_nothing_when_recycled_or_evicted() -> None:
    pool = BlockPool(4, True, 4, True)
    blocks = pool.get_new_blocks(3)
    pool.free_blocks(blocks)
    pool.get_new_blocks(3)
    pool.evict_blocks(ids(blocks))
    assert pool.take_events() == []


def test_evict_blocks_emits_removals_whatever_the_count() -> None:
    pool = BlockPool(4, True, 4, True)
    blocks, request = cache_chain(pool, "ab")
    pool.free_blocks(blocks[1:])
    pool.take_events()
    pool.evict_blocks([2, 1, 2])
    assert pool.take_events() == [
        BlockRemoved([external(request.block_hashes[1])], "GPU"),
        BlockRemoved([external(request.block_hashes[0])], "GPU"),
    ]


def test_reset_emits_one_clear_and_no_removals() -> None:
    pool = BlockPool(4, True, 4, True)
    blocks, _ = cache_chain(pool, "ab")
    pool.free_blocks(blocks)
    pool.take_events()
    assert pool.reset_prefix_cache() is True
    assert pool.take_events() == [AllBlocksCleared()]


def test_take_events_swaps_the_list() -> None:
    pool = BlockPool(4, True, 4, True)
    cache_chain(pool, "a")
    queue = pool.kv_event_queue
    taken = pool.take_events()
    assert taken is queue
    assert pool.kv_event_queue is not queue
    assert pool.take_events() == []
    cache_chain(pool, "b")
    assert len(taken) == 1
    assert len(pool.take_events()) == 1


def test_events_off() -> None:
    pool = BlockPool(4, True, 4)
    blocks, _ = cache_chain(pool, "ab")
    pool.evict_blocks({1})
    pool.free_blocks(blocks)
    assert pool.reset_prefix_cache() is True
    assert pool.take_events() == []
    assert pool.kv_event_queue == []


def test_with_events_off_only_the_hashes_of_a_request_are_read() -> None:
    class Bare:
        block_hashes = chain("a")

    pool = BlockPool(4, True, 4)
    blocks = pool.get_new_blocks(1)
    pool.cache_full_blocks(Bare(), blocks, 0, 1, 4, 0)  # type: ignore[arg-type]
    assert pool.get_cached_block(Bare.block_hashes[0], [0]) == blocks


# A table is written as letters: "." is the null block, "x" a block of its own.
RUNS = [
    ("xx", 0, [(0, 2)]),
    ("..xx", 0, [(2, 4)]),
    ("xx..", 0, [(0, 2)]),
    ("x.xx", 0, [(0, 1), (2, 4)]),
    (".x.x.", 0, [(1, 2), (3, 4)]),
    ("....", 0, []),
    ("xx..x", 2, [(4, 5)]),
    ("xxx.x", 1, [(1, 3), (4, 5)]),
    ("x...", 1, []),
    (".", 0, []),
]


@pytest.mark.parametrize(("table", "cached", "runs"), RUNS)
def test_one_event_per_contiguous_run(table: str, cached: int, runs: list[tuple[int, int]]) -> None:
    pool = BlockPool(10, True, 4, True)
    hashes = chain(range(len(table)))
    request = FakeRequest(hashes, range(4 * len(table)))
    blocks = [pool.null_block if mark == "." else pool.get_new_blocks(1)[0] for mark in table]
    pool.cache_full_blocks(request, blocks, cached, len(table), 4, 0)
    assert pool.take_events() == [
        stored(hashes[start:end], hashes[start - 1] if start else None, range(4 * start, 4 * end))
        for start, end in runs
    ]


def test_a_consumer_follows_the_index() -> None:
    pool = BlockPool(6, True, 4, True)
    consumer = IndexConsumer()
    for prompt in ("ab", "abc", "xy", "ab", "q"):
        blocks, _ = cache_chain(pool, prompt)
        consumer.apply(pool.take_events())
        assert consumer.held() == indexed_copies(pool)
        pool.free_blocks(reversed(blocks))
    pool.evict_blocks(range(6))
    consumer.apply(pool.take_events())
    assert not consumer.held()
    assert not indexed_copies(pool)

"""BlockPool with several KV cache groups: all or nothing, and coarse hashes derived from fine ones."""

import pytest

from blockpool import BlockHashListWithBlockSize, BlockPool, BlockStored, ConfigError

from .support import FakeRequest, assert_refused, cache_chain, chain, external, ids, key


def test_one_block_per_group() -> None:
    pool = BlockPool(10, True, 16)
    first, request = cache_chain(pool, "ab", group_id=0)
    second, _ = cache_chain(pool, "ab", group_id=1)
    for i, block_hash in enumerate(request.block_hashes):
        assert pool.get_cached_block(block_hash, [0, 1]) == [first[i], second[i]]
        assert pool.get_cached_block(block_hash, [1, 0]) == [second[i], first[i]]
        assert pool.get_cached_block(block_hash, [1]) == [second[i]]
        assert second[i].block_hash == key(block_hash, 1)
    assert len(pool.cached_block_hash_to_block) == 4


def test_a_miss_in_any_group_is_a_miss() -> None:
    pool = BlockPool(10, True, 16)
    first, request = cache_chain(pool, "ab", group_id=0)
    second, _ = cache_chain(pool, "ab", group_id=1)
    pool.evict_blocks({second[1].block_id})
    assert pool.get_cached_block(request.block_hashes[1], [0, 1]) is None
    assert pool.get_cached_block(request.block_hashes[1], [0]) == [first[1]]
    assert pool.find_longest_prefix(request.block_hashes, [0, 1]) == (first[:1], second[:1])
    assert pool.get_cached_block(request.block_hashes[0], [0, 1, 2]) is None


@pytest.mark.parametrize("group_id", [0, 1, 255, 256, 2**16, 2**31, 2**32 - 1])
def test_any_group_id_of_four_bytes(group_id: int) -> None:
    pool = BlockPool(10, True, 16)
    blocks, request = cache_chain(pool, "ab", group_id=group_id)
    assert blocks[0].block_hash == key(request.block_hashes[0], group_id)
    assert pool.find_longest_prefix(request.block_hashes, [group_id]) == (blocks,)
    pool.check_invariants()


def test_no_groups_at_all() -> None:
    pool = BlockPool(10, True, 16)
    _, request = cache_chain(pool, "ab")
    assert pool.get_cached_block(request.block_hashes[0], []) == []
    assert pool.find_longest_prefix(request.block_hashes, []) == ()


def test_a_coarse_group_is_indexed_under_concatenated_hashes() -> None:
    pool = BlockPool(10, True, 16)
    fine = chain("abcdefg")
    request = FakeRequest(fine, range(7 * 16))
    blocks = pool.get_new_blocks(3)
    pool.cache_full_blocks(request, blocks, 0, 3, 32, 1)
    assert [block.block_hash for block in blocks] == [
        key(fine[0] + fine[1], 1),
        key(fine[2] + fine[3], 1),
        key(fine[4] + fine[5], 1),
    ]
    coarse = BlockHashListWithBlockSize(fine, 16, 32)
    assert pool.find_longest_prefix(coarse, [1]) == (blocks,)
    assert pool.get_cached_block(coarse[1], [1]) == [blocks[1]]
    assert pool.find_longest_prefix(fine, [1]) == ([],)
    pool.check_invariants()


def test_a_coarse_group_grows() -> None:
    pool = BlockPool(10, True, 16)
    fine = chain("abcdef")
    blocks = pool.get_new_blocks(2)
    pool.cache_full_blocks(FakeRequest(fine), blocks, 0, 1, 48, 0)
    pool.cache_full_blocks(FakeRequest(fine), blocks, 1, 2, 48, 0)
    assert blocks[1].block_hash == key(fine[3] + fine[4] + fine[5], 0)


def test_events_of_a_coarse_group() -> None:
    pool = BlockPool(10, True, 16, True)
    fine = chain("abcdef")
    request = FakeRequest(fine, range(100, 100 + 96))
    blocks = pool.get_new_blocks(3)
    pool.cache_full_blocks(request, blocks, 0, 1, 32, 0)
    pool.cache_full_blocks(request, blocks, 1, 3, 32, 0)
    first, second = pool.take_events()
    assert isinstance(first, BlockStored)
    assert first.block_hashes == [external(fine[1])]
    assert first.token_ids == list(range(100, 132))
    assert first.block_size == 32
    assert isinstance(second, BlockStored)
    assert second.block_hashes == [external(fine[3]), external(fine[5])]
    assert second.parent_block_hash == external(fine[1])
    assert second.token_ids == list(range(132, 196))


def test_raw_events_of_a_coarse_group() -> None:
    pool = BlockPool(10, True, 16, True, int_block_hashes=False)
    fine = chain("abcd")
    blocks = pool.get_new_blocks(2)
    pool.cache_full_blocks(FakeRequest(fine, range(64)), blocks, 0, 2, 32, 0)
    (event,) = pool.take_events()
    assert event.block_hashes == [fine[0] + fine[1], fine[2] + fine[3]]  # type: ignore[union-attr]


@pytest.mark.parametrize("block_size", [24, 8, 17, 0, -16, -32])
def test_block_sizes_must_be_multiples(block_size: int) -> None:
    pool = BlockPool(10, True, 16, True)
    blocks = pool.get_new_blocks(1)
    request = FakeRequest(chain("abcd"), range(64))
    error = assert_refused(
        pool, ConfigError, lambda: pool.cache_full_blocks(request, blocks, 0, 1, block_size, 0)
    )
    assert isinstance(error, ValueError)


def test_too_few_fine_hashes_for_the_coarse_blocks() -> None:
    pool = BlockPool(10, True, 16, True)
    blocks = pool.get_new_blocks(2)
    request = FakeRequest(chain("abc"), range(64))
    assert_refused(pool, ConfigError, lambda: pool.cache_full_blocks(request, blocks, 0, 2, 32, 0))
    pool.cache_full_blocks(request, blocks, 0, 1, 32, 0)
    assert ids(
        pool.find_longest_prefix(BlockHashListWithBlockSize(request.block_hashes, 16, 32), [0])[0]
    ) == [1]


def test_fine_and_coarse_groups_share_one_pool() -> None:
    """A hybrid model: 64 tokens are four fine blocks of one group and two coarse ones of another."""
    pool = BlockPool(7, True, 16, True)
    hashes = chain("abcd")
    request = FakeRequest(hashes, range(64))
    fine, coarse = pool.get_new_blocks(4), pool.get_new_blocks(2)
    pool.cache_full_blocks(request, fine, 0, 4, 16, 0)
    pool.cache_full_blocks(request, coarse, 0, 2, 32, 1)
    assert len(pool.cached_block_hash_to_block) == 6
    pool.free_blocks([*reversed(fine), *reversed(coarse)])
    assert tuple(pool.occupancy()) == (0, 6, 0)
    pool.get_new_blocks(4)
    assert pool.find_longest_prefix(hashes, [0]) == ([],)
    assert pool.find_longest_prefix(BlockHashListWithBlockSize(hashes, 16, 32), [1]) == (coarse,)
    pool.check_invariants()

"""The faults that people met elsewhere, by their numbers: each with its right outcome."""

import itertools
import json
import logging
import subprocess
import sys

import pytest

from blockpool import (
    HASH_ALGORITHMS,
    AllBlocksCleared,
    BlockHasher,
    BlockPool,
    BlockRemoved,
    BlockStateError,
    BlockStored,
    ConfigError,
    MultiModalInput,
    OutOfBlocksError,
    block_extra_keys,
)

from .support import (
    FakeRequest,
    IndexConsumer,
    assert_refused,
    cache_chain,
    chain,
    external,
    ids,
    indexed_copies,
    queue_ids,
    snapshot,
)

each_algorithm = pytest.mark.parametrize("algorithm", HASH_ALGORITHMS)


def test_case_1_a_block_listed_twice_is_freed_twice_and_no_oftener() -> None:
    pool = BlockPool(5, True, 16)
    (block,) = pool.get_new_blocks(1)
    pool.touch([block])
    pool.free_blocks([block, block])
    assert block.ref_cnt == 0
    assert queue_ids(pool).count(block.block_id) == 1
    assert pool.get_num_free_blocks() == 4
    error = assert_refused(pool, BlockStateError, lambda: pool.free_blocks([block]))
    assert isinstance(error, BlockStateError)
    assert error.block_id == block.block_id == 1
    assert "1" in str(error)


def test_case_2_no_fewer_than_none_and_no_more_than_all() -> None:
    pool = BlockPool(5, True, 16, True)
    cache_chain(pool, "a")
    pool.free_blocks([pool.blocks[1]])
    error = assert_refused(pool, ConfigError, lambda: pool.get_new_blocks(-1))
    assert isinstance(error, ValueError)
    before = snapshot(pool)
    assert pool.get_new_blocks(0) == []
    assert snapshot(pool) == before
    error = assert_refused(pool, OutOfBlocksError, lambda: pool.get_new_blocks(5))
    assert isinstance(error, ValueError)
    assert_refused(pool, ConfigError, lambda: pool.free_block_queue.popleft_n(-1))


@each_algorithm
def test_case_3_salt_lora_and_image_of_one_name_are_kept_apart(algorithm: str) -> None:
    hasher = BlockHasher(algorithm, 16, "0")
    tokens = list(range(64))
    variants = {
        "lora a": block_extra_keys(4, 16, lora_name="a"),
        "salt a": block_extra_keys(4, 16, cache_salt="a"),
        "salt lora:a": block_extra_keys(4, 16, cache_salt="lora:a"),
        "image a": block_extra_keys(4, 16, mm_inputs=[MultiModalInput("a", 0, 16)]),
        "plain": None,
    }
    hashes = {name: hasher.hash_tokens(tokens, extra_keys=keys) for name, keys in variants.items()}
    for one, other in itertools.combinations(variants, 2):
        assert not set(hashes[one]) & set(hashes[other]), (one, other)
    pool = BlockPool(30, True, 16)
    for name in variants:
        assert pool.find_longest_prefix(hashes[name], [0]) == ([],), name
        pool.cache_full_blocks(FakeRequest(hashes[name]), pool.get_new_blocks(4), 0, 4, 16, 0)
    for name in variants:
        assert len(pool.find_longest_prefix(hashes[name], [0])[0]) == 4


@each_algorithm
def test_case_4_one_image_at_two_offsets(algorithm: str) -> None:
    hasher = BlockHasher(algorithm, 16, "0")
    at_3 = block_extra_keys(1, 16, mm_inputs=[MultiModalInput("i", 3, 5)])
    at_8 = block_extra_keys(1, 16, mm_inputs=[MultiModalInput("i", 8, 5)])
    tokens = [7] * 16
    assert at_3 != at_8
    assert hasher.hash_block(None, tokens, at_3[0]) != hasher.hash_block(None, tokens, at_8[0])


@pytest.mark.parametrize(
    ("offset", "length", "touched"),
    [
        (8, 8, {0}),
        (8, 24, {0, 1}),
        (16, 4, {1}),
        (16, 16, {1}),
        (10, 30, {0, 1, 2}),
        (31, 2, {1, 2}),
        (0, 64, {0, 1, 2, 3}),
    ],
)
def test_case_4_an_image_touches_just_the_blocks_that_it_overlaps(
    offset: int, length: int, touched: set[int]
) -> None:
    keys = block_extra_keys(4, 16, mm_inputs=[MultiModalInput("i", offset, length)])
    assert {i for i, key in enumerate(keys) if key is not None} == touched
    for i in touched:
        assert keys[i] == (("mm", "i", offset - 16 * i),)


def test_case_5_two_copies_and_every_copy_told() -> None:
    pool = BlockPool(5, True, 16, True)
    consumer = IndexConsumer()
    (first,), request = cache_chain(pool, "a")
    (second,), _ = cache_chain(pool, "a")
    assert (first.block_id, second.block_id) == (1, 2)
    (block_hash,) = request.block_hashes
    consumer.apply(pool.take_events())
    assert consumer.held() == {external(block_hash): 2}
    pool.evict_blocks({1})
    assert pool.get_cached_block(block_hash, [0]) == [second]
    removed = BlockRemoved([external(block_hash)], "GPU")
    events = pool.take_events()
    assert events == [removed]
    consumer.apply(events)
    assert consumer.held() == {external(block_hash): 1}
    pool.evict_blocks({2})
    assert pool.get_cached_block(block_hash, [0]) is None
    events = pool.take_events()
    assert events == [removed]
    consumer.apply(events)
    assert not consumer.held()
    assert not indexed_copies(pool)


def test_case_6_a_sliding_window_tells_the_tokens_of_the_named_blocks_only() -> None:
    pool = BlockPool(5, True, 4, True)
    null = pool.null_block
    hashes = chain("abcd")
    request = FakeRequest(hashes, range(16))
    b3, b4 = pool.get_new_blocks(2)
    pool.cache_full_blocks(request, [null, null, b3, b4], 0, 4, 4, 0)
    (event,) = pool.take_events()
    assert isinstance(event, BlockStored)
    assert event.block_hashes == [external(hashes[2]), external(hashes[3])]
    assert event.parent_block_hash == external(hashes[1])
    assert event.token_ids == list(range(8, 16))
    pool.cache_full_blocks(request, [null] * 4, 0, 4, 4, 0)
    assert pool.take_events() == []


def test_case_7_the_null_block_is_not_counted() -> None:
    pool = BlockPool(5, True, 16)
    before = snapshot(pool)
    pool.free_blocks([pool.null_block] * 8)
    assert snapshot(pool) == before
    pool.touch([pool.null_block])
    assert snapshot(pool) == before
    assert pool.null_block.block_id not in queue_ids(pool)


@pytest.mark.parametrize(("reuse_uncached_first", "hits"), [(False, 0), (True, 4)])
def test_case_11_blocks_that_cannot_hit_push_out_a_prefix_that_can(
    reuse_uncached_first: bool, hits: int
) -> None:
    pool = BlockPool(11, True, 16, reuse_uncached_first=reuse_uncached_first)
    request = FakeRequest(chain("abcd"))
    blocks = pool.get_new_blocks(5)
    pool.cache_full_blocks(request, blocks, 0, 4, 16, 0)
    pool.free_blocks(reversed(blocks))
    for _ in range(50):
        pool.free_blocks(pool.get_new_blocks(1))
    assert len(pool.find_longest_prefix(request.block_hashes, [0])[0]) == hits


def test_case_13_reset(caplog: pytest.LogCaptureFixture) -> None:
    pool = BlockPool(5, True, 16, True)
    blocks, request = cache_chain(pool, "abc")
    pool.free_blocks([blocks[2], blocks[1]])
    before = snapshot(pool)
    with caplog.at_level(logging.WARNING, logger="blockpool"):
        assert pool.reset_prefix_cache() is False
    assert snapshot(pool) == before
    assert len(caplog.records) == 1
    assert "1" in caplog.text
    pool.free_blocks([blocks[0]])
    pool.take_events()
    assert pool.reset_prefix_cache() is True
    for block_hash in request.block_hashes:
        assert pool.get_cached_block(block_hash, [0]) is None
    assert pool.take_events() == [AllBlocksCleared()]


def test_case_14_three_numbers() -> None:
    pool = BlockPool(11, True, 16)
    cached, _ = cache_chain(pool, "abc")
    pool.get_new_blocks(5)
    pool.free_blocks(reversed(cached))
    assert pool.get_usage() == 0.5
    occupancy = pool.occupancy()
    assert (occupancy.in_use, occupancy.cached_idle, occupancy.blank) == (5, 3, 2)


def test_case_15_an_unknown_block_spoils_the_whole_call() -> None:
    pool = BlockPool(10, True, 16, True)
    blocks, _ = cache_chain(pool, "abc")
    error = assert_refused(pool, BlockStateError, lambda: pool.evict_blocks({3, 999}))
    assert isinstance(error, BlockStateError)
    assert error.block_id == 999
    assert "999" in str(error)
    assert blocks[2].block_id == 3
    assert blocks[2].block_hash is not None


HASH_IN_A_PROCESS = """
import json, sys
from blockpool import BlockHasher
algorithm, seed = json.loads(sys.argv[1])
hasher = BlockHasher(algorithm, 16, seed)
hashes = hasher.hash_tokens(list(range(64)), extra_keys=[("a", 1), None, ("b" * 300,), None])
print(json.dumps([[block_hash.hex() for block_hash in hashes], str(hasher.fingerprint)]))
"""


def hash_in_a_process(algorithm: str, seed: str | None) -> tuple[list[str], str]:
    command = [sys.executable, "-c", HASH_IN_A_PROCESS, json.dumps([algorithm, seed])]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    hashes, fingerprint = json.loads(done.stdout)
    return hashes, fingerprint


@each_algorithm
def test_case_16_processes_agree_by_their_seed_and_the_fingerprint_tells(algorithm: str) -> None:
    unseeded = [hash_in_a_process(algorithm, None) for _ in range(2)]
    same = [hash_in_a_process(algorithm, "seed") for _ in range(2)]
    other = hash_in_a_process(algorithm, "other seed")
    assert same[0] == same[1]
    different = [unseeded[0], unseeded[1], same[0], other]
    for one, two in itertools.combinations(different, 2):
        assert not set(one[0]) & set(two[0])
        assert one[1] != two[1]
    here = BlockHasher(algorithm, 16, "seed")
    assert str(here.fingerprint) == same[0][1]


def test_case_16_the_fingerprint_also_tells_block_size_and_schema() -> None:
    plain = BlockHasher("sha256", 16, "0").fingerprint
    assert BlockHasher("sha256", 32, "0").fingerprint != plain
    assert BlockHasher("sha256", 16, "0", key_schema="untagged").fingerprint != plain
    assert BlockHasher("sha256_cbor", 16, "0").fingerprint != plain


def test_case_18_idle_but_cached_is_no_leak() -> None:
    pool = BlockPool(11, True, 16)
    blocks, _ = cache_chain(pool, range(10))
    assert pool.get_usage() == 1.0
    pool.free_blocks(reversed(blocks))
    assert pool.get_usage() == 0.0
    assert pool.get_num_free_blocks() == 10
    assert tuple(pool.occupancy()) == (0, 10, 0)


def test_case_19_a_request_too_big_for_the_pool_is_refused_with_both_numbers() -> None:
    pool = BlockPool(11, True, 16)
    error = assert_refused(pool, OutOfBlocksError, lambda: pool.get_new_blocks(11))
    assert isinstance(error, OutOfBlocksError)
    assert (error.wanted, error.free) == (11, 10)
    assert "11" in str(error)
    assert "10" in str(error)
    assert ids(pool.get_new_blocks(10)) == list(range(1, 11))

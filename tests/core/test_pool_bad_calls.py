"""Bad calls on BlockPool: the typed error, the facts on it, and nothing changed (I7)."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from blockpool import (
    ArgumentError,
    BlockPool,
    BlockStateError,
    ConfigError,
    FreeKVCacheBlockQueue,
    HashAlreadySetError,
    KVCacheBlock,
    OutOfBlocksError,
)

from .support import FakeLoRA, FakeRequest, RecordingCollector, assert_refused, cache_chain, chain, snapshot

NUM_BLOCKS = 10


class Scene:
    """A pool with blocks of every kind: held 1 and 2 (indexed), 3 (blank); idle 4 (indexed); free 5 to 9."""

    def __init__(self) -> None:
        self.pool = BlockPool(NUM_BLOCKS, True, 4, True, RecordingCollector())
        self.hashes = chain("abcdef")
        self.request = FakeRequest(self.hashes, range(24))
        self.indexed = self.pool.get_new_blocks(2)
        self.pool.cache_full_blocks(self.request, self.indexed, 0, 2, 4, 0)
        (self.blank,) = self.pool.get_new_blocks(1)
        (self.idle,), _ = cache_chain(self.pool, "z")
        self.pool.free_blocks([self.idle])
        self.free = self.pool.blocks[5]
        other = BlockPool(NUM_BLOCKS, True, 4)
        self.foreign = other.get_new_blocks(3)
        self.foreign_null = other.null_block
        self.stray = KVCacheBlock(3)

    def cache(self, *arguments: Any) -> None:
        self.pool.cache_full_blocks(*arguments)


def broken(blocks: list[Any]) -> Iterator[Any]:
    yield from blocks
    raise ZeroDivisionError("the caller's own")


Call = Callable[[Scene], object]


@pytest.fixture
def scene() -> Scene:
    return Scene()


NO_NUMBERS: list[Any] = ["1", None, 1.0, [1], b"1"]


@pytest.mark.parametrize("wrong", NO_NUMBERS)
def test_counts_are_integers(scene: Scene, wrong: Any) -> None:
    pool, blocks = scene.pool, [*scene.indexed, scene.blank]
    assert_refused(pool, ArgumentError, lambda: pool.get_new_blocks(wrong))
    assert_refused(pool, ArgumentError, lambda: scene.cache(scene.request, blocks, wrong, 3, 4, 0))
    assert_refused(pool, ArgumentError, lambda: scene.cache(scene.request, blocks, 2, wrong, 4, 0))
    assert_refused(pool, ArgumentError, lambda: scene.cache(scene.request, blocks, 2, 3, wrong, 0))
    assert_refused(pool, ArgumentError, lambda: scene.cache(scene.request, blocks, 2, 3, 4, wrong))
    assert_refused(pool, ArgumentError, lambda: pool.get_cached_block(scene.hashes[0], [wrong]))
    assert_refused(pool, ArgumentError, lambda: pool.find_longest_prefix(scene.hashes, [wrong]))
    assert_refused(pool, ArgumentError, lambda: pool.evict_blocks([1, wrong]))
    if wrong is not None:
        assert_refused(pool, ArgumentError, lambda: pool.find_longest_prefix(scene.hashes, [0], wrong))


WRONG_TYPES: dict[str, Call] = {
    "look up text": lambda s: s.pool.get_cached_block("hash", [0]),
    "look up a number": lambda s: s.pool.get_cached_block(5, [0]),
    "look up nothing": lambda s: s.pool.get_cached_block(None, [0]),
    "groups are a number": lambda s: s.pool.get_cached_block(s.hashes[0], 0),
    "groups are None": lambda s: s.pool.get_cached_block(s.hashes[0], None),
    "groups are text": lambda s: s.pool.get_cached_block(s.hashes[0], "0"),
    "prefix of None": lambda s: s.pool.find_longest_prefix(None, [0]),
    "prefix of a number": lambda s: s.pool.find_longest_prefix(5, [0]),
    "prefix of text hashes": lambda s: s.pool.find_longest_prefix(["hash"], [0]),
    "prefix with a late bad hash": lambda s: s.pool.find_longest_prefix([s.hashes[0], 5], [0]),
    "prefix groups None": lambda s: s.pool.find_longest_prefix(s.hashes, None),
    "touch None": lambda s: s.pool.touch(None),
    "touch a number": lambda s: s.pool.touch(3),
    "touch ids": lambda s: s.pool.touch([s.idle, 1]),
    "touch the queue": lambda s: s.pool.touch([s.idle, s.pool.free_block_queue]),
    "free the queue": lambda s: s.pool.free_blocks([s.blank, s.pool.free_block_queue]),
    "cache the queue": lambda s: s.cache(s.request, [s.blank, s.pool.free_block_queue], 0, 2, 4, 0),
    "cache with a lora whose name is a number": lambda s: s.cache(
        FakeRequest(s.hashes, range(24), FakeLoRA(5, 7)),
        [s.blank],
        0,
        1,
        4,
        0,  # type: ignore[arg-type]
    ),
    "touch a block, not a list": lambda s: s.pool.touch(s.idle),
    "free None": lambda s: s.pool.free_blocks(None),
    "free a number": lambda s: s.pool.free_blocks(3),
    "free ids": lambda s: s.pool.free_blocks([s.blank, 1]),
    "free a None among blocks": lambda s: s.pool.free_blocks([s.blank, None]),
    "free a block, not a list": lambda s: s.pool.free_blocks(s.blank),
    "evict None": lambda s: s.pool.evict_blocks(None),
    "evict a number": lambda s: s.pool.evict_blocks(3),
    "evict blocks": lambda s: s.pool.evict_blocks([1, s.blank]),
    "cache None": lambda s: s.cache(s.request, None, 0, 1, 4, 0),
    "cache a number": lambda s: s.cache(s.request, 5, 0, 1, 4, 0),
    "cache ids": lambda s: s.cache(s.request, [1, 2, 3], 2, 3, 4, 0),
    "cache a late non-block": lambda s: s.cache(s.request, [s.blank, "block"], 0, 2, 4, 0),
    "cache for None": lambda s: s.cache(None, [s.blank], 0, 1, 4, 0),
    "cache for an object without hashes": lambda s: s.cache(object(), [s.blank], 0, 1, 4, 0),
    "cache with hashes None": lambda s: s.cache(bare(block_hashes=None), [s.blank], 0, 1, 4, 0),
    "cache with text hashes": lambda s: s.cache(bare(block_hashes=["h"]), [s.blank], 0, 1, 4, 0),
    "cache with a coarse hash of text": lambda s: s.cache(
        bare(block_hashes=[b"h", "h"]), [s.blank], 0, 1, 8, 0
    ),
    "cache without tokens": lambda s: s.cache(
        bare(block_hashes=s.hashes, lora_request=None), [s.blank], 0, 1, 4, 0
    ),
    "cache without lora_request": lambda s: s.cache(
        bare(block_hashes=s.hashes, all_token_ids=[1, 2, 3, 4]), [s.blank], 0, 1, 4, 0
    ),
    "cache with tokens None": lambda s: s.cache(
        bare(block_hashes=s.hashes, lora_request=None, all_token_ids=None), [s.blank], 0, 1, 4, 0
    ),
    "cache with a lora whose id is text": lambda s: s.cache(
        FakeRequest(s.hashes, range(24), FakeLoRA("name", "7")),
        [s.blank],
        0,
        1,
        4,
        0,  # type: ignore[arg-type]
    ),
    "cache with a strange lora": lambda s: s.cache(
        bare(block_hashes=s.hashes, lora_request=object(), all_token_ids=[1, 2, 3, 4]), [s.blank], 0, 1, 4, 0
    ),
}


def bare(**attributes: Any) -> Any:
    """A request with just these attributes."""
    return type("BareRequest", (), attributes)()


@pytest.mark.parametrize("name", WRONG_TYPES)
def test_wrong_types(scene: Scene, name: str) -> None:
    error = assert_refused(scene.pool, ArgumentError, lambda: WRONG_TYPES[name](scene), name)
    assert isinstance(error, TypeError)
    assert isinstance(error, ValueError)


WRONG_NUMBERS: dict[str, Call] = {
    "get -1": lambda s: s.pool.get_new_blocks(-1),
    "get very few": lambda s: s.pool.get_new_blocks(-(2**70)),
    "group -1": lambda s: s.pool.get_cached_block(s.hashes[0], [-1]),
    "group 2^32": lambda s: s.pool.get_cached_block(s.hashes[0], [0, 2**32]),
    "prefix group -1": lambda s: s.pool.find_longest_prefix(s.hashes, [-1]),
    "prefix group 2^70": lambda s: s.pool.find_longest_prefix(s.hashes, [2**70]),
    "prefix of -1 blocks": lambda s: s.pool.find_longest_prefix(s.hashes, [0], -1),
    "cache from -1": lambda s: s.cache(s.request, [s.blank], -1, 1, 4, 0),
    "cache to -1": lambda s: s.cache(s.request, [s.blank], -2, -1, 4, 0),
    "cache beyond the blocks": lambda s: s.cache(s.request, [s.blank], 0, 2, 4, 0),
    "cache far beyond": lambda s: s.cache(s.request, [s.blank], 0, 2**70, 4, 0),
    "cache beyond the hashes": lambda s: s.cache(FakeRequest([], range(24)), [s.blank], 0, 1, 4, 0),
    "cache beyond the tokens": lambda s: s.cache(FakeRequest(s.hashes, [1, 2, 3]), [s.blank], 0, 1, 4, 0),
    "cache into group -1": lambda s: s.cache(s.request, [s.blank], 0, 1, 4, -1),
    "cache into group 2^32": lambda s: s.cache(s.request, [s.blank], 0, 1, 4, 2**32),
    "cache by a size that does not divide": lambda s: s.cache(s.request, [s.blank], 0, 1, 6, 0),
    "cache by a smaller size": lambda s: s.cache(s.request, [s.blank], 0, 1, 2, 0),
    "cache by size 0": lambda s: s.cache(s.request, [s.blank], 0, 1, 0, 0),
    "cache by size -4": lambda s: s.cache(s.request, [s.blank], 0, 1, -4, 0),
}


@pytest.mark.parametrize("name", WRONG_NUMBERS)
def test_wrong_numbers(scene: Scene, name: str) -> None:
    error = assert_refused(scene.pool, ConfigError, lambda: WRONG_NUMBERS[name](scene), name)
    assert isinstance(error, ValueError)


WRONG_STATES: dict[str, tuple[int, Call]] = {
    "free what is idle": (4, lambda s: s.pool.free_blocks([s.blank, s.idle])),
    "free what was never taken": (5, lambda s: s.pool.free_blocks([s.free])),
    "free twice": (3, lambda s: s.pool.free_blocks([s.blank, s.blank])),
    "free oftener than held": (1, lambda s: s.pool.free_blocks([s.indexed[0], s.blank, s.indexed[0]])),
    "free a foreign block": (2, lambda s: s.pool.free_blocks([s.blank, s.foreign[1]])),
    "free a stray block": (3, lambda s: s.pool.free_blocks([s.stray])),
    "free a foreign null block": (0, lambda s: s.pool.free_blocks([s.blank, s.foreign_null])),
    "touch a foreign block": (1, lambda s: s.pool.touch([s.idle, s.foreign[0]])),
    "touch a stray block": (3, lambda s: s.pool.touch([s.idle, s.stray])),
    "touch a foreign null block": (0, lambda s: s.pool.touch([s.idle, s.foreign_null])),
    "cache a foreign block": (1, lambda s: s.cache(s.request, [s.blank, s.foreign[0]], 0, 2, 4, 0)),
    "cache a foreign null block": (0, lambda s: s.cache(s.request, [s.blank, s.foreign_null], 0, 2, 4, 0)),
    "evict 10 of 10": (10, lambda s: s.pool.evict_blocks([1, 10])),
    "evict -1": (-1, lambda s: s.pool.evict_blocks([1, -1])),
    "evict 2^70": (2**70, lambda s: s.pool.evict_blocks({1, 2**70})),
}


@pytest.mark.parametrize("name", WRONG_STATES)
def test_wrong_states(scene: Scene, name: str) -> None:
    block_id, call = WRONG_STATES[name]
    error = assert_refused(scene.pool, BlockStateError, lambda: call(scene), name)
    assert isinstance(error, BlockStateError)
    assert error.block_id == block_id
    assert str(block_id) in str(error)


def test_a_pool_made_long_after_is_still_another() -> None:
    """However blocks know whose they are, it must not repeat while an old pool lives."""
    (foreign,) = BlockPool(3, True, 4).get_new_blocks(1)
    for _ in range(2**15 - 200):
        FreeKVCacheBlockQueue([])
    for _ in range(400):
        pool = BlockPool(3, True, 4)
        pool.get_new_blocks(1)
        with pytest.raises(BlockStateError):
            pool.free_blocks([foreign])
        with pytest.raises(BlockStateError):
            pool.touch([foreign])


def test_the_null_block_cannot_be_queued(scene: Scene) -> None:
    queue = scene.pool.free_block_queue
    null = scene.pool.null_block
    assert_refused(scene.pool, BlockStateError, lambda: queue.append(null))
    assert_refused(scene.pool, BlockStateError, lambda: queue.prepend_n([null]))
    assert_refused(scene.pool, BlockStateError, lambda: queue.remove(null))


def test_sentinels_are_foreign(scene: Scene) -> None:
    head = scene.pool.free_block_queue.fake_free_list_head
    assert_refused(scene.pool, BlockStateError, lambda: scene.pool.touch([head]))
    assert_refused(scene.pool, BlockStateError, lambda: scene.pool.free_blocks([head]))
    assert_refused(scene.pool, BlockStateError, lambda: scene.cache(scene.request, [head], 0, 1, 4, 0))


def test_a_block_that_has_a_hash_is_not_indexed_again(scene: Scene) -> None:
    blocks = [scene.blank, scene.indexed[1]]
    error = assert_refused(
        scene.pool, HashAlreadySetError, lambda: scene.cache(scene.request, blocks, 0, 2, 4, 0)
    )
    assert isinstance(error, AssertionError)
    assert isinstance(error, HashAlreadySetError)
    assert error.block_id == 2


def test_a_block_listed_twice_is_not_indexed(scene: Scene) -> None:
    blocks = [scene.blank, scene.blank]
    before = scene.pool.get_num_free_blocks()
    error = assert_refused(
        scene.pool, HashAlreadySetError, lambda: scene.cache(scene.request, blocks, 0, 2, 4, 0)
    )
    assert isinstance(error, BlockStateError)
    assert error.block_id == 3
    assert scene.pool.get_num_free_blocks() == before


def test_more_blocks_than_free(scene: Scene) -> None:
    for wanted in (7, 2**70):
        error = assert_refused(
            scene.pool, OutOfBlocksError, lambda wanted=wanted: scene.pool.get_new_blocks(wanted)
        )
        assert isinstance(error, OutOfBlocksError)
        assert (error.wanted, error.free) == (wanted, 6)


def test_a_collector_without_hooks_never_costs_a_block() -> None:
    with pytest.raises(ArgumentError) as caught:
        BlockPool(5, True, 16, False, object()).get_new_blocks(1)  # type: ignore[arg-type]
    assert caught.value.field == "metrics_collector"


@pytest.mark.parametrize("method", ["free_blocks", "touch"])
def test_an_iterable_that_raises_raises_its_own_error(scene: Scene, method: str) -> None:
    before = snapshot(scene.pool)
    with pytest.raises(ZeroDivisionError):
        getattr(scene.pool, method)(broken([scene.blank]))
    assert snapshot(scene.pool) == before
    with pytest.raises(ZeroDivisionError):
        scene.pool.evict_blocks(broken([1]))  # type: ignore[arg-type]
    assert snapshot(scene.pool) == before
    scene.pool.check_invariants()


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ((0, True, 16), "num_gpu_blocks"),
        ((-1, True, 16), "num_gpu_blocks"),
        ((-(2**70), True, 16), "num_gpu_blocks"),
        ((2**31, True, 16), "num_gpu_blocks"),
        ((5, True, 0), "hash_block_size"),
        ((5, True, -16), "hash_block_size"),
    ],
)
def test_a_pool_of_impossible_size(arguments: tuple[int, bool, int], field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        BlockPool(*arguments)
    assert type(caught.value) is ConfigError
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("arguments", "keywords", "field"),
    [
        (("5", True, 16), {}, "num_gpu_blocks"),
        ((5.0, True, 16), {}, "num_gpu_blocks"),
        ((None, True, 16), {}, "num_gpu_blocks"),
        ((5, None, 16), {}, "enable_caching"),
        ((5, "yes", 16), {}, "enable_caching"),
        ((5, True, "16"), {}, "hash_block_size"),
        ((5, True, 16.0), {}, "hash_block_size"),
        ((5, True, 16, None), {}, "enable_kv_cache_events"),
        ((5, True, 16, False, object()), {}, "metrics_collector"),
        ((5, True, 16), {"reuse_uncached_first": None}, "reuse_uncached_first"),
        ((5, True, 16), {"self_check": "no"}, "self_check"),
        ((5, True, 16), {"int_block_hashes": 3}, "int_block_hashes"),
    ],
)
def test_a_pool_of_wrong_types(arguments: Any, keywords: dict[str, Any], field: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        BlockPool(*arguments, **keywords)
    assert caught.value.field == field

"""A hit that comes straight back from its look-up is taken at once; whatever happened in between is still told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from blockpool import ArgumentError, BlockStateError, ConfigError
from blockpool.kv_cache import KVCacheBlocks, KVCacheManager, KVCacheSpec, TokenRequest

from .support import admit, assert_refused, full, make_manager, make_request, run_once, tables, window


class Late:
    """A request of 13 tokens of which 12 were computed before, looked up."""

    def __init__(self, *, num_blocks: int = 20, **options: Any) -> None:
        self.manager: KVCacheManager = make_manager(full(4), window(4, 5), num_blocks=num_blocks, **options)
        run_once(self.manager, range(12))
        self.request: TokenRequest = make_request("late", range(13), self.manager)
        self.blocks, self.length = self.manager.get_computed_blocks(self.request)
        assert self.length == 12

    def allocate(self, blocks: KVCacheBlocks | None = None) -> Any:
        """Its first step."""
        return self.manager.allocate_slots(self.request, 1, self.length, blocks or self.blocks)


class NoTruth:
    """What an array says when it is compared."""

    def __eq__(self, other: object) -> bool:
        raise ValueError("it has no truth value")

    __hash__ = None  # type: ignore[assignment]


def test_it_is_held() -> None:
    late = Late()
    assert late.allocate().get_block_ids() == ([7], [8])
    assert tables(late.manager, late.request) == ([1, 2, 3, 7], [0, 0, 6, 8])
    counts = [late.manager.block_pool.blocks[block_id].ref_cnt for block_id in range(1, 9)]
    assert counts == [1, 1, 1, 0, 0, 1, 1, 1]


def evicted(late: Late) -> None:
    late.manager.evict_blocks([2])


def reset(late: Late) -> None:
    assert late.manager.reset_prefix_cache()


def reset_and_filled_again(late: Late) -> None:
    assert late.manager.reset_prefix_cache()
    admit(late.manager, make_request("other", range(50, 90), late.manager))


def recycled(late: Late) -> None:
    other = make_request("other", range(50, 86), late.manager)
    assert admit(late.manager, other) is not None
    late.manager.free(other)


@pytest.mark.parametrize("change", [evicted, reset, reset_and_filled_again, recycled])
def test_the_pool_changed(change: Callable[[Late], None]) -> None:
    late = Late()
    change(late)
    assert_refused(late.manager, BlockStateError, late.allocate)


def test_the_hashes_changed() -> None:
    late = Late()
    late.request.block_hashes[1] = b"another"
    assert_refused(late.manager, BlockStateError, late.allocate)
    late.request.block_hashes.clear()
    assert_refused(late.manager, ConfigError, late.allocate)


@pytest.mark.parametrize("specs", [(full(4), window(4, 5)), (full(4), window(12, 5)), (full(8),)])
def test_a_hash_that_is_none(specs: tuple[KVCacheSpec, ...]) -> None:
    """Told as ever: also one that cannot be compared, as an array cannot."""
    for looked_up in (True, False):
        manager = make_manager(*specs, hash_block_size=4)
        run_once(manager, range(24))
        request = make_request("late", range(25), manager)
        blocks, length = manager.get_computed_blocks(request)
        assert length == 24
        if not looked_up:
            blocks = KVCacheBlocks(tuple(list(group) for group in blocks.blocks))
        request.block_hashes[1] = NoTruth()  # type: ignore[call-overload]
        assert_refused(
            manager,
            ArgumentError,
            lambda: manager.allocate_slots(request, 1, length, blocks),  # noqa: B023
        )


def test_a_request_without_hashes_comes_with_it() -> None:
    late = Late()

    class WithoutHashes:
        request_id = "late"
        num_tokens = 13
        num_computed_tokens = 0
        num_preemptions = 0
        skip_reading_prefix_cache = False

    late.request = WithoutHashes()  # type: ignore[assignment]
    assert_refused(late.manager, ArgumentError, late.allocate)


def test_another_request_comes_with_it() -> None:
    late = Late()
    stranger = make_request("stranger", range(100, 113), late.manager)
    assert_refused(
        late.manager, BlockStateError, lambda: late.manager.allocate_slots(stranger, 1, 12, late.blocks)
    )
    twin = make_request("twin", range(13), late.manager)
    assert late.manager.allocate_slots(twin, 1, 12, late.blocks) is not None


def test_its_blocks_cannot_be_exchanged() -> None:
    late = Late()
    with pytest.raises(TypeError):
        late.blocks.blocks[0][1] = late.manager.block_pool.blocks[9]  # type: ignore[index]
    late.blocks.blocks = (late.blocks.blocks[1], late.blocks.blocks[0])
    assert_refused(late.manager, BlockStateError, late.allocate)


@pytest.mark.parametrize("num_tokens", [0, 4, 8, 16])
def test_another_number_of_tokens(num_tokens: int) -> None:
    late = Late()
    late.length = num_tokens
    assert_refused(late.manager, ConfigError, late.allocate)


def test_an_equal_hit_is_looked_at() -> None:
    late = Late()
    copied = KVCacheBlocks(tuple(list(group) for group in late.blocks.blocks))
    assert late.allocate(copied) is not None
    assert tables(late.manager, late.request) == ([1, 2, 3, 7], [0, 0, 6, 8])


def test_it_serves_until_there_is_room() -> None:
    """Refused for want of blocks, it may be passed again as long as nothing was evicted."""
    late = Late(num_blocks=12)
    other = make_request("other", range(50, 54), late.manager)
    assert late.manager.allocate_slots(other, 8, delay_cache_blocks=True) is not None
    late.request.append_output_token_ids(range(60, 64))
    assert late.manager.allocate_slots(late.request, 5, 12, late.blocks) is None
    late.manager.free(other)
    assert late.allocate() is not None


def test_hashes_that_are_no_list() -> None:
    """They are compared one by one, as ever."""
    late = Late()
    hashes = late.request.block_hashes
    late.request.block_hashes = tuple(hashes)  # type: ignore[assignment]
    blocks, length = late.manager.get_computed_blocks(late.request)
    assert (blocks, length) == (late.blocks, 12)
    late.request.block_hashes = (*hashes[:2], b"another")  # type: ignore[assignment]
    assert_refused(late.manager, BlockStateError, lambda: late.allocate(blocks))
    late.request.block_hashes = tuple(hashes)  # type: ignore[assignment]
    assert late.allocate(blocks) is not None

"""Calls that a pool in any state must refuse, for the pool's state machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from blockpool import (
    ArgumentError,
    BlockPool,
    BlockStateError,
    ConfigError,
    HashAlreadySetError,
    KVCacheBlock,
    OutOfBlocksError,
)

from .support import chain

if TYPE_CHECKING:
    from .test_pool_machine import PoolMachine


class CallersOwnError(Exception):
    """Raised by an iterable of the caller: not the pool's to translate."""


def broken(blocks: list[Any]) -> Iterator[Any]:
    yield from blocks
    raise CallersOwnError


def held(m: PoolMachine) -> list[KVCacheBlock]:
    return [block for block in m.pool.blocks if block.ref_cnt > 0 and not block.is_null]


def idle(m: PoolMachine) -> list[KVCacheBlock]:
    return m.pool.free_block_queue.get_all_free_blocks()


def all_ids(m: PoolMachine) -> range:
    return range(m.pool.num_gpu_blocks)


def tail(m: PoolMachine) -> KVCacheBlock:
    return m.pool.free_block_queue.fake_free_list_tail


def hashed(m: PoolMachine) -> list[KVCacheBlock]:
    return [block for block in m.pool.blocks if block.block_hash is not None]


def blank(m: PoolMachine) -> list[KVCacheBlock]:
    return [block for block in m.pool.blocks[1:] if block.block_hash is None]


def two_blank_and(m: PoolMachine, last: Any) -> tuple[list[Any], int, int]:
    """A table whose third entry (or earlier) is the one at fault, with the range that covers it."""
    table = [*blank(m)[:2], last]
    return table, 0, len(table)


def once_too_often(block: KVCacheBlock) -> list[KVCacheBlock]:
    return [block] * (block.ref_cnt + 1)


def cache(
    m: PoolMachine, blocks: Any, start: Any, stop: Any, size: Any = None, group: Any = 0, **request: Any
) -> Any:
    """cache_full_blocks with a request that is right but for what is named."""
    fields = {
        "block_hashes": chain(range(8), b"bad"),
        "all_token_ids": list(range(8 * m.pool.hash_block_size)),
        "lora_request": None,
        "request_id": "bad",
    }
    fields.update(request)
    absent = [name for name, value in fields.items() if value is Ellipsis]
    for name in absent:
        del fields[name]
    bare = type("Request", (), fields)()
    m.pool.cache_full_blocks(
        bare, blocks, start, stop, m.pool.hash_block_size if size is None else size, group
    )


def cache_for(m: PoolMachine, request: Any) -> None:
    m.pool.cache_full_blocks(request, blank(m), 0, 1, m.pool.hash_block_size, 0)


Call = Callable[["PoolMachine"], object]
Needs = Callable[["PoolMachine"], object]
always: Needs = lambda m: True  # noqa: E731
events_on: Needs = lambda m: m.pool.enable_kv_cache_events and m.pool.enable_caching and blank(m)  # noqa: E731
can_cache: Needs = lambda m: m.pool.enable_caching and blank(m)  # noqa: E731
odd_size: Needs = lambda m: can_cache(m) and m.pool.hash_block_size > 1  # noqa: E731
caching: Needs = lambda m: m.pool.enable_caching  # noqa: E731

WITHOUT_ARGUMENTS = (
    "reset_prefix_cache",
    "take_event_log",
    "take_events",
    "get_num_free_blocks",
    "get_usage",
    "occupancy",
    "check_invariants",
)
# name: (what must be there, the error, the call)
BAD_CALLS: dict[str, tuple[Needs, type[Exception], Call]] = {
    "get -1": (always, ConfigError, lambda m: m.pool.get_new_blocks(-1)),
    "get text": (always, ArgumentError, lambda m: m.pool.get_new_blocks("1")),  # type: ignore[arg-type]
    "get half": (always, ArgumentError, lambda m: m.pool.get_new_blocks(0.5)),  # type: ignore[arg-type]
    "get all and one": (always, OutOfBlocksError, lambda m: m.pool.get_new_blocks(len(idle(m)) + 1)),
    "get 2^70": (always, OutOfBlocksError, lambda m: m.pool.get_new_blocks(2**70)),
    "free idle": (idle, BlockStateError, lambda m: m.pool.free_blocks([*held(m), idle(m)[0]])),
    "free too often": (held, BlockStateError, lambda m: m.pool.free_blocks(once_too_often(held(m)[-1]))),
    "free too often among others": (
        held,
        BlockStateError,
        lambda m: m.pool.free_blocks([*held(m), *once_too_often(held(m)[0])]),
    ),
    "free foreign": (always, BlockStateError, lambda m: m.pool.free_blocks([*held(m), m.foreign])),
    "free foreign null": (always, BlockStateError, lambda m: m.pool.free_blocks([*held(m), m.foreign_null])),
    "free an id": (always, ArgumentError, lambda m: m.pool.free_blocks([*held(m), 1])),  # type: ignore[list-item]
    "free None": (always, ArgumentError, lambda m: m.pool.free_blocks(None)),  # type: ignore[arg-type]
    "free broken": (always, CallersOwnError, lambda m: m.pool.free_blocks(broken(held(m)))),
    "touch foreign": (always, BlockStateError, lambda m: m.pool.touch([*idle(m), m.foreign])),
    "touch a sentinel": (always, BlockStateError, lambda m: m.pool.touch([*idle(m), tail(m)])),
    "touch an id": (always, ArgumentError, lambda m: m.pool.touch([*idle(m), 1])),  # type: ignore[list-item]
    "touch None": (always, ArgumentError, lambda m: m.pool.touch(None)),  # type: ignore[arg-type]
    "evict beyond": (
        always,
        BlockStateError,
        lambda m: m.pool.evict_blocks([*all_ids(m), m.pool.num_gpu_blocks]),
    ),
    "evict -1": (always, BlockStateError, lambda m: m.pool.evict_blocks([*all_ids(m), -1])),
    "evict text": (always, ArgumentError, lambda m: m.pool.evict_blocks([0, "2"])),  # type: ignore[list-item]
    "evict a number": (always, ArgumentError, lambda m: m.pool.evict_blocks(1)),  # type: ignore[arg-type]
    "evict broken": (always, CallersOwnError, lambda m: m.pool.evict_blocks(broken([0]))),
    "look up text": (always, ArgumentError, lambda m: m.pool.get_cached_block("h", [0])),  # type: ignore[arg-type]
    "look up in group -1": (always, ConfigError, lambda m: m.pool.get_cached_block(b"h", [-1])),
    "look up in group 2^32": (always, ConfigError, lambda m: m.pool.find_longest_prefix([b"h"], [2**32])),
    "look up -1 blocks": (always, ConfigError, lambda m: m.pool.find_longest_prefix([b"h"], [0], -1)),
    "look up a number": (always, ArgumentError, lambda m: m.pool.find_longest_prefix([1], [0])),  # type: ignore[list-item]
    "cache from -1": (can_cache, ConfigError, lambda m: cache(m, blank(m), -1, 1)),
    "cache beyond the table": (can_cache, ConfigError, lambda m: cache(m, blank(m)[:1], 0, 2)),
    "cache beyond the hashes": (
        can_cache,
        ConfigError,
        lambda m: cache(m, blank(m)[:1] * 9, 8, 9, all_token_ids=list(range(999))),
    ),
    "cache by an odd size": (
        odd_size,
        ConfigError,
        lambda m: cache(m, blank(m), 0, 1, m.pool.hash_block_size + 1),
    ),
    "cache by size 0": (can_cache, ConfigError, lambda m: cache(m, blank(m), 0, 1, 0)),
    "cache in group -1": (can_cache, ConfigError, lambda m: cache(m, blank(m), 0, 1, None, -1)),
    "cache text hashes": (can_cache, ArgumentError, lambda m: cache(m, blank(m), 0, 1, block_hashes=["h"])),
    "cache a late text hash": (
        lambda m: caching(m) and len(blank(m)) > 1,  # type: ignore[arg-type]
        ArgumentError,
        lambda m: cache(m, blank(m), 0, 2, block_hashes=[b"h" * 32, "h"]),
    ),
    "cache without hashes": (can_cache, ArgumentError, lambda m: cache(m, blank(m), 0, 1, block_hashes=...)),
    "cache without tokens": (events_on, ArgumentError, lambda m: cache(m, blank(m), 0, 1, all_token_ids=...)),
    "cache without lora": (events_on, ArgumentError, lambda m: cache(m, blank(m), 0, 1, lora_request=...)),
    "cache with a strange lora": (
        events_on,
        ArgumentError,
        lambda m: cache(m, blank(m), 0, 1, lora_request=object()),
    ),
    "cache with few tokens": (events_on, ConfigError, lambda m: cache(m, blank(m), 0, 1, all_token_ids=[])),
    "cache twice": (can_cache, HashAlreadySetError, lambda m: cache(m, *two_blank_and(m, blank(m)[0]))),
    "cache hashed": (
        lambda m: caching(m) and hashed(m),
        HashAlreadySetError,
        lambda m: cache(m, *two_blank_and(m, hashed(m)[0])),
    ),
    "cache foreign": (caching, BlockStateError, lambda m: cache(m, *two_blank_and(m, m.foreign))),
    "cache an id": (caching, ArgumentError, lambda m: cache(m, *two_blank_and(m, 1))),
    "cache None": (caching, ArgumentError, lambda m: cache(m, None, 0, 1)),
    "cache for None": (can_cache, ArgumentError, lambda m: cache_for(m, None)),
    **{
        f"{name} with an argument": (always, TypeError, lambda m, name=name: getattr(m.pool, name)("now"))
        for name in WITHOUT_ARGUMENTS
    },
}


def stranger() -> tuple[KVCacheBlock, KVCacheBlock]:
    """A held block of another pool, and its null block."""
    other = BlockPool(3, True, 4)
    (block,) = other.get_new_blocks(1)
    return block, other.null_block

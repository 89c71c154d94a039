"""What a new request brings to its first `allocate_slots`: its hits, and whether it counts in the statistics."""

from __future__ import annotations

from collections.abc import Sequence

from blockpool.core.arguments import as_count, as_int
from blockpool.core.block import KVCacheBlock
from blockpool.errors import ArgumentError, ConfigError, OutOfBlocksError
from blockpool.kv_cache.blocks import KVCacheBlocks, empty_blocks
from blockpool.kv_cache.checks import MAX_TOKENS, require_hits
from blockpool.kv_cache.coordinator import KVCacheCoordinator
from blockpool.kv_cache.demand import Demand
from blockpool.kv_cache.found_hit import FoundHit
from blockpool.kv_cache.types import RequestArg


def looked_up(request: RequestArg, enable_caching: bool) -> tuple[int, Sequence[bytes], bool]:
    """What a look-up reads of a request: its tokens, its hashes, and whether nothing is to be looked up.

    Raises:
        ArgumentError: If it lacks one of them, or they are of a wrong type.
    """
    try:
        skips: bool = not enable_caching or bool(request.skip_reading_prefix_cache)
        num_tokens = min(as_int("request.num_tokens", request.num_tokens), MAX_TOKENS)
        block_hashes = request.block_hashes
    except AttributeError as error:
        raise ArgumentError("request", request, str(error)) from None
    if not skips and (not isinstance(block_hashes, Sequence) or isinstance(block_hashes, (bytes, str))):
        raise ArgumentError("request.block_hashes", block_hashes, "a sequence of hashes is needed")
    return num_tokens, block_hashes, skips


def checked_hits(
    coordinator: KVCacheCoordinator,
    request: RequestArg,
    demand: Demand,
    new_computed_blocks: KVCacheBlocks | None,
    found: FoundHit | None,
) -> tuple[Sequence[KVCacheBlock], ...]:
    """The hits of each group, known to be blocks of this pool that still hold what was found. O(hits).

    Args:
        coordinator: Knows the groups.
        request: The request.
        demand: What it asks for.
        new_computed_blocks: What it comes with.
        found: What the last look-up found.

    Raises:
        ArgumentError: If something in them is no block.
        BlockStateError: If a block is of another pool or group, null where attention looks, or was recycled since it
            was looked up.
        ConfigError: If there are not as many as the computed tokens take, or the request says that it has computed some
            already, for which it has no blocks.
    """
    if demand.num_computed > 0:
        raise ConfigError(
            "request.num_computed_tokens",
            demand.num_computed,
            f"request {demand.request_id!r} has no blocks: it is 0 for a new or a preempted one",
        )
    managers = coordinator.single_type_managers
    pool = coordinator.block_pool
    if new_computed_blocks is not None and found is not None:
        num_tokens = demand.num_new_computed
        if found.is_still(request, new_computed_blocks, num_tokens, pool):
            return new_computed_blocks.blocks
    given = empty_blocks(len(managers)) if new_computed_blocks is None else new_computed_blocks
    hits = tuple([_plain(group) for group in given.blocks])
    if len(hits) != len(managers):
        raise ConfigError("new_computed_blocks", len(hits), f"there are {len(managers)} groups")
    num_tokens = demand.num_new_computed
    for group_id, manager in enumerate(managers):
        num_blocks, rest = divmod(num_tokens, manager.block_size)
        if rest != 0 or (num_blocks > 0 and not pool.enable_caching):
            raise ConfigError("num_new_computed_tokens", num_tokens, "no hit has so many tokens")
        num_skipped = min(manager.get_num_skipped_tokens(num_tokens) // manager.block_size, num_blocks)
        factor = manager.block_size // pool.hash_block_size
        require_hits(request, hits[group_id], num_blocks, num_skipped, pool, group_id, factor)
    return hits


def _plain(blocks: Sequence[KVCacheBlock]) -> Sequence[KVCacheBlock]:
    """The same blocks in a list or tuple, whose length is what it says."""
    return blocks if type(blocks) is tuple or type(blocks) is list else list(blocks)


def num_preemptions_to_count(request: RequestArg) -> int:
    """How often the request was preempted; -1 if it never asked the cache and does not count.

    Raises:
        ArgumentError: If it does not tell.
        ConfigError: For a negative number.
    """
    try:
        if request.skip_reading_prefix_cache:
            return -1
        return as_count("request.num_preemptions", request.num_preemptions)
    except AttributeError as error:
        raise ArgumentError("request", request, str(error)) from None


def require_room(
    coordinator: KVCacheCoordinator, demand: Demand, max_model_len: int, num_usable_blocks: int
) -> None:
    """Checks that the pool could hold a new request, if its lookahead stays what it is. O(groups).

    Raises:
        OutOfBlocksError: If sooner or later it needs more blocks at once than there are.
    """
    num_tokens = min(demand.num_request_tokens, max_model_len)
    num_slots = min(max(num_tokens, demand.total_computed) + demand.num_lookahead, max_model_len)
    least = coordinator.min_blocks(num_tokens, num_slots, demand.total_computed, demand.num_encoder_tokens)
    if least > num_usable_blocks:
        raise OutOfBlocksError(least, num_usable_blocks)


def num_wanted(
    coordinator: KVCacheCoordinator, demand: Demand, computed: tuple[Sequence[KVCacheBlock], ...]
) -> int:
    """Free blocks that the demand takes, those of its hits that nobody holds included. O(hits)."""
    return coordinator.get_num_blocks_to_allocate(
        demand.request_id,
        demand.num_slots,
        computed,
        demand.num_encoder_tokens,
        demand.total_computed,
        demand.num_main,
    )

"""The rules that hold for every pool between two calls, as one check that shows what it found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from blockpool.core.block import GAP_ID, KVCacheBlock, group_of
from blockpool.errors import InvariantError

if TYPE_CHECKING:
    from blockpool.core.pool import BlockPool

SHOWN_BLOCKS: Final = 50


def check_pool(pool: BlockPool) -> None:
    """Checks I1 to I6; I7 is about calls that raise, and only a test can state it. O(blocks ever used).

    Raises:
        InvariantError: Names the broken rule.
    """
    _check_queue(pool)
    _check_blocks(pool)
    _check_index(pool)
    _check_counters(pool)


def _check_queue(pool: BlockPool) -> None:
    """I1: length, forward walk and backward walk of the queue agree with the blocks that nobody holds."""
    queue = pool.free_block_queue
    num_unmade = pool._store.num_unmade()
    forward = _walk(pool, queue.fake_free_list_head, True)
    backward = _walk(pool, queue.fake_free_list_tail, False)
    if forward.count(GAP_ID) != (1 if num_unmade > 0 else 0):
        raise _broken(
            pool, "I1", f"{num_unmade} blocks are not made; gaps in the queue: {forward.count(GAP_ID)}"
        )
    num_linked = len(forward) - forward.count(GAP_ID)
    if num_linked + num_unmade != queue.num_free_blocks:
        found = f"the queue counts {queue.num_free_blocks} blocks, a walk finds {num_linked}, {num_unmade} are not made"
        raise _broken(pool, "I1", found)
    backward.reverse()
    if forward != backward:
        raise _broken(pool, "I1", "the queue is not the same backward as forward")
    num_unheld = 0
    for block in pool._store.made:
        if block.ref_cnt == 0 and not block.is_null:
            num_unheld += 1
    if num_unheld != num_linked:
        raise _broken(pool, "I1", f"{num_unheld} blocks are not held, {num_linked} are in the queue")


def _walk(pool: BlockPool, sentinel: KVCacheBlock, forward: bool) -> list[int]:
    """Ids along the links from one sentinel to the other; `GAP_ID` for all blocks that are not made."""
    ids: list[int] = []
    store = pool._store
    block = sentinel._next if forward else sentinel._prev
    while block is not None and (0 <= block.block_id < len(store.made) or block is store.gap):
        if block is not store.gap and store.made[block.block_id] is not block:
            raise _broken(pool, "I1", f"a stranger is in the queue: {block!r}")
        ids.append(block.block_id)
        if len(ids) > pool.num_gpu_blocks:
            raise _broken(pool, "I1", "the queue runs in a circle")
        block = block._next if forward else block._prev
    if block is None or block.block_id != -1:
        raise _broken(pool, "I1", f"the queue breaks off after {ids[-1:]}")
    return ids


def _check_blocks(pool: BlockPool) -> None:
    """I2, I4 and I6: each block by itself."""
    null_block = pool.null_block
    if not null_block.is_null or null_block.block_id != 0 or null_block is not pool._store.at(0):
        raise _broken(pool, "I4", f"the null block is {null_block!r}")
    for block_id, block in enumerate(pool._store.made):
        queued = block._next is not None
        if block.block_id != block_id or block.is_null != (block_id == 0):
            raise _broken(pool, "I4", f"at {block_id} stands {block!r}")
        if block.ref_cnt < 0:
            raise _broken(pool, "I6", f"a negative count: {block!r}")
        if block.is_null:
            if queued or block.ref_cnt != 0:
                raise _broken(pool, "I2", f"the null block is queued or counted: {block!r}")
            if block._hash is not None:
                raise _broken(pool, "I4", f"the null block has a hash: {block!r}")
        elif queued != (block.ref_cnt == 0):
            raise _broken(pool, "I2", f"in the queue must mean not held: {block!r}")


def _check_index(pool: BlockPool) -> None:
    """I3: every hashed block is in the index under its key and id, and nothing else is in there."""
    num_hashed = 0
    groups = pool.cached_block_hash_to_block.groups()
    for block in pool._store.made:
        digest = block._hash
        if digest is None:
            continue
        num_hashed += 1
        index = groups.get(group_of(block._home))
        if index is None or index.find(digest, block.block_id) is not block:
            raise _broken(pool, "I3", f"not in the index under its key: {block!r}")
    num_indexed = 0
    for index in groups.values():
        num_indexed += index.num_blocks()
        damage = index.damage()
        if damage is not None:
            raise _broken(pool, "I3", f"the index itself: {damage}")
    if num_indexed != num_hashed:
        raise _broken(pool, "I3", f"{num_hashed} blocks have a hash, {num_indexed} are in the index")


def _check_counters(pool: BlockPool) -> None:
    """I5: usage in range, and the three counters of `occupancy()` as a walk finds them."""
    usage = pool.get_usage()
    if not 0.0 <= usage <= 1.0:
        raise _broken(pool, "I5", f"usage is {usage}")
    in_use, cached_idle, blank = 0, 0, pool._store.num_unmade()
    for block in pool._store.made:
        if block.is_null:
            continue
        if block.ref_cnt > 0:
            in_use += 1
        elif block._hash is not None:
            cached_idle += 1
        else:
            blank += 1
    counted = pool.occupancy()
    if counted.in_use != in_use or counted.cached_idle != cached_idle or counted.blank != blank:
        raise _broken(pool, "I5", f"{counted}, but a walk finds {in_use}, {cached_idle}, {blank}")


def _broken(pool: BlockPool, invariant: str, found: str) -> InvariantError:
    shown = [repr(block) for block in pool._store.made[:SHOWN_BLOCKS]]
    hidden = pool.num_gpu_blocks - len(shown)
    if hidden > 0:
        shown.append(f"… and {hidden} more blocks")
    counts = f"{pool.num_gpu_blocks} blocks, {len(pool.cached_block_hash_to_block)} keys, {pool.occupancy()}"
    return InvariantError(invariant, "\n".join([found, counts, *shown]))

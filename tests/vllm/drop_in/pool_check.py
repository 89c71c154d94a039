"""The rules of a pool, looked for in any of them: ours, vLLM's, and vLLM's with our methods."""

from __future__ import annotations

from typing import Any


def check_pool(pool: Any) -> None:
    """Walks the whole pool. Ours checks itself, too."""
    inner = getattr(pool, "inner", None)
    if inner is not None:
        inner.check_invariants()
    usable = [block for block in pool.blocks if not block.is_null]
    queue = pool.free_block_queue
    free = queue.get_all_free_blocks()
    ids = {block.block_id for block in free}
    assert len(ids) == len(free) == queue.num_free_blocks
    assert ids == {block.block_id for block in usable if block.ref_cnt == 0}
    backwards = []
    block = queue.fake_free_list_tail.prev_free_block
    while block is not queue.fake_free_list_head:
        backwards.append(block.block_id)
        block = block.prev_free_block
    assert backwards[::-1] == [block.block_id for block in free]
    assert all(block.ref_cnt >= 0 for block in usable)
    assert pool.null_block.block_hash is None
    indexed = {}
    for key, entry in pool.cached_block_hash_to_block._cache.items():
        for one in entry.values() if isinstance(entry, dict) else [entry]:
            indexed.setdefault(one.block_id, set()).add(key)
    more = getattr(pool, "cached_block_hashes_by_block", {})
    known = {}
    for block in usable:
        keys = set(more.get(block.block_id, ()))
        if block.block_hash is not None:
            keys.add(block.block_hash)
        if keys:
            known[block.block_id] = keys
    assert known == indexed

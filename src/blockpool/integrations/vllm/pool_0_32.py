"""`BlockPool` for vLLM 0.32: its own, with those methods written anew that a long prompt spends its time in."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any, Final

from vllm.v1.core import block_pool
from vllm.v1.core.kv_cache_utils import BlockHashListWithBlockSize, KVCacheBlock, resolve_block_hashes

FIRST_PIECE: Final = 64
ONLY_BLOCKS: Final = {KVCacheBlock}
SLICEABLE: Final = (list, BlockHashListWithBlockSize)


class BlockPool(block_pool.BlockPool):  # type: ignore[misc]
    """vLLM's blocks, queue and index, unchanged; whole runs of blocks are found, taken, evicted and indexed at once.

    Whatever is out of the ordinary (metrics, masks, partial entries, several blocks under one hash) is left to vLLM's
    own methods, block by block.
    """

    def find_longest_prefix(
        self, block_hashes: Any, kv_cache_group_ids: Sequence[int], max_blocks: int, block_size: int
    ) -> tuple[list[Any], ...]:
        """Not vLLM's. One block per group for each block of a prompt, up to the first that any group misses.

        Args:
            block_hashes: Of the pool's hash block size, or a view of them as blocks of `block_size`.
            max_blocks: So many are looked up at most.
            block_size: Tokens per block of these groups.
        """
        hashes = resolve_block_hashes(block_hashes, self.hash_block_size, block_size)
        if not isinstance(hashes, SLICEABLE):
            hashes = list(islice(hashes, max(max_blocks, 0)))
        limit = max(min(max_blocks, len(hashes)), 0)
        found = []
        for group_id in kv_cache_group_ids:
            blocks = self._longest_run(hashes, group_id.to_bytes(4, "big"), limit)
            limit = len(blocks)
            found.append(blocks)
        for blocks in found:
            del blocks[limit:]
        return tuple(found)

    def _longest_run(self, block_hashes: Any, suffix: bytes, limit: int) -> list[Any]:
        """The blocks of one group, looked up in pieces that grow, so that a miss costs little."""
        get = self.cached_block_hash_to_block._cache.get
        found: list[Any] = []
        size = FIRST_PIECE
        while len(found) < limit:
            hashes = block_hashes[len(found) : min(len(found) + size, limit)]
            piece = [get(digest + suffix) for digest in hashes]
            if set(map(type, piece)) != ONLY_BLOCKS:
                piece = _first_blocks(piece)
            found += piece
            if len(piece) < len(hashes):
                break
            size *= 2
        return found

    def touch(self, blocks: Sequence[Any]) -> None:
        """As vLLM's; of blocks that stand side by side in the queue, only the two ends are linked anew."""
        if self.metrics_collector:
            super().touch(blocks)
            return
        num_left = 0
        before: Any = None  # the ends of the gap that those before have left
        after: Any = None
        try:
            for block in blocks:
                if block.ref_cnt:
                    block.ref_cnt += 1
                    continue
                if block is not before:
                    if before is not None:
                        before.next_free_block = after
                        after.prev_free_block = before
                    after = block.next_free_block
                before = block.prev_free_block
                if before is None or after is None:
                    before = None
                    if not block.is_null:
                        self.free_block_queue.remove(block)  # it is in no queue: vLLM's own error
                    block.ref_cnt += 1
                    continue
                block.prev_free_block = None
                block.next_free_block = None
                block.ref_cnt = 1
                num_left += 1
        finally:
            if before is not None:
                before.next_free_block = after
                after.prev_free_block = before
            self.free_block_queue.num_free_blocks -= num_left

    def get_new_blocks(self, num_blocks: int) -> list[Any]:
        """As vLLM's; a block that stands alone under its one hash is evicted without a call."""
        queue = self.free_block_queue
        usual = self.enable_caching and not self.metrics_collector and not self._reuse_watchers
        if not usual or not 1 < num_blocks <= queue.num_free_blocks:
            blocks: list[Any] = super().get_new_blocks(num_blocks)
            return blocks
        taken: list[Any] = queue.popleft_n(num_blocks)
        index = self.cached_block_hash_to_block._cache
        partial = self.cached_block_hashes_by_block
        quiet = not self.enable_kv_cache_events
        for block in taken:
            key = block._block_hash
            if key is not None:
                if quiet and index.get(key) is block and block.block_id not in partial:
                    del index[key]
                    block._block_hash = None
                    block._block_hash_num_tokens = None
                else:
                    self._maybe_evict_cached_block(block)
            elif partial:
                self._maybe_evict_cached_block(block)
            assert not block.ref_cnt, "a block in the free queue is held"
            block.ref_cnt = 1
        return taken

    def cache_full_blocks(
        self,
        request: Any,
        blocks: list[Any],
        num_cached_blocks: int,
        num_full_blocks: int,
        block_size: int,
        kv_cache_group_id: int,
        block_mask: list[bool] | None = None,
    ) -> None:
        """As vLLM's; a block without a hash, under one that nobody has yet, is indexed without a call."""
        start = num_cached_blocks
        if num_full_blocks - start < 2 or block_mask is not None or self.enable_kv_cache_events:
            super().cache_full_blocks(
                request, blocks, start, num_full_blocks, block_size, kv_cache_group_id, block_mask
            )
            return
        hashes = resolve_block_hashes(request.block_hashes, self.hash_block_size, block_size)
        suffix = kv_cache_group_id.to_bytes(4, "big")
        index = self.cached_block_hash_to_block._cache
        new_blocks = blocks[start:num_full_blocks]
        stop = start + len(new_blocks)
        ends = _block_ends(block_size, stop)
        for block, digest, num_tokens in zip(new_blocks, hashes[start:stop], ends[start:stop], strict=True):
            if block.is_null:
                continue
            key = digest + suffix
            if block._block_hash is None:
                if index.setdefault(key, block) is block:
                    block._block_hash = key
                    block._block_hash_num_tokens = num_tokens
                else:
                    self._insert_block_hash(key, block, num_tokens)
            else:
                self._promote(block, key, num_tokens)

    def _promote(self, block: Any, key: bytes, num_tokens: int) -> None:
        """The entry of a block that was partly full becomes that of a full one."""
        assert (block._block_hash_num_tokens or num_tokens) < num_tokens, (
            "the block is full and indexed already"
        )
        self._emit_block_removed_events(self._remove_cached_block_hashes(block))
        self._insert_block_hash(key, block, num_tokens)


_ENDS: Final[dict[int, list[int]]] = {}
"""By block size; of all pools of the process. A list is never changed, since several threads may have pools."""


def _block_ends(block_size: int, num_blocks: int) -> list[int]:
    """Numbers of tokens up to the end of each block, at least for so many; one object each, whatever block has it."""
    ends = _ENDS.get(block_size, [])
    if len(ends) < num_blocks:
        more = range((len(ends) + 1) * block_size, (2 * num_blocks + 1) * block_size, block_size)
        ends = _ENDS[block_size] = [*ends, *more]
    return ends


def _first_blocks(entries: list[Any]) -> list[Any]:
    """The first block of each entry of the index, up to one that is missing."""
    found = []
    for entry in entries:
        if entry is None:
            break
        found.append(next(iter(entry.values())) if isinstance(entry, dict) else entry)
    return found

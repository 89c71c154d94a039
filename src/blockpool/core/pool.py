"""`BlockPool`: hands blocks out, takes them back, finds them again by content, recycles the least recently used."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Final, cast, final

from blockpool.core import invariants
from blockpool.core.arguments import as_bool, as_bytes, as_count, as_list, as_optional_text, as_size
from blockpool.core.block import KVCacheBlock, home_of
from blockpool.core.block_hash import as_group_id, scale_factor
from blockpool.core.block_list import BlockList
from blockpool.core.block_map import BlockHashToBlockMap, map_for_pool
from blockpool.core.block_store import BlockStore
from blockpool.core.build import COMPILED
from blockpool.core.event_log import EventLog, StoredRun, as_granularity
from blockpool.core.events import KVCacheEvent
from blockpool.core.free_queue import FreeKVCacheBlockQueue
from blockpool.core.group_index import GroupIndex
from blockpool.core.metrics import as_collector, tell
from blockpool.core.occupancy import Occupancy
from blockpool.core.refusals import blocks_by_id, cannot_copy, require_own
from blockpool.core.stored_events import known_blocks, new_block_hashes, runs_without, stored_run
from blockpool.core.types import BoolArg, BytesArg, IntArg, MetricsCollector, Request, StrArg
from blockpool.errors import ConfigError, OutOfBlocksError

logger = logging.getLogger("blockpool")

MAX_BLOCKS: Final = 0x7FFFFFFF


@final
class BlockPool:
    """All KV cache blocks of an engine, by metadata alone. One thread at a time.

    A call that raises leaves queue, counts, index, events and metrics as they were. A block costs nothing until it is
    used: a pool of any size is there at once.

    Args:
        num_gpu_blocks: Blocks, 1 … 2^31 - 1. Block 0 becomes the null block and is never handed out.
        enable_caching: Whether `cache_full_blocks` indexes blocks; if not, it does nothing.
        hash_block_size: Tokens per entry of a request's `block_hashes`, at least 1.
        enable_kv_cache_events: Whether changes of the index are noted for `take_events`.
        metrics_collector: Told of allocations, hits and evictions. Its hooks must not call the pool; what they raise is
            logged, and the pool goes on.
        reuse_uncached_first: Whether blocks without a hash, which nobody can find again, join the old end of the queue.
        self_check: Whether every call that changes something ends with `check_invariants()`. For tests; O(n) a call.
        int_block_hashes: Whether events carry hashes as 64-bit unsigned integers, or as the digests themselves.
        event_granularity: "every_copy": each block that is indexed or dropped is told of, as vLLM does. "last_copy":
            per key only the first that is indexed and the last that is dropped.
        batch_removes: Whether hashes dropped one after the other share one `BlockRemoved`; vLLM makes one event each.
        fingerprint: What must match for hashes to be comparable, as `BlockHasher.fingerprint` says it.
        random_bytes: Returns so many random bytes; called once. So nobody who chooses hashes can slow the index down.

    Attributes:
        blocks: All blocks, by id; those never needed so far are made when they are looked at.
        free_block_queue: The free ones, next to be handed out first.
        cached_block_hash_to_block: The prefix index.
        null_block: Block 0, for positions that attention skips; never freed, queued, evicted or indexed.
        num_evictions: Blocks dropped from the index since construction, without those of `reset_prefix_cache`.

    Raises:
        ArgumentError: For an argument of the wrong type.
        ConfigError: For a size out of range.
    """

    def __init__(
        self,
        num_gpu_blocks: IntArg,
        enable_caching: BoolArg,
        hash_block_size: IntArg,
        enable_kv_cache_events: BoolArg = False,
        metrics_collector: MetricsCollector | None = None,
        *,
        reuse_uncached_first: BoolArg = False,
        self_check: BoolArg = False,
        int_block_hashes: BoolArg = True,
        event_granularity: StrArg = "every_copy",
        batch_removes: BoolArg = False,
        fingerprint: StrArg | None = None,
        random_bytes: Callable[[int], bytes] = os.urandom,
    ) -> None:
        num_blocks = as_size("num_gpu_blocks", num_gpu_blocks)
        if num_blocks > MAX_BLOCKS:
            raise ConfigError("num_gpu_blocks", num_blocks, f"must be at most {MAX_BLOCKS}")
        self.num_gpu_blocks: int = num_blocks
        self.enable_caching: bool = as_bool("enable_caching", enable_caching)
        self.hash_block_size: int = as_size("hash_block_size", hash_block_size)
        self.enable_kv_cache_events: bool = as_bool("enable_kv_cache_events", enable_kv_cache_events)
        self.metrics_collector: MetricsCollector | None = as_collector(metrics_collector)
        self.reuse_uncached_first: bool = as_bool("reuse_uncached_first", reuse_uncached_first)
        self.self_check: bool = as_bool("self_check", self_check)
        self.int_block_hashes: bool = as_bool("int_block_hashes", int_block_hashes)
        self.event_granularity: str = as_granularity(event_granularity)
        self._last_copies: bool = self.event_granularity == "last_copy"
        self.fingerprint: str | None = as_optional_text("fingerprint", fingerprint)
        self._log: EventLog = EventLog(self.int_block_hashes, as_bool("batch_removes", batch_removes))
        self.free_block_queue: FreeKVCacheBlockQueue = FreeKVCacheBlockQueue([])
        self._store: BlockStore = self.free_block_queue.provide(num_blocks)
        self.blocks: BlockList = BlockList(self._store)
        self.cached_block_hash_to_block: BlockHashToBlockMap = map_for_pool(self._store.made, random_bytes)
        self.null_block: KVCacheBlock = self.free_block_queue.popleft()
        self.null_block.is_null = True
        self.num_evictions: int = 0
        self._num_cached_idle: int = 0

    def __reduce_ex__(self, protocol: object) -> tuple[object, ...]:
        raise cannot_copy("BlockPool")

    def get_cached_block(
        self, block_hash: BytesArg, kv_cache_group_ids: Sequence[int]
    ) -> list[KVCacheBlock] | None:
        """Looks one block up in every group. Changes nothing. O(groups).

        Args:
            block_hash: Hash of the block's content and prefix.
            kv_cache_group_ids: The groups that all must have it.

        Returns:
            One block per group, in their order; None if any group misses.

        Raises:
            ArgumentError: For a wrong type.
            ConfigError: For a group id out of range.
        """
        digest = as_bytes("block_hash", block_hash)
        found: list[KVCacheBlock] = []
        for group_id in as_list("kv_cache_group_ids", kv_cache_group_ids):
            block = self._index_of(group_id).get(digest)
            if block is None:
                return None
            found.append(block)
        return found

    def find_longest_prefix(
        self,
        block_hashes: Sequence[bytes],
        kv_cache_group_ids: Sequence[int],
        max_blocks: IntArg | None = None,
    ) -> tuple[list[KVCacheBlock], ...]:
        """The whole look-up of a prompt in one call: stops at the first block that any group misses. Changes nothing.

        Args:
            block_hashes: Hashes of the prompt's full blocks, in order. A list is read as far as the hit goes; of any
                other sequence the first `max_blocks` are copied.
            kv_cache_group_ids: The groups that all must have a block for it to count.
            max_blocks: Look at no more than so many; None for all.

        Returns:
            One list per group, all of the same length. Complexity: O(groups · length of the hit).

        Raises:
            ArgumentError: For a wrong type.
            ConfigError: For a group id or `max_blocks` out of range.
        """
        limit = MAX_BLOCKS if max_blocks is None else as_count("max_blocks", max_blocks)
        hashes = as_list("block_hashes", block_hashes, limit)
        limit = len(hashes)
        found: list[list[KVCacheBlock]] = []
        for group_id in as_list("kv_cache_group_ids", kv_cache_group_ids):
            wanted = hashes if limit == len(hashes) else hashes[:limit]
            found.append(self._index_of(group_id).longest_prefix(wanted))
            limit = len(found[-1])
        for blocks in found:
            del blocks[limit:]
        return tuple(found)

    def get_new_blocks(self, num_blocks: IntArg) -> list[KVCacheBlock]:
        """Hands out the blocks that were freed longest ago; never looks the cache up. O(num_blocks); all or nothing.

        Each is evicted from the index if it is there, then has `ref_cnt` 1 and no hash.

        Args:
            num_blocks: 0 … `get_num_free_blocks()`.

        Raises:
            ArgumentError: If it is no integer.
            ConfigError: If it is negative.
            OutOfBlocksError: If it is more than are free.

        Events:
            One `BlockRemoved` per evicted block.
        """
        count = as_count("num_blocks", num_blocks)
        if count > self.free_block_queue.num_free_blocks:
            raise OutOfBlocksError(count, self.free_block_queue.num_free_blocks)
        if self.metrics_collector is None:
            taken = self.free_block_queue.hand_out(count)
            self._num_cached_idle -= self._evict(taken)
            if COMPILED and count == 1:
                self.cached_block_hash_to_block.read_ahead(self.free_block_queue.oldest())
        else:
            taken = self.free_block_queue.popleft_n(count)
            for block in taken:
                if self.enable_caching:
                    self._maybe_evict_cached_block(block)
                block.ref_cnt = 1
                tell(self.metrics_collector.on_block_allocated, block)
        self._after_change()
        return taken

    def touch(self, blocks: Sequence[KVCacheBlock]) -> None:
        """Takes one more hold of blocks that a look-up found, null ones excepted; idle ones leave the free queue. O(n).

        Raises:
            ArgumentError: If something is not a block.
            BlockStateError: If a block belongs to another pool.
        """
        require_own("blocks", touched := as_list("blocks", blocks), self.free_block_queue.owner)
        self._touch_own(touched)

    def _touch_own(self, blocks: list[object]) -> None:
        """`touch` of blocks that are known to be of this pool: what the managers have checked is not checked twice."""
        self._num_cached_idle -= self.free_block_queue.claim(blocks)
        if self.metrics_collector is not None:
            for block in cast("list[KVCacheBlock]", blocks):
                if not block.is_null:
                    tell(self.metrics_collector.on_block_accessed, block)
        self._after_change()

    def free_blocks(self, ordered_blocks: Iterable[KVCacheBlock]) -> None:
        """Gives blocks back; those that nobody holds any more join the free queue, still indexed. O(n).

        The null block is passed over. With `reuse_uncached_first`, blocks without a hash join the old end.

        Args:
            ordered_blocks: What is to be recycled first stands first: a request passes its blocks in reverse, so that
                the shared head of its chain lives longest. Taken once; a block may stand in it as often as it is held.

        Raises:
            ArgumentError: If something is not a block.
            BlockStateError: If a block is not held, or listed more often than it is held, or of another pool.
        """
        self._num_cached_idle += self.free_block_queue.release(ordered_blocks, self.reuse_uncached_first)
        self._after_change()

    def cache_full_blocks(
        self,
        request: Request,
        blocks: Sequence[KVCacheBlock],
        num_cached_blocks: IntArg,
        num_full_blocks: IntArg,
        block_size: IntArg,
        kv_cache_group_id: IntArg,
    ) -> None:
        """Indexes `blocks[num_cached_blocks:num_full_blocks]`, which have become full. All or nothing.

        Null blocks are passed over; nothing happens when there is nothing new. A block whose content is indexed already
        is indexed beside the other. O(new blocks).

        Args:
            request: Its `block_hashes` name the content; coarser hashes are derived when `block_size` is a multiple
                of `hash_block_size`. Its tokens and its LoRA are read only when events are on.
            blocks: All blocks of the request so far, in order.
            num_cached_blocks: So many of them, 0 or more, have been passed to an earlier call.
            num_full_blocks: So many of them are full, at most `len(blocks)`.
            block_size: Tokens per block of this group, a multiple of `hash_block_size`.
            kv_cache_group_id: 0 … 2^32 - 1.

        Raises:
            ArgumentError: For an argument or a hash of the wrong type, and for a request that lacks what is read.
            ConfigError: For numbers that do not fit together, and for too few hashes or tokens.
            BlockStateError: If a block belongs to another pool.
            HashAlreadySetError: If a block has a hash.

        Events:
            One `BlockStored` per run of blocks with no null block in between.
        """
        start = as_count("num_cached_blocks", num_cached_blocks)
        stop = as_count("num_full_blocks", num_full_blocks)
        factor = scale_factor(self.hash_block_size, block_size)
        group_id = as_group_id(kv_cache_group_id)
        if start >= stop or not self.enable_caching:
            return
        all_blocks = as_list("blocks", blocks)
        if stop > len(all_blocks):
            raise ConfigError("num_full_blocks", stop, f"there are {len(all_blocks)} blocks")
        self._index_full(request, all_blocks, start, stop, factor, group_id)

    def _index_full(
        self, request: Request, blocks: list[object], start: int, stop: int, factor: int, group_id: int
    ) -> None:
        """`cache_full_blocks` with numbers that are known to be right: the managers', say."""
        hashes, first = new_block_hashes(request, start, stop, factor)
        run: StoredRun | None = None
        if self.enable_kv_cache_events:
            run = stored_run(request, hashes, first, start, stop, factor * self.hash_block_size)
        home = home_of(self.free_block_queue.owner, group_id)
        index = self.cached_block_hash_to_block.group(group_id)
        known = known_blocks(run, blocks, start, index) if run is not None and self._last_copies else None
        num_before = index.num_blocks()
        self._num_cached_idle += index.insert_range(blocks, start, stop, hashes, first, home)
        if run is not None:
            whole = not known and index.num_blocks() - num_before == stop - start
            self._log.records.extend([run] if whole else runs_without(run, blocks, start, known))
        self._after_change()

    def evict_blocks(self, block_ids: Iterable[int]) -> None:
        """Drops the hashes of these blocks, whatever their count, because their content is no good. O(n).

        They stay where they are, in the free queue or out of it. The metrics collector is told of every block listed,
        also of one that has no hash.

        Raises:
            ArgumentError: If something is no integer.
            BlockStateError: If the pool has no such block; it names the id.

        Events:
            One `BlockRemoved` per block that had a hash.
        """
        for block in blocks_by_id(self.blocks, block_ids):
            self._maybe_evict_cached_block(block)
        self._after_change()

    def reset_prefix_cache(self) -> bool:
        """Empties the index, for new weights or a benchmark, if no block is in use. O(blocks that were ever used).

        Returns:
            True: fresh index, all hashes and metrics forgotten. False: blocks are in use; a warning tells how many,
            and nothing has changed.

        Events:
            `AllBlocksCleared` when True.
        """
        if num_used := self.occupancy().in_use:
            logger.warning("the prefix cache cannot be reset: %d blocks are in use", num_used)
            return False
        self.cached_block_hash_to_block = self.cached_block_hash_to_block.emptied()
        for block in self._store.made:
            block._hash = None
        self._num_cached_idle = 0
        if self.metrics_collector is not None:
            self.metrics_collector.reset()
        if self.enable_kv_cache_events:
            self._log.records.append(None)
        logger.info("the prefix cache was reset")
        self._after_change()
        return True

    def get_num_free_blocks(self) -> int:
        """Length of the free queue: cached idle blocks count as free. O(1)."""
        return self.free_block_queue.num_free_blocks

    def get_usage(self) -> float:
        """Share of the usable blocks that requests hold, in [0, 1]; 0 for a pool of one block. O(1)."""
        usable = self.num_gpu_blocks - 1
        return 1.0 - self.free_block_queue.num_free_blocks / usable if usable else 0.0

    def occupancy(self) -> Occupancy:
        """Where the blocks are, from counters. O(1)."""
        free = self.free_block_queue.num_free_blocks
        return Occupancy(self.num_gpu_blocks - 1 - free, self._num_cached_idle, free - self._num_cached_idle)

    def take_events(self) -> list[KVCacheEvent]:
        """Hands over the events since the last call, in order, and starts a new list; [] when events are off."""
        return self.take_event_log().events()

    def take_event_log(self) -> EventLog:
        """As `take_events`, but hands over what the events are made of: cheap here, the work is the reader's. O(1)."""
        log = self._log
        self._log = log.successor()
        return log

    @property
    def kv_event_queue(self) -> list[KVCacheEvent]:
        """Events not yet taken."""
        return self._log.events()

    def check_invariants(self) -> None:
        """Compares the pool with its rules, I1 to I6 of ARCHITECTURE.md. O(blocks ever used).

        Raises:
            InvariantError: Names the broken rule and shows what was found.
        """
        invariants.check_pool(self)

    def _maybe_evict_cached_block(self, block: KVCacheBlock) -> bool:
        """Drops a block's hash from the index and the block; tells whether it had one there."""
        if self.metrics_collector is not None:
            tell(self.metrics_collector.on_block_evicted, block)
        evicted = self._evict([block]) == 1
        if evicted and block.ref_cnt == 0:
            self._num_cached_idle -= 1
        return evicted

    def _evict(self, blocks: list[KVCacheBlock]) -> int:
        """Drops the hashes of those blocks that are indexed; returns their number."""
        dropped = self._log.records if self.enable_kv_cache_events else None
        num_dropped = self.cached_block_hash_to_block.evict_n(blocks, dropped, self._last_copies)
        self.num_evictions += num_dropped
        return num_dropped

    def _index_of(self, group_id: object) -> GroupIndex:
        return self.cached_block_hash_to_block.find_group(as_group_id(group_id))

    def _after_change(self) -> None:
        if self.self_check:
            invariants.check_pool(self)

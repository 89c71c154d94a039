"""An obvious model of the block pool: lists and dicts, no links, no counters, everything worked out anew."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from .support import external, key

T = TypeVar("T")


def naive_prefix(
    get_cached_block: Callable[[bytes, list[int]], list[T] | None],
    hashes: list[bytes],
    group_ids: list[int],
    limit: int | None,
) -> list[list[T]]:
    """What `find_longest_prefix` is short for: one look-up per block, up to the first that a group misses."""
    found: list[list[T]] = [[] for _ in group_ids]
    for block_hash in hashes[:limit]:
        blocks = get_cached_block(block_hash, group_ids)
        if blocks is None:
            break
        for group_blocks, block in zip(found, blocks, strict=True):
            group_blocks.append(block)
    return found


class PoolModel:
    """What the specification says, in the plainest form.

    `queue` lists ids, oldest first; `index` maps a key to ids in the order of insertion. A method changes the
    model as the pool's method of that name must change the pool; arguments are known to be right.
    """

    def __init__(
        self, num_blocks: int, caching: bool, hash_block_size: int, events: bool, options: Any
    ) -> None:
        self.num_blocks = num_blocks
        self.caching = caching
        self.hash_block_size = hash_block_size
        self.events_on = events
        self.reuse_uncached_first: bool = options["reuse_uncached_first"]
        self.int_hashes: bool = options["int_block_hashes"]
        self.last_copies: bool = options["event_granularity"] == "last_copy"
        self.queue = list(range(1, num_blocks))
        self.counts = [0] * num_blocks
        self.hashes: list[bytes | None] = [None] * num_blocks
        self.index: dict[bytes, list[int]] = {}
        self.events: list[tuple[Any, ...]] = []
        self.hooks: list[tuple[str, int, int, bool]] = []
        self.evictions = 0

    def get_new_blocks(self, count: int) -> list[int]:
        taken, self.queue = self.queue[:count], self.queue[count:]
        for block_id in taken:
            if self.caching:
                self.evict(block_id)
            self.counts[block_id] = 1
            self.hook("allocated", block_id)
        return taken

    def touch(self, block_ids: list[int]) -> None:
        for block_id in block_ids:
            if block_id == 0:
                continue
            if self.counts[block_id] == 0:
                self.queue.remove(block_id)
            self.counts[block_id] += 1
            self.hook("accessed", block_id)

    def free_blocks(self, block_ids: list[int]) -> None:
        idle = []
        for block_id in block_ids:
            if block_id == 0:
                continue
            self.counts[block_id] -= 1
            if self.counts[block_id] == 0:
                idle.append(block_id)
        if self.reuse_uncached_first:
            self.queue = [i for i in idle if self.hashes[i] is None] + self.queue
            idle = [i for i in idle if self.hashes[i] is not None]
        self.queue += idle

    def cache_full_blocks(
        self,
        tokens: list[int],
        fine: list[bytes],
        table: list[int],
        start: int,
        stop: int,
        size: int,
        group_id: int,
    ) -> None:
        factor = size // self.hash_block_size
        coarse = [b"".join(fine[i * factor : (i + 1) * factor]) for i in range(len(fine) // factor)]
        run: list[int] = []
        for i in range(start, stop):
            block_id = table[i]
            if block_id == 0:
                self.stored(run, coarse, tokens, size)
                run = []
                continue
            full_key = key(coarse[i], group_id)
            untold = self.last_copies and full_key in self.index
            self.hashes[block_id] = full_key
            self.index.setdefault(full_key, []).append(block_id)
            if untold:
                self.stored(run, coarse, tokens, size)
                run = []
            else:
                run.append(i)
        self.stored(run, coarse, tokens, size)

    def stored(self, run: list[int], coarse: list[bytes], tokens: list[int], size: int) -> None:
        if not run or not self.events_on:
            return
        first, last = run[0], run[-1]
        parent = self.external(coarse[first - 1]) if first else None
        hashes = [self.external(coarse[i]) for i in run]
        covered = tokens[first * size : (last + 1) * size]
        self.events.append(("stored", hashes, parent, covered, size, None, "GPU", None))

    def evict_blocks(self, block_ids: list[int]) -> None:
        for block_id in block_ids:
            self.evict(block_id)

    def evict(self, block_id: int) -> None:
        self.hook("evicted", block_id)
        full_key = self.hashes[block_id]
        if full_key is None:
            return
        self.index[full_key].remove(block_id)
        if not self.index[full_key]:
            del self.index[full_key]
        self.hashes[block_id] = None
        self.evictions += 1
        if self.events_on and not (self.last_copies and full_key in self.index):
            self.events.append(("removed", [self.external(full_key[:-4])], "GPU"))

    def reset_prefix_cache(self) -> bool:
        if len(self.queue) != self.num_blocks - 1:
            return False
        self.index.clear()
        self.hashes = [None] * self.num_blocks
        self.hooks.append(("reset", -1, 0, False))
        if self.events_on:
            self.events.append(("cleared",))
        return True

    def get_cached_block(self, block_hash: bytes, group_ids: list[int]) -> list[int] | None:
        found = []
        for group_id in group_ids:
            under = self.index.get(key(block_hash, group_id))
            if not under:
                return None
            found.append(under[0])
        return found

    def find_longest_prefix(
        self, hashes: list[bytes], group_ids: list[int], limit: int | None
    ) -> list[list[int]]:
        return naive_prefix(self.get_cached_block, hashes, group_ids, limit)

    def external(self, block_hash: bytes) -> int | bytes:
        return external(block_hash) if self.int_hashes else block_hash

    def hook(self, name: str, block_id: int) -> None:
        self.hooks.append((name, block_id, self.counts[block_id], self.hashes[block_id] is not None))

    def state(self) -> dict[str, Any]:
        """In the form of `support.snapshot`."""
        idle = [block_id for block_id in self.queue if self.hashes[block_id] is not None]
        usable = self.num_blocks - 1
        return {
            "queue": self.queue,
            "num_free_blocks": len(self.queue),
            "counts": self.counts,
            "hashes": self.hashes,
            "index": {full_key: under[0] for full_key, under in self.index.items()},
            "index length": len(self.index),
            "events": self.events,
            "occupancy": (usable - len(self.queue), len(idle), len(self.queue) - len(idle)),
            "usage": 1.0 - len(self.queue) / usable if usable else 0,
            "evictions": self.evictions,
            "hooks": self.hooks,
        }

"""Random calls to vLLM's own pool and to the one in its place, in a process of its own: the same after every call.

    python -m tests.vllm.drop_in.pool_calls {ours,check} FIRST_SEED NUM_SEEDS NUM_CALLS

It prints one line of JSON: what was done how often, and the first difference of each seed that has one.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections import Counter
from typing import Any

from .pool_pair import Different, Parts, PoolPair, PoolSetting, checked, load_parts
from .pool_requests import PoolRequests, coarse, make_spec


class Calls:
    """What a scheduler and its managers do to a pool, and what they could do.

    Attributes:
        pair: The pools.
        running: The requests, each with a table of block ids per group.
        held: Ids of blocks that something else holds, as often as it does.
    """

    def __init__(self, parts: Parts, seed: int) -> None:
        self.source = random.Random(seed)
        source = self.source
        self.setting = PoolSetting(
            num_blocks=source.choice((20, 60, 200)),
            hash_block_size=source.choice((1, 2, 4)),
            factor=source.choice((1, 1, 2, 3)),
            groups=source.choice(((0,), (0,), (0, 1), (0, 3, 1))),
            events=source.random() < 0.4,
            metrics=source.random() < 0.2,
            caching=source.random() < 0.95,
        )
        self.pair = PoolPair(parts, self.setting)
        self.is_new = parts.is_new
        self.block_size = self.setting.hash_block_size * self.setting.factor
        self.requests = PoolRequests(source, self.setting)
        self.running: list[Any] = []
        self.held: list[int] = []
        self.reused: dict[int, list[int]] = {}
        self.calls = [self.arrive, self.grow, self.index, self.index, self.finish] * 3
        self.calls += [
            self.touch,
            self.let_go,
            self.let_go,
            self.evict,
            self.reset,
            self.pair.take_events,
            self.look,
        ]
        if self.is_new:
            self.other = PoolPair(parts, self.setting)
            self.calls += [self.index_part] * 3
            self.calls += [self.move, self.unpin, self.copy_on_write, self.emit, self.evict_one]
            self.calls += [self.free_of_two_pools, self.insert]
            if not hasattr(self.pair.pools[1], "comparison"):  # it would see how the block is broken
                self.calls += [self.touch_broken, self.take_broken]

    def play(self, num_calls: int) -> None:
        """So many of them, then everything is given back."""
        for _ in range(num_calls):
            self.source.choice(self.calls)()
        self.give_back()
        self.pair.take_events()

    def give_back(self) -> None:
        """Nothing is held any more."""
        while self.running:
            self.finish()
        while self.held:
            self.let_go()

    def arrive(self) -> None:
        """Look up, touch, take some more blocks: for EAGLE or not, with hits of any alignment."""
        source = self.source
        request = self.requests.make(self.pair.seen["arrive"])
        self.pair.seen["arrive"] += 1
        spec = make_spec(self.block_size)
        multiples = [1, 1, 2] if not self.is_new else [1, 1, 2, 1 / self.setting.factor]
        alignment = int(self.block_size * source.choice(multiples))
        hashes = request.block_hashes
        if self.setting.factor > 1 and (
            not self.is_new or (alignment >= self.block_size and source.random() < 0.5)
        ):
            hashes = coarse(hashes, self.setting.hash_block_size, self.block_size)
        eagle = "drop_eagle_block" if self.is_new else "use_eagle"
        found = self.pair.look_up(
            hashes,
            source.choice((request.num_tokens - 1, request.num_tokens, 0)),
            list(self.setting.groups),
            spec,
            alignment_tokens=alignment,
            **{eagle: source.random() < 0.3},
        )
        blocks, num_tokens = found if self.is_new else (found, None)
        for group, ids in zip(self.setting.groups, blocks, strict=True):
            whole = ids if num_tokens is None else ids[: num_tokens // self.block_size]
            self.pair.call("touch", lambda pool, ids=whole: pool.touch([pool.blocks[one] for one in ids]))
            request.tables[group] = list(whole)
            request.indexed[group] = len(whole)
            if source.random() < 0.1 and request.tables[group]:
                self.leave_window(request, group)
        self.running.append(request)
        self.more_blocks(request)
        if source.random() < 0.7:
            for group in self.setting.groups:
                self.index_blocks(request, group, len(request.tables[group]))

    def leave_window(self, request: Any, group: int) -> None:
        """The first blocks are given back, and null blocks stand in their places."""
        count = self.source.randint(1, len(request.tables[group]))
        gone = [one for one in request.tables[group][:count] if one]
        request.tables[group][:count] = [0] * count
        self.free(gone)

    def more_blocks(self, request: Any) -> None:
        most = len(request.block_hashes) // self.setting.factor
        for group in self.setting.groups:
            table = request.tables[group]
            wanted = self.source.randint(0, most - len(table)) if most > len(table) else 0
            taken = self.pair.call("get_new_blocks", lambda pool, n=wanted: pool.get_new_blocks(n))
            if isinstance(taken, list):
                table += taken

    def grow(self) -> None:
        if self.running:
            self.more_blocks(self.source.choice(self.running))

    def index(self) -> None:
        """What is full is indexed, now and then with a mask, now and then with null blocks among it."""
        if not self.running:
            return
        request = self.source.choice(self.running)
        group = self.source.choice(self.setting.groups)
        num_full = len(request.tables[group])
        self.index_blocks(
            request, group, self.source.randint(min(request.indexed[group], num_full), num_full)
        )

    def index_blocks(self, request: Any, group: int, stop: int) -> None:
        if not self.setting.caching:  # nobody would
            return
        source = self.source
        table = request.tables[group]
        start = request.indexed[group]
        if stop > start and source.random() < 0.2:
            place = source.randrange(start, stop)
            if table[place]:
                self.held.append(table[place])
                table[place] = 0
        more: dict[str, Any] = {}
        if self.is_new and source.random() < 0.2:
            more["block_mask"] = [source.random() < 0.7 for _ in range(stop - start)]
        arguments = (start, stop, self.block_size, group)
        self.pair.call(
            "cache_full_blocks",
            lambda pool: pool.cache_full_blocks(
                request, [pool.blocks[one] for one in table], *arguments, **more
            ),
        )
        self.pair.seen["masked"] += bool(more)
        request.indexed[group] = stop

    def index_part(self) -> None:
        """An entry that ends within a block, or at its end."""
        request = self.source.choice(self.running) if self.running else None
        if request is None or not request.block_hashes or not self.setting.caching:
            return
        group = self.source.choice(self.setting.groups)
        num_tokens = self.source.randint(1, len(request.block_hashes)) * self.setting.hash_block_size
        place = (num_tokens - 1) // self.block_size
        table = request.tables[group]
        if place < len(table):
            replace = self.source.random() < 0.3
            self.pair.call(
                "cache_partial_block",
                lambda pool: pool.cache_partial_block(
                    request, pool.blocks[table[place]], num_tokens, group, self.block_size, replace
                ),
            )
            self.pair.seen["two hashes"] += bool(self.pair.pools[0].cached_block_hashes_by_block)

    def finish(self) -> None:
        """A request gives its blocks back, the last first, as an iterator."""
        if self.running:
            request = self.running.pop(self.source.randrange(len(self.running)))
            for table in request.tables.values():
                self.free(table)

    def free(self, ids: list[int]) -> None:
        self.pair.call(
            "free_blocks", lambda pool: pool.free_blocks(pool.blocks[one] for one in reversed(ids))
        )

    def let_go(self) -> None:
        """Of what else is held, some; 0.16 would queue a block twice if it were listed twice."""
        count = self.source.randint(0, len(self.held))
        gone, self.held = self.held[:count], self.held[count:]
        while not self.is_new and len(set(gone)) < len(gone):
            self.free([gone.pop()])
        self.free(gone)

    def touch(self) -> None:
        """Blocks as they stand in the queue, in either direction, with gaps; held ones, the null block, one twice."""
        source = self.source
        queue = [block.block_id for block in self.pair.pools[0].free_block_queue.get_all_free_blocks()]
        start = source.randint(0, len(queue))
        chosen = queue[start : start + source.randint(0, 8)][:: source.choice((1, -1))]
        chosen = [one for one in chosen if source.random() < 0.8]
        for extra in (self.held[:1], [0], chosen[:1], queue[-1:]):
            if extra and source.random() < 0.3:
                chosen.insert(source.randint(0, len(chosen)), extra[0])
        self.pair.call("touch", lambda pool: pool.touch([pool.blocks[one] for one in chosen]))
        self.held += [one for one in chosen if one]

    def touch_broken(self) -> None:
        """A block that is in no queue and that nobody holds: an error, after those before it."""
        if not self.held or self.held[0] in self.held[1:]:
            return
        broken = self.held[0]
        if self.pair.pools[0].blocks[broken].ref_cnt != 1:
            return
        queue = [block.block_id for block in self.pair.pools[0].free_block_queue.get_all_free_blocks()]
        chosen = [*queue[1:4][::-1], broken, *queue[5:7]]
        for pool in self.pair.pools:
            pool.blocks[broken].ref_cnt = 0
        found = []
        for pool in self.pair.pools:
            try:
                pool.touch([pool.blocks[one] for one in chosen])
            except RuntimeError as error:
                found.append(str(error)[:40])
            pool.blocks[broken].ref_cnt = 1
        self.held += queue[1:4]
        self.pair.seen["touch: broken"] += 1
        if len(found) != 2 or found[0] != found[1]:
            raise Different(f"touch of a broken block: {found}")
        self.pair.compare("touch of a broken block")

    def take_broken(self) -> None:
        """A block of the free queue that says it is held: an assertion, after those before it were taken."""
        queue = [block.block_id for block in self.pair.pools[0].free_block_queue.get_all_free_blocks()]
        if len(queue) < 3 or self.source.random() < 0.8:
            return
        for pool in self.pair.pools:
            pool.blocks[queue[2]].ref_cnt = 1
        outcome = self.pair.call("get_new_blocks, one is broken", lambda pool: pool.get_new_blocks(3))
        if isinstance(outcome, list):
            raise Different(f"get_new_blocks gives a block that is held: {outcome}")
        self.held += queue[:3]

    def look(self) -> None:
        """One hash, and what can be asked of a pool or a block."""
        request = self.source.choice(self.running) if self.running else None
        if request is not None and request.block_hashes:
            digest = self.source.choice(request.block_hashes)
            groups = list(self.setting.groups)
            self.pair.call("get_cached_block", lambda pool: pool.get_cached_block(digest, groups))
        if self.is_new:
            self.pair.call(
                "is_block_writable", lambda pool: [pool.is_block_writable(one) for one in pool.blocks]
            )

    def some_ids(self) -> set[int]:
        return {self.source.randrange(1, self.setting.num_blocks) for _ in range(self.source.randint(0, 4))}

    def evict(self) -> None:
        ids = self.some_ids()
        self.pair.call("evict_blocks", lambda pool: pool.evict_blocks(ids))

    def evict_one(self) -> None:
        for one in self.some_ids():
            self.pair.call(
                "_maybe_evict_cached_block",
                lambda pool, one=one: pool._maybe_evict_cached_block(pool.blocks[one]),
            )

    def insert(self) -> None:
        """A connector indexes a block by itself, under a hash that it has from another pool."""
        request = self.source.choice(self.running) if self.running else None
        if request is None or not request.block_hashes or not self.held or not self.setting.caching:
            return
        one = self.source.choice(self.held)
        group = self.source.choice(self.setting.groups)
        key = self.source.choice(request.block_hashes) + group.to_bytes(4, "big")
        self.pair.call(
            "_insert_block_hash",
            lambda pool: pool._insert_block_hash(key, pool.blocks[one], num_tokens=None),
        )

    def reset(self) -> None:
        """Refused while something is held; so now and then all is given back first."""
        if self.source.random() < 0.05:
            self.give_back()
        self.pair.seen["resets"] += bool(
            self.pair.call("reset_prefix_cache", lambda pool: pool.reset_prefix_cache())
        )

    def move(self) -> None:
        """The hashes of one block to another, which may not be possible."""
        first, second = (self.source.randrange(1, self.setting.num_blocks) for _ in range(2))
        self.pair.call(
            "move_block_hashes",
            lambda pool: pool.move_block_hashes(pool.blocks[first], pool.blocks[second]),
        )

    def unpin(self) -> None:
        """Held blocks become free, and whoever reads them is told when they are used again."""
        gone, self.held = self.held[:3], self.held[3:]

        def work(pool: Any) -> Any:
            told = self.reused.setdefault(id(pool), [])
            pool.unpin_blocks((pool.blocks[one] for one in gone), lambda block: told.append(block.block_id))
            return list(told)

        self.pair.call("unpin_blocks", work)

    def copy_on_write(self) -> None:
        """A manager holds a block once more, by itself, while it is copied."""
        if self.held:
            one = self.held[0]
            for pool in self.pair.pools:
                pool.blocks[one].ref_cnt += 1
            self.held.append(one)
            self.pair.compare("copy on write")

    def free_of_two_pools(self) -> None:
        """Blocks of another pool among those that are given back go to that pool."""
        taken = self.other.call("get_new_blocks", lambda pool: pool.get_new_blocks(2))
        gone, self.held = self.held[:2], self.held[2:]
        others = dict(zip(map(id, self.pair.pools), self.other.pools, strict=True))
        self.pair.call(
            "free_blocks, of two pools",
            lambda pool: pool.free_blocks(
                [*(pool.blocks[one] for one in gone), *(others[id(pool)].blocks[one] for one in taken)]
            ),
        )
        self.other.compare("free_blocks, of two pools")

    def emit(self) -> None:
        """Events of blocks that were found."""
        if self.running:
            request = self.source.choice(self.running)
            count = self.source.randint(0, len(request.block_hashes) // self.setting.factor)
            self.pair.call(
                "emit_cached_block_events",
                lambda pool: pool.emit_cached_block_events(request, count, self.block_size, 0),
            )


def main() -> None:
    """Be one process of the test."""
    which = sys.argv[1]
    first, num_seeds, num_calls = map(int, sys.argv[2:])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever vLLM prints goes elsewhere
    import vllm  # noqa: F401 - it sets itself up

    parts = load_parts()
    if which == "check":
        parts = checked(parts)
    seen: Counter[str] = Counter()
    different = {}
    compared = 0
    for seed in range(first, first + num_seeds):
        calls = Calls(parts, seed)
        try:
            calls.play(num_calls)
        except Different as error:
            different[seed] = f"{calls.setting}: {error}"[:2000]
        seen += calls.pair.seen
        if which == "check":
            comparison = calls.pair.pools[1].comparison
            compared += comparison.num_compared
            if comparison.mismatch is not None:
                different[seed] = f"{calls.setting}: {comparison.mismatch}"[:2000]
    answers.write(json.dumps({"seen": seen, "different": different, "compared": compared}) + "\n")


if __name__ == "__main__":
    main()

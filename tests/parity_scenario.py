"""One seed played through the core of whichever build runs this; prints what came out as JSON.

Run by test_parity.py in a process of its own, on the interpreted and on the compiled build: everything printed must
be equal. It needs nothing but blockpool with its extra `hash`, and takes a seed and a number of steps.
"""

from __future__ import annotations

import array
import hashlib
import json
import logging
import random
import sys
from collections.abc import Callable
from typing import Any

import blockpool
from blockpool import (
    HASH_ALGORITHMS,
    BlockHasher,
    BlockHashListWithBlockSize,
    BlockHashToBlockMap,
    BlockPool,
    BlockPoolError,
    FreeKVCacheBlockQueue,
    KVCacheBlock,
    KVCacheMetricsCollector,
    MultiModalInput,
    block_extra_keys,
    external_block_hash,
    get_block_hash,
    get_group_id,
    make_block_hash_with_group_id,
)

NUM_BLOCKS = 200
BLOCK_SIZE = 4


class Lora:
    """An adapter."""

    name = "adapter"
    adapter_id = 3


class Request:
    """What the pool reads."""

    def __init__(self, request_id: str, tokens: list[int], hashes: list[bytes], lora: Lora | None) -> None:
        self.request_id = request_id
        self.all_token_ids = tokens
        self.block_hashes = hashes
        self.lora_request = lora


class Player:
    """Plays a random workload, writing down every answer; the random source is Python's own, seeded."""

    def __init__(self, seed: int, reuse_uncached_first: bool) -> None:
        self.random = random.Random(seed)
        self.now = 0
        self.metrics = KVCacheMetricsCollector(0.5, clock=self.clock, random=self.random.random)
        self.pool = BlockPool(
            NUM_BLOCKS, True, BLOCK_SIZE, True, self.metrics, reuse_uncached_first=reuse_uncached_first
        )
        self.hasher = BlockHasher("sha256", BLOCK_SIZE, str(seed))
        self.documents = [[self.random.randrange(2**32) for _ in range(60)] for _ in range(8)]
        self.running: list[list[KVCacheBlock]] = []
        self.log: list[Any] = []
        self.events = hashlib.sha256()
        self.num_events = 0

    def clock(self) -> int:
        self.now += 1_000_003
        return self.now

    def step(self) -> None:
        choice = self.random.random()
        if choice < 0.55:
            self.admit()
        elif choice < 0.9:
            self.finish()
        elif choice < 0.93:
            doomed = self.random.sample(range(NUM_BLOCKS), 5)
            self.pool.evict_blocks(doomed)
        elif choice < 0.94:
            self.log.append(self.pool.reset_prefix_cache())
        else:
            self.bad_call()
        if self.random.random() < 0.2:
            self.take_events()
        occupancy = self.pool.occupancy()
        self.log.append([*occupancy, self.pool.get_usage(), len(self.pool.cached_block_hash_to_block)])

    def admit(self) -> None:
        document = self.random.choice(self.documents)
        tokens = document[: self.random.randrange(60)] + [self.random.randrange(50) for _ in range(9)]
        lora = Lora() if self.random.random() < 0.2 else None
        keys = block_extra_keys(
            len(tokens) // BLOCK_SIZE,
            BLOCK_SIZE,
            lora_name=None if lora is None else lora.name,
            cache_salt=self.random.choice([None, None, "salt"]),
            mm_inputs=[MultiModalInput("image", 3, 7)] if self.random.random() < 0.2 else (),
        )
        hashes: list[bytes] = list(self.hasher.hash_tokens(tokens, extra_keys=keys))
        hits = self.pool.find_longest_prefix(hashes, [0])[0]
        self.pool.touch(hits)
        try:
            fresh = self.pool.get_new_blocks(len(tokens) // BLOCK_SIZE + 1 - len(hits))
        except BlockPoolError as error:
            self.log.append(told(error))
            self.pool.free_blocks(reversed(hits))
            return
        table = [*hits, *fresh]
        if self.random.random() < 0.2 and len(hits) + 2 < len(hashes):
            self.pool.free_blocks([table[len(hits) + 1]])
            table[len(hits) + 1] = self.pool.null_block
        request = Request("r", tokens, hashes, lora)
        self.pool.cache_full_blocks(request, table, len(hits), len(hashes), BLOCK_SIZE, 0)
        self.running.append(table)
        self.log.append([len(hits), [block.block_id for block in table]])

    def finish(self) -> None:
        if self.running:
            table = self.running.pop(self.random.randrange(len(self.running)))
            self.pool.free_blocks(reversed(table))

    def bad_call(self) -> None:
        name = self.random.choice(sorted(BAD_POOL_CALLS))
        before = [block.block_id for block in self.pool.free_block_queue.get_all_free_blocks()]
        self.log.append([name, outcome(lambda: BAD_POOL_CALLS[name](self.pool))])
        after = [block.block_id for block in self.pool.free_block_queue.get_all_free_blocks()]
        assert before == after, name

    def take_events(self) -> None:
        for event in self.pool.take_events():
            self.num_events += 1
            self.events.update(repr(event).encode())
            self.events.update(b"\n")

    def play(self, steps: int) -> dict[str, Any]:
        for _ in range(steps):
            self.step()
        self.take_events()
        self.pool.check_invariants()
        blocks = [[block.ref_cnt, str(block.block_hash)] for block in self.pool.blocks]
        queue = [block.block_id for block in self.pool.free_block_queue.get_all_free_blocks()]
        residency = [
            list(map(repr, self.metrics.drain_events())),
            list(map(repr, self.metrics.drain_recycled())),
        ]
        return {
            "log": digest(self.log),
            "state": digest([blocks, queue]),
            "residency": digest(residency),
            "events": self.events.hexdigest(),
            "num_events": self.num_events,
            "num_evictions": self.pool.num_evictions,
            "num_residencies": [len(part) for part in residency],
        }


def digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()


def told(error: BlockPoolError) -> str:
    """Class and attributes of an error; its wording may change."""
    return f"{type(error).__name__}({', '.join(sorted(vars(error)))})"


def outcome(call: Callable[[], object]) -> str:
    """The answer of a call, or its error."""
    try:
        answer = call()
    except BlockPoolError as error:
        return told(error)
    except Exception as error:
        return f"other error: {type(error).__name__}"
    shown = answer is None or isinstance(answer, (int, float, str, bytes, list, tuple))
    return f"answer: {answer!r}" if shown else f"answer: a {type(answer).__name__}"


def cache_on(pool: Any, request: Any, blocks: Any, *numbers: Any) -> Any:
    return pool.cache_full_blocks(request, blocks, *numbers)


NO_REQUEST: Any = Request("r", [], [], None)
LATE_TEXT: Any = Request("r", [1] * 8, ["text"], None)  # type: ignore[list-item]
STRANGER = KVCacheBlock(1)

BAD_POOL_CALLS: dict[str, Callable[[Any], object]] = {
    "get -1": lambda p: p.get_new_blocks(-1),
    "get 2^40": lambda p: p.get_new_blocks(2**40),
    "get 2^70": lambda p: p.get_new_blocks(2**70),
    "get text": lambda p: p.get_new_blocks("1"),
    "get half": lambda p: p.get_new_blocks(1.5),
    "get None": lambda p: p.get_new_blocks(None),
    "touch None": lambda p: p.touch(None),
    "touch ids": lambda p: p.touch([1]),
    "touch a stranger": lambda p: p.touch([STRANGER]),
    "free None": lambda p: p.free_blocks(None),
    "free ids": lambda p: p.free_blocks([1]),
    "free a stranger": lambda p: p.free_blocks([STRANGER]),
    "free text": lambda p: p.free_blocks("ab"),
    "evict 10^6": lambda p: p.evict_blocks({10**6}),
    "evict -1": lambda p: p.evict_blocks([-1]),
    "evict 2^70": lambda p: p.evict_blocks([2**70]),
    "evict text": lambda p: p.evict_blocks(["1"]),
    "evict None": lambda p: p.evict_blocks(None),
    "look up text": lambda p: p.get_cached_block("x", [0]),
    "look up None": lambda p: p.get_cached_block(None, [0]),
    "look up without groups": lambda p: p.get_cached_block(b"x", None),
    "look up group -1": lambda p: p.get_cached_block(b"x", [-1]),
    "look up group 2^32": lambda p: p.get_cached_block(b"x", [2**32]),
    "look up group text": lambda p: p.get_cached_block(b"x", ["0"]),
    "prefix of None": lambda p: p.find_longest_prefix(None, [0]),
    "prefix of text": lambda p: p.find_longest_prefix(["x"], [0]),
    "prefix of -1 blocks": lambda p: p.find_longest_prefix([b"x"], [0], -1),
    "prefix of half a block": lambda p: p.find_longest_prefix([b"x"], [0], 0.5),
    "cache None": lambda p: cache_on(p, NO_REQUEST, None, 0, 1, BLOCK_SIZE, 0),
    "cache for None": lambda p: cache_on(p, None, p.blocks[1:2], 0, 1, BLOCK_SIZE, 0),
    "cache from -1": lambda p: cache_on(p, NO_REQUEST, p.blocks[1:2], -1, 1, BLOCK_SIZE, 0),
    "cache without hashes": lambda p: cache_on(p, NO_REQUEST, p.blocks[1:2], 0, 1, BLOCK_SIZE, 0),
    "cache a text hash": lambda p: cache_on(p, LATE_TEXT, p.blocks[1:2], 0, 1, BLOCK_SIZE, 0),
    "cache by size 5": lambda p: cache_on(p, NO_REQUEST, p.blocks[1:2], 0, 1, 5, 0),
    "cache by size text": lambda p: cache_on(p, NO_REQUEST, p.blocks[1:2], 0, 1, "4", 0),
    "cache in group -1": lambda p: cache_on(p, NO_REQUEST, p.blocks[1:2], 0, 1, BLOCK_SIZE, -1),
    "cache a stranger": lambda p: cache_on(p, LATE_TEXT, [STRANGER], 0, 1, BLOCK_SIZE, 0),
}

A: Any = None  # stands for an argument of no type at all
HASHER: Any = BlockHasher("sha256", BLOCK_SIZE, "0")
BAD_CALLS: dict[str, Callable[[], object]] = {
    "pool of text": lambda: BlockPool("5", True, 4),  # type: ignore[arg-type]
    "pool of 0": lambda: BlockPool(0, True, 4),
    "pool of 2^40": lambda: BlockPool(2**40, True, 4),
    "pool of 2^70": lambda: BlockPool(2**70, True, 4),
    "pool, caching None": lambda: BlockPool(5, A, 4),
    "pool, caching 1": lambda: BlockPool(5, 1, 4),  # type: ignore[arg-type]
    "pool, size None": lambda: BlockPool(5, True, A),
    "pool, events None": lambda: BlockPool(5, True, 4, A),
    "pool, collector 5": lambda: BlockPool(5, True, 4, False, 5),  # type: ignore[arg-type]
    "pool, reuse None": lambda: BlockPool(5, True, 4, reuse_uncached_first=A),
    "pool, self_check None": lambda: BlockPool(5, True, 4, self_check=A),
    "pool, int hashes text": lambda: BlockPool(5, True, 4, int_block_hashes="no"),  # type: ignore[arg-type]
    "block text": lambda: KVCacheBlock("1"),  # type: ignore[arg-type]
    "block hash text": lambda: setattr(KVCacheBlock(1), "block_hash", "x"),
    "block hash short": lambda: setattr(KVCacheBlock(1), "block_hash", b"x"),
    "queue of None": lambda: FreeKVCacheBlockQueue(A),
    "queue of text": lambda: FreeKVCacheBlockQueue(["x"]),  # type: ignore[list-item]
    "queue, remove text": lambda: FreeKVCacheBlockQueue([]).remove("x"),  # type: ignore[arg-type]
    "queue, append text": lambda: FreeKVCacheBlockQueue([]).append("x"),  # type: ignore[arg-type]
    "queue, append_n None": lambda: FreeKVCacheBlockQueue([]).append_n(A),
    "queue, popleft": lambda: FreeKVCacheBlockQueue([]).popleft(),
    "queue, popleft_n text": lambda: FreeKVCacheBlockQueue([]).popleft_n("1"),  # type: ignore[arg-type]
    "map, get text": lambda: BlockHashToBlockMap().get_one_block("x"),  # type: ignore[arg-type]
    "map, insert text": lambda: BlockHashToBlockMap().insert(b"x" * 9, "b"),  # type: ignore[arg-type]
    "map, pop text": lambda: BlockHashToBlockMap().pop(b"x" * 9, "1"),  # type: ignore[arg-type]
    "key of text": lambda: make_block_hash_with_group_id("x", 0),  # type: ignore[arg-type]
    "key of group -1": lambda: make_block_hash_with_group_id(b"x", -1),
    "hash of text": lambda: get_block_hash("x"),  # type: ignore[arg-type]
    "group of text": lambda: get_group_id("x"),  # type: ignore[arg-type]
    "external of text": lambda: external_block_hash("x"),  # type: ignore[arg-type]
    "coarse of None": lambda: BlockHashListWithBlockSize(A, 16, 32),
    "coarse of 24": lambda: BlockHashListWithBlockSize([], 16, 24),
    "metrics text": lambda: KVCacheMetricsCollector("1"),  # type: ignore[arg-type]
    "metrics 0": lambda: KVCacheMetricsCollector(0.0),
    "metrics, int rate": lambda: KVCacheMetricsCollector(1).sample_rate,
    "hasher None": lambda: BlockHasher(A, 4),
    "hasher unknown": lambda: BlockHasher("md5", 4),
    "hasher size text": lambda: BlockHasher("sha256", "4"),  # type: ignore[arg-type]
    "hasher seed int": lambda: BlockHasher("sha256", 4, 0),  # type: ignore[arg-type]
    "hasher schema None": lambda: BlockHasher("sha256", 4, "0", key_schema=A),
    "tokens None": lambda: HASHER.hash_tokens(None),
    "tokens text": lambda: HASHER.hash_tokens("abcd"),
    "tokens bytes": lambda: HASHER.hash_tokens(b"abcd"),
    "tokens floats": lambda: HASHER.hash_tokens([1.0, 2.0, 3.0, 4.0]),
    "tokens -1": lambda: HASHER.hash_tokens([1, 2, 3, -1]),
    "tokens 2^32": lambda: HASHER.hash_tokens([1, 2, 3, 2**32]),
    "tokens 2^70": lambda: HASHER.hash_tokens([1, 2, 3, 2**70]),
    "tokens True": lambda: HASHER.hash_tokens([True, False, 1, 0]),
    "tokens float array": lambda: HASHER.hash_tokens(array.array("f", [1, 2, 3, 4])),
    "tokens array -1": lambda: HASHER.hash_tokens(array.array("q", [1, 2, 3, -1])),
    "parent text": lambda: HASHER.hash_tokens([1, 2, 3, 4], "x"),
    "parent short": lambda: HASHER.hash_tokens([1, 2, 3, 4], b"x"),
    "keys text": lambda: HASHER.hash_tokens([1, 2, 3, 4], None, ["x"]),
    "keys too many": lambda: HASHER.hash_tokens([1, 2, 3, 4], None, [None, None]),
    "keys of lists": lambda: HASHER.hash_block(None, [1, 2, 3, 4], (["x"],)),
    "keys of floats": lambda: HASHER.hash_block(None, [1, 2, 3, 4], (1.5,)),
    "keys of 2^70": lambda: HASHER.hash_block(None, [1, 2, 3, 4], (2**70,)),
    "extra keys, text": lambda: block_extra_keys("1", 4),  # type: ignore[arg-type]
    "extra keys, lora 5": lambda: block_extra_keys(1, 4, 5),  # type: ignore[arg-type]
    "extra keys, inputs 5": lambda: block_extra_keys(1, 4, mm_inputs=5),  # type: ignore[arg-type]
    "extra keys, embeddings 5": lambda: block_extra_keys(1, 4, prompt_embeds=5),
    "extra keys, schema None": lambda: block_extra_keys(1, 4, schema=A),
}


def hashing(seed: int) -> dict[str, str]:
    """A digest over many hashes of each algorithm."""
    source = random.Random(seed)
    results = {}
    for algorithm in HASH_ALGORITHMS:
        everything = hashlib.sha256()
        for block_size in (1, 2, 3, 4, 5, 16, 40, 300, 5000, 20000):
            hasher = BlockHasher(algorithm, block_size, str(seed))
            tokens = [source.randrange(2 ** source.randrange(1, 33)) for _ in range(3 * block_size)]
            keys = [
                None,
                ("name", b"bytes" * source.randrange(300), -5, 2**40, (None, True)),
                ("k" * 70_000,),
            ]
            for hashes in (hasher.hash_tokens(tokens), hasher.hash_tokens(tokens, extra_keys=keys)):
                everything.update(b"".join(hashes))
            everything.update(hasher.fingerprint.encode())
        results[algorithm] = everything.hexdigest()
    return results


def main() -> None:
    """Prints the results for the seed and the number of steps that are the arguments."""
    logging.getLogger("blockpool").setLevel(logging.CRITICAL)
    seed, steps = int(sys.argv[1]), int(sys.argv[2])
    results = {
        "plain": Player(seed, False).play(steps),
        "reuse_uncached_first": Player(seed, True).play(steps),
        "hashing": hashing(seed),
        "bad calls": {name: outcome(call) for name, call in BAD_CALLS.items()},
    }
    print(json.dumps({"compiled": blockpool.COMPILED, "results": results}))


if __name__ == "__main__":
    main()

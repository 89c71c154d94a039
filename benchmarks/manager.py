"""The KVCacheManager: long prompts of which nine tenths are cached, and a decode step of many running requests.

One group of full attention, caching on, events off. Both sides read the same kind of request; the hashes of
every request are new objects, as an engine's are.
"""

from __future__ import annotations

import random
from typing import Any

from benchmarks.manager_sides import Group, ManagedRequest, Setting, Side, our_side, their_side
from benchmarks.measure import Row, Size, alternate, clock, collector_off, faster_row, require_equal
from benchmarks.peer import WHOLE, Peer, PeerUnavailable, load_whole

BLOCK_SIZE = 16
DIGEST_BYTES = 32
CACHED_PART = 0.9
PREFIXES = 4
CONTEXT_BLOCKS = 60


def best_peer(peer: Peer) -> Peer:
    """The whole of vLLM where this environment has it, else the files that are loaded already."""
    try:
        return load_whole()
    except PeerUnavailable:
        return peer


def measure(peer: Peer, size: Size, bounds: dict[str, float]) -> list[Row]:
    """The two rows."""
    against = "vLLM, imported whole" if peer.source == WHOLE else "vLLM, its files alone"
    return [
        _cached_row(peer, size, bounds["manager-cached"], against),
        _decode_row(peer, size, bounds["manager-decode"], against),
    ]


def _manager(side: Side, num_blocks: int) -> Any:
    return side.manager(Setting([Group("FullAttentionSpec", BLOCK_SIZE)], num_blocks, BLOCK_SIZE))


class CachedPrompts:
    """A full pool and prompts that come, hit with their shared nine tenths, evict for the rest, and go."""

    def __init__(self, side: Side, size: Size) -> None:
        self.size = size
        self.manager = _manager(side, size.pool_blocks)
        self.num_hits = 0
        source = random.Random("prefixes")
        self.num_shared = round(size.prompt_blocks * CACHED_PART)
        self.prefixes = [
            [source.randbytes(DIGEST_BYTES) for _ in range(self.num_shared)] for _ in range(PREFIXES)
        ]
        self.token_ids = [source.randrange(128_000) for _ in range(size.prompt_blocks * BLOCK_SIZE)]
        own = size.prompt_blocks - self.num_shared
        self._serve(self._requests(-1, 2 * size.pool_blocks // own))
        self.num_hits = 0

    def _requests(self, round_index: int, count: int) -> list[ManagedRequest]:
        source = random.Random(f"round {round_index}")
        made = []
        for index in range(count):
            hashes = [bytes(bytearray(digest)) for digest in self.prefixes[index % PREFIXES]]
            while len(hashes) < self.size.prompt_blocks:
                hashes.append(source.randbytes(DIGEST_BYTES))
            made.append(ManagedRequest(f"{round_index}-{index}", self.token_ids, hashes))
        return made

    def _serve(self, requests: list[ManagedRequest]) -> None:
        manager = self.manager
        for request in requests:
            blocks, num_hits = manager.get_computed_blocks(request)
            manager.allocate_slots(request, request.num_tokens - num_hits, num_hits, blocks)
            manager.free(request)
            self.num_hits += num_hits

    def round(self, index: int) -> float:
        """Seconds for the prompts of one round."""
        requests = self._requests(index, self.size.prompts_per_round)
        with collector_off():
            start = clock()
            self._serve(requests)
            return clock() - start

    def outcome(self) -> tuple[int, list[int]]:
        """Hit tokens, and the ids in eviction order."""
        queue = self.manager.block_pool.free_block_queue.get_all_free_blocks()
        return self.num_hits, [block.block_id for block in queue]


def _cached_row(peer: Peer, size: Size, at_least: float, against: str) -> Row:
    ours, theirs = CachedPrompts(our_side(), size), CachedPrompts(their_side(peer), size)
    require_equal("eviction order after warm-up", ours.outcome(), theirs.outcome())
    our_times, their_times = alternate(size.rounds, ours.round, theirs.round)
    require_equal("hits and eviction order", ours.outcome(), theirs.outcome())
    expected = size.rounds * size.prompts_per_round * ours.num_shared * BLOCK_SIZE
    require_equal("hit tokens", ours.num_hits, expected)
    tokens = size.prompt_blocks * BLOCK_SIZE
    return faster_row(
        "manager-cached",
        f"get_computed_blocks + allocate_slots + free, prompts of {tokens:,} tokens, 90% cached",
        our_times,
        their_times,
        per=size.prompts_per_round,
        at_least=at_least,
        against=against,
    )


class Decoding:
    """Requests that all grow by one token a step; in every step one of sixteen fills its block and needs another."""

    def __init__(self, side: Side, size: Size) -> None:
        self.manager = _manager(side, size.pool_blocks)
        self.source = random.Random("prefixes")
        self.running: list[ManagedRequest] = []
        for index in range(size.decoding_requests):
            count = CONTEXT_BLOCKS * BLOCK_SIZE + index % BLOCK_SIZE
            request = ManagedRequest(f"request-{index}", [1] * count, [])
            self._hash(request)
            self.manager.allocate_slots(request, count)
            request.num_computed_tokens = count
            self.running.append(request)

    def _hash(self, request: ManagedRequest) -> None:
        while len(request.block_hashes) < request.num_tokens // BLOCK_SIZE:
            request.block_hashes.append(self.source.randbytes(DIGEST_BYTES))

    def round(self, _: int) -> float:
        """Seconds for as many steps as a block has tokens."""
        allocate_slots, running = self.manager.allocate_slots, self.running
        elapsed = 0.0
        with collector_off():
            for _ in range(BLOCK_SIZE):
                for request in running:
                    request.all_token_ids.append(1)
                    self._hash(request)
                start = clock()
                for request in running:
                    allocate_slots(request, 1)
                elapsed += clock() - start
                for request in running:
                    request.num_computed_tokens += 1
        return elapsed

    def outcome(self) -> tuple[list[Any], int]:
        """Every table, and the number of hashes in the index."""
        tables = [self.manager.get_block_ids(request.request_id) for request in self.running]
        return tables, len(self.manager.block_pool.cached_block_hash_to_block)


def _decode_row(peer: Peer, size: Size, at_least: float, against: str) -> Row:
    ours, theirs = Decoding(our_side(), size), Decoding(their_side(peer), size)
    our_times, their_times = alternate(size.rounds, ours.round, theirs.round)
    require_equal("block tables", ours.outcome(), theirs.outcome())
    return faster_row(
        "manager-decode",
        f"decode step of {size.decoding_requests} running requests, allocate_slots of one token each",
        our_times,
        their_times,
        per=BLOCK_SIZE,
        at_least=at_least,
        against=against,
    )

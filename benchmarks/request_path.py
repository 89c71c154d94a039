"""The life of a request: look-up, touch, allocate, index, free; with events off and on.

Requests of equal length come one after the other. The first half of each is one of a few shared
prefixes, the second half is its own, so that half of every request hits once the pool is warm and
the other half has to evict. Hashes are new objects in every request, as an engine's are: none has
its Python hash cached before the pool sees it. vLLM's look-up is its FullAttentionManager's.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.measure import Row, Size, alternate, faster_row, require_equal, seconds
from benchmarks.peer import Peer, PeerRequest
from blockpool import BlockPool

BLOCK_SIZE = 16
GROUP = [0]
DIGEST_BYTES = 32
TAKE_EVENTS_EVERY = 8

Find = Callable[[Sequence[bytes]], list[Any]]


class Workload:
    """Seeded rounds of requests; every call of `requests` makes new, equal objects."""

    def __init__(self, size: Size, seed: int) -> None:
        self.size = size
        self.seed = seed
        shared = size.request_blocks // 2
        # All prefixes together take a sixth of the pool: they stay, what is not shared goes.
        count = max(2, size.pool_blocks // 6 // shared)
        source = random.Random(seed)
        self.prefixes = [[source.randbytes(DIGEST_BYTES) for _ in range(shared)] for _ in range(count)]
        self.token_ids = [source.randrange(128_000) for _ in range(size.request_blocks * BLOCK_SIZE)]

    def requests(self, round_index: int, count: int) -> list[PeerRequest]:
        """The requests of one round."""
        source = random.Random(f"{self.seed}/{round_index}")
        own = self.size.request_blocks - self.size.request_blocks // 2
        made: list[PeerRequest] = []
        for index in range(count):
            prefix = source.choice(self.prefixes)
            hashes = [bytes(bytearray(digest)) for digest in prefix]
            hashes += [source.randbytes(DIGEST_BYTES) for _ in range(own)]
            made.append(PeerRequest(f"{round_index}-{index}", self.token_ids, hashes))
        return made


class Player:
    """One side: a pool, its look-up, and what became of the requests."""

    def __init__(self, pool: Any, find: Find, events: bool) -> None:
        self.pool = pool
        self.find = find
        self.events = events
        self.num_hits = 0
        self.taken: list[list[Any]] = []

    def play(self, requests: list[PeerRequest]) -> None:
        """Serve the requests: this is what is timed."""
        if self.events:
            for start in range(0, len(requests), TAKE_EVENTS_EVERY):
                self._serve(requests[start : start + TAKE_EVENTS_EVERY])
                self.taken.append(self.pool.take_events())
        else:
            self._serve(requests)

    def _serve(self, requests: list[PeerRequest]) -> None:
        pool, find, num_hits = self.pool, self.find, 0
        for request in requests:
            hashes = request.block_hashes
            hits = find(hashes)
            pool.touch(hits)
            blocks = hits + pool.get_new_blocks(len(hashes) - len(hits))
            pool.cache_full_blocks(request, blocks, len(hits), len(blocks), BLOCK_SIZE, 0)
            pool.free_blocks(reversed(blocks))
            num_hits += len(hits)
        self.num_hits += num_hits

    def outcome(self) -> tuple[int, list[int], str]:
        """Hits, ids in eviction order, digest of all events; forgets the events."""
        digest = hashlib.sha256()
        for events in self.taken:
            for event in events:
                fields = [type(event).__name__]
                for name in ("block_hashes", "parent_block_hash", "token_ids", "block_size", "medium"):
                    fields.append(repr(getattr(event, name, None)))
                digest.update("|".join(fields).encode())
        self.taken.clear()
        order = [block.block_id for block in self.pool.free_block_queue.get_all_free_blocks()]
        return self.num_hits, order, digest.hexdigest()


def our_player(size: Size, events: bool) -> Player:
    """Our pool, with the look-up of a whole prompt in one call."""
    pool = BlockPool(size.pool_blocks, True, BLOCK_SIZE, events)

    def find(hashes: Sequence[bytes]) -> list[Any]:
        return pool.find_longest_prefix(hashes, GROUP)[0]

    return Player(pool, find, events)


def their_player(peer: Peer, size: Size, events: bool) -> Player:
    """The pool of vLLM, with the look-up of its FullAttentionManager."""
    pool = peer.BlockPool(size.pool_blocks, True, BLOCK_SIZE, events)
    return Player(pool, peer.longest_hit_finder(pool, BLOCK_SIZE), events)


def measure(peer: Peer, size: Size, *, events: bool, at_least: float | None, seed: int = 0) -> Row:
    """One row: µs per request, ours against vLLM's."""
    workload = Workload(size, seed)
    ours, theirs = our_player(size, events), their_player(peer, size, events)
    to_fill = 2 * size.pool_blocks // (size.request_blocks // 2)
    for player in (ours, theirs):
        player.play(workload.requests(-1, to_fill))
    require_equal("hits, eviction order and events after warm-up", ours.outcome(), theirs.outcome())

    def timed(player: Player) -> Callable[[int], float]:
        def play_round(index: int) -> float:
            requests = workload.requests(index, size.requests_per_round)
            return seconds(lambda: player.play(requests))

        return play_round

    our_times, their_times = alternate(size.rounds, timed(ours), timed(theirs))
    require_equal("hits, eviction order and events", ours.outcome(), theirs.outcome())
    what = f"look-up + touch + allocate + index + free, {size.request_blocks}-block requests"
    return faster_row(
        "request-events" if events else "request",
        what + (", events on" if events else ""),
        our_times,
        their_times,
        per=size.requests_per_round,
        at_least=at_least,
    )

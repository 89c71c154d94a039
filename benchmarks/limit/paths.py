"""The request path of three sides: ours, vLLM's, and the array pool in C++; and requests of one block."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from benchmarks.limit.cxx_pool import CxxPlayer, library
from benchmarks.measure import Row, Size, alternate, faster_row, require_equal, seconds, smaller_row
from benchmarks.peer import Peer, PeerRequest
from benchmarks.request_path import BLOCK_SIZE, DIGEST_BYTES, Player, Workload, our_player, their_player
from blockpool import BlockPool

INDEXED_EVERY = 16


def path_rows(
    peer: Peer | None, size: Size, num_blocks: int, key: str, bounds: dict[str, float]
) -> list[Row]:
    """The request path at one size: against vLLM, if there is a peer, and against C++, if there is a compiler."""
    if peer is None and library() is None:
        return []
    size = replace(size, pool_blocks=num_blocks)
    workload = Workload(size, seed=1)
    ours = our_player(size, events=False)
    theirs = None if peer is None else their_player(peer, size, events=False)
    cxx = None if library() is None else CxxPlayer(num_blocks, size.request_blocks)
    to_fill = 2 * num_blocks // (size.request_blocks // 2)
    for first in range(
        0, to_fill, size.requests_per_round
    ):  # in pieces: the large pool's requests take memory
        count = min(size.requests_per_round, to_fill - first)
        _play(workload, -1 - first, count, ours, theirs, cxx)
    _require_equal_outcomes("after warm-up", ours, theirs, cxx)
    times: list[list[float]] = [[], [], []]
    for index in range(size.rounds):
        for side, elapsed in _play(workload, index, size.requests_per_round, ours, theirs, cxx):
            times[side].append(elapsed)
    _require_equal_outcomes("at the end", ours, theirs, cxx)
    what = f"request path, {size.request_blocks}-block requests, pool of {num_blocks:,} blocks"
    per = size.requests_per_round
    rows: list[Row] = []
    if theirs is not None:
        rows.append(faster_row(key, what, times[0], times[1], per=per, at_least=bounds.get(key)))
    if cxx is not None:
        cxx.drop()
        in_us = [[elapsed / per * 1e6 for elapsed in times[side]] for side in (0, 2)]
        at_most = bounds.get(f"{key}-cxx")
        rows.append(
            smaller_row(f"{key}-cxx", what, "µs", *in_us, at_most=at_most, against="an array pool in C++")
        )
    return rows


def _play(
    workload: Workload, index: int, count: int, ours: Player, theirs: Player | None, cxx: CxxPlayer | None
) -> list[tuple[int, float]]:
    """One round of every side, each time another one first: side and processor time."""

    def play_python(player: Player) -> float:
        requests = workload.requests(index, count)
        return seconds(lambda: player.play(requests))

    def play_cxx(player: CxxPlayer) -> float:
        digests = player.prepare(workload.requests(index, count))
        return seconds(lambda: player.play(digests))

    sides: list[tuple[int, Callable[[], float]]] = [(0, lambda: play_python(ours))]
    if theirs is not None:
        sides.append((1, lambda: play_python(theirs)))
    if cxx is not None:
        sides.append((2, lambda: play_cxx(cxx)))
    first = index % len(sides)
    return [(side, play()) for side, play in sides[first:] + sides[:first]]


def _require_equal_outcomes(when: str, ours: Player, theirs: Player | None, cxx: CxxPlayer | None) -> None:
    hits, order, _ = ours.outcome()
    for other in (theirs, cxx):
        if other is not None:
            require_equal(f"hits and eviction order {when}", (hits, order), other.outcome()[:2])


class _Decoder:
    """One side of the row for requests of one block: a pool whose free blocks are all indexed."""

    def __init__(self, pool: Any, num_blocks: int) -> None:
        self.pool = pool
        source = random.Random(3)
        for _ in range(num_blocks // 16 + 1):
            request = PeerRequest("warm", [], [source.randbytes(DIGEST_BYTES) for _ in range(16)])
            blocks = pool.get_new_blocks(16)
            pool.cache_full_blocks(request, blocks, 0, 16, BLOCK_SIZE, 0)
            pool.free_blocks(reversed(blocks))

    def play(self, requests: list[PeerRequest]) -> None:
        """What is timed: allocate one block, every 16th time index it, free it."""
        pool = self.pool
        for request in requests:
            for step in range(INDEXED_EVERY):
                blocks = pool.get_new_blocks(1)
                if step == 0:
                    pool.cache_full_blocks(request, blocks, 0, 1, BLOCK_SIZE, 0)
                pool.free_blocks(blocks)


def one_block_row(peer: Peer, size: Size, at_least: float | None) -> Row:
    """µs per block: what decoding asks of a pool."""
    num_blocks = size.pool_blocks
    ours = _Decoder(BlockPool(num_blocks, True, BLOCK_SIZE), num_blocks)
    theirs = _Decoder(peer.BlockPool(num_blocks, True, BLOCK_SIZE), num_blocks)

    def timed(side: _Decoder) -> Callable[[int], float]:
        def play_round(index: int) -> float:
            source = random.Random(index)
            hashes = [source.randbytes(DIGEST_BYTES) for _ in range(size.requests_per_round)]
            requests = [PeerRequest("d", [], [digest]) for digest in hashes]
            return seconds(lambda: side.play(requests))

        return play_round

    our_times, their_times = alternate(size.rounds, timed(ours), timed(theirs))
    orders = [
        [block.block_id for block in side.pool.free_block_queue.get_all_free_blocks()]
        for side in (ours, theirs)
    ]
    require_equal("eviction order", *orders)
    what = "one-block requests: allocate 1, index 1 in 16, free 1"
    per = size.requests_per_round * INDEXED_EVERY
    return faster_row("limit-one-block", what, our_times, their_times, per=per, at_least=at_least)

"""Block hashes from a Python list of token ids, 16 tokens a block.

vLLM's side is the plain loop over its `hash_block_tokens`: the same work as ours, without the
extra keys that its request hasher looks for in every block (shown as a row for information).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.measure import Row, Size, alternate, faster_row, require_equal, seconds
from benchmarks.peer import Peer, PeerRequest
from blockpool import BlockHasher

BLOCK_SIZE = 16
SEED = "0"
FAST, CRYPTOGRAPHIC = "xxh3_raw", "blake2b_raw"

Hash = Callable[[list[int]], Sequence[bytes]]


def _tokens(size: Size) -> list[int]:
    source = random.Random(7)
    return [source.randrange(128_000) for _ in range(size.hashed_blocks * BLOCK_SIZE)]


def their_loop(peer: Peer, algorithm: str) -> Hash:
    """Chained `hash_block_tokens`, one call per block, and nothing else."""
    function = peer.hash_functions[algorithm]
    hash_block_tokens: Callable[..., bytes] = peer.hash_block_tokens

    def hash_all(token_ids: list[int]) -> list[bytes]:
        hashes: list[bytes] = []
        parent: bytes | None = None
        for start in range(0, len(token_ids), BLOCK_SIZE):
            parent = hash_block_tokens(function, parent, token_ids[start : start + BLOCK_SIZE], None)
            hashes.append(parent)
        return hashes

    return hash_all


def their_request_hasher(peer: Peer, algorithm: str) -> Hash:
    """The way a request of vLLM's gets its hashes."""
    hasher: Callable[[Any], list[bytes]] = peer.get_request_block_hasher(
        BLOCK_SIZE, peer.hash_functions[algorithm]
    )
    return lambda token_ids: hasher(PeerRequest("r", token_ids))


def our_hasher(algorithm: str) -> Hash:
    """One call for all blocks."""
    hasher = BlockHasher(algorithm, BLOCK_SIZE, SEED)
    return lambda token_ids: hasher.hash_tokens(token_ids)


def _row(
    peer: Peer,
    size: Size,
    key: str,
    what: str,
    ours: Hash,
    theirs: Hash,
    against: str,
    at_least: float | None,
    *,
    same_bytes: bool,
) -> Row:
    token_ids = _tokens(size)
    if same_bytes:
        require_equal("block hashes", ours(token_ids), theirs(token_ids))
    else:
        require_equal("numbers of hashes", len(ours(token_ids)), len(theirs(token_ids)))
    our_times, their_times = alternate(
        size.rounds, lambda _: seconds(lambda: ours(token_ids)), lambda _: seconds(lambda: theirs(token_ids))
    )
    return faster_row(
        key, what, our_times, their_times, per=size.hashed_blocks, at_least=at_least, against=against
    )


def measure(peer: Peer, size: Size, floors: dict[str, float]) -> list[Row]:
    """All hashing rows: µs per block."""
    rows: list[Row] = []
    for algorithm in ("sha256", "sha256_cbor"):
        key = f"hash-{algorithm}"
        peer.seed_none_hash(algorithm, SEED)
        ours = our_hasher(algorithm)
        for suffix, theirs, against, floor in (
            ("", their_loop(peer, algorithm), f"vLLM {algorithm}", floors.get(key)),
            (
                "-request",
                their_request_hasher(peer, algorithm),
                f"vLLM {algorithm}, its request hasher",
                None,
            ),
        ):
            what = f"block hashes, {algorithm}, same bytes"
            rows.append(_row(peer, size, key + suffix, what, ours, theirs, against, floor, same_bytes=True))
    peer.seed_none_hash("sha256", SEED)
    theirs = their_loop(peer, "sha256")
    for key, algorithm, kind in (
        ("hash-fast", FAST, "fast"),
        ("hash-cryptographic", CRYPTOGRAPHIC, "cryptographic"),
    ):
        what = f"block hashes, our {kind} format ({algorithm})"
        ours = our_hasher(algorithm)
        rows.append(
            _row(peer, size, key, what, ours, theirs, "vLLM sha256", floors.get(key), same_bytes=False)
        )
    return rows

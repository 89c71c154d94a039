"""All rows in order, with the bounds that each build has to keep."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from benchmarks import allocation, building, curves, event_rates, hashing, manager, request_path
from benchmarks.limit import huge_pool, paths
from benchmarks.measure import Row, Size
from benchmarks.peer import Peer

# At least so many times faster, or at most such a part; by build.
BOUNDS: dict[str, dict[str, float]] = {
    "compiled": {
        "request": 15.0,
        "request-events": 4.0,
        "events-path": 1.25,
        "events-encode": 1.0,
        "events-stalled": 0.01,
        "hash-sha256": 2.5,
        "hash-sha256_cbor": 4.5,
        "hash-fast": 12.0,
        "hash-cryptographic": 5.0,
        "build-time": 0.2,
        "build-memory": 0.45,
        "build-pause": 0.4,
        "allocate": 1.5,
        "curve-command": 1.0,
        "curve-pass": 5.0,
        "curve-doubling": 2.3,
        "curve-memory": 1.0,
        "manager-cached": 6.0,
        "manager-decode": 2.0,
        "limit-cxx": 3.0,
        "limit-large": 10.0,
        "limit-large-cxx": 3.0,
        "limit-one-block": 5.0,
        "limit-build-time": 0.05,
        "limit-build-memory": 0.05,
        "limit-build-pause": 1.0,
    },
    "interpreted": {
        "request": 2.5,
        "request-events": 1.5,
        "events-path": 1.5,
        "events-encode": 0.15,
        "events-stalled": 0.05,
        "hash-sha256": 1.0,
        "hash-sha256_cbor": 1.0,
        "hash-fast": 4.0,
        "hash-cryptographic": 2.5,
        "build-time": 1.0,
        "build-memory": 0.8,
        "build-pause": 1.0,
        "allocate": 1.5,
        "curve-command": 0.1,
        "curve-pass": 0.2,
        "curve-doubling": 2.5,
        "curve-memory": 1.0,
        "manager-cached": 3.0,
        "manager-decode": 2.0,
        "limit-cxx": 40.0,
        "limit-large": 2.0,
        "limit-large-cxx": 40.0,
        "limit-one-block": 0.6,
        "limit-build-time": 0.05,
        "limit-build-memory": 0.05,
        "limit-build-pause": 1.0,
    },
}

PARTS = ("request", "request-events", "events", "hash", "build", "allocate", "curve", "manager", "limit")


def run(peer: Peer, size: Size, build: str, parts: Collection[str] = PARTS) -> Iterator[Row]:
    """Measure the chosen parts; rows come as soon as they are known."""
    bounds = BOUNDS[build]
    measured: dict[str, Callable[[], list[Row]]] = {
        "request": lambda: [request_path.measure(peer, size, events=False, at_least=bounds["request"])],
        "request-events": lambda: [
            request_path.measure(peer, size, events=True, at_least=bounds["request-events"])
        ],
        "events": lambda: event_rates.measure(peer, size, bounds),
        "hash": lambda: hashing.measure(peer, size, bounds),
        "build": lambda: building.measure(size, bounds),
        "allocate": lambda: [allocation.measure(size, bounds["allocate"])],
        "curve": lambda: curves.measure(size, bounds),
        "manager": lambda: manager.measure(manager.best_peer(peer), size, bounds),
        "limit": lambda: [
            *paths.path_rows(None, size, size.pool_blocks, "limit", bounds),
            *paths.path_rows(peer, size, size.large_path_blocks, "limit-large", bounds),
            paths.one_block_row(peer, size, bounds["limit-one-block"]),
            *huge_pool.build_rows(size, bounds),
        ],
    }
    for part in PARTS:
        if part in parts:
            yield from measured[part]()

"""Building a large pool and using every block once: time, memory per block, pause of a full garbage collection.

Every measurement is a fresh interpreter with the same modules loaded on both sides and the garbage
collector as Python sets it: run as ``python -m benchmarks.building ours|vllm|nothing BLOCKS USED``,
where USED is how many blocks are handed out and freed again, it prints one line of JSON.
"""

from __future__ import annotations

import gc
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import peer as peer_module
from benchmarks.measure import Row, Size, clock, smaller_row
from blockpool import BlockPool

BLOCK_SIZE = 16
COLLECTIONS = 5
ROOT = Path(__file__).resolve().parent.parent


def resident_bytes() -> int:
    """Resident set of this process now; the peak where the system tells no more."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


def build_here(side: str, num_blocks: int, num_used: int) -> dict[str, float]:
    """Build one pool in this process, or nothing at all, and measure it."""
    peer = peer_module.load()
    make: Callable[..., Any] = {"ours": BlockPool, "vllm": peer.BlockPool, "nothing": _nothing}[side]
    make(10, True, BLOCK_SIZE)  # first-use costs are not the pool's
    gc.collect()
    before = resident_bytes()
    start = clock()
    pool = make(num_blocks, True, BLOCK_SIZE)
    if num_used > 0:
        pool.free_blocks(pool.get_new_blocks(num_used))
    built = clock()
    after = resident_bytes()
    pauses: list[float] = []
    for _ in range(COLLECTIONS):
        begin = clock()
        gc.collect()
        pauses.append(clock() - begin)
    if pool is not None and pool.get_num_free_blocks() != num_blocks - 1:
        raise AssertionError("the pool is not whole")
    return {
        "seconds": built - start,
        "bytes_per_block": (after - before) / num_blocks,
        "pause_seconds": statistics.median(pauses),
    }


def _nothing(*_: object) -> None:
    """What a process without a pool builds."""


def build_apart(side: str, num_blocks: int, num_used: int) -> dict[str, float]:
    """The same in a fresh interpreter."""
    environment = dict(os.environ)
    environment[peer_module.FOLDER_VARIABLE] = str(peer_module.load().location.parent)
    finished = subprocess.run(
        [sys.executable, "-m", "benchmarks.building", side, str(num_blocks), str(num_used)],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    result: dict[str, float] = json.loads(finished.stdout)
    return result


def measure(size: Size, ceilings: dict[str, float]) -> list[Row]:
    """The three rows."""
    ours: list[dict[str, float]] = []
    theirs: list[dict[str, float]] = []
    for index in range(min(size.rounds, 7)):
        for side in ("ours", "vllm") if index % 2 else ("vllm", "ours"):
            (ours if side == "ours" else theirs).append(
                build_apart(side, size.built_blocks, size.built_blocks - 1)
            )
    rows: list[Row] = []
    for key, what, unit, name, scale in (
        ("build-time", "time", "ms", "seconds", 1e3),
        ("build-memory", "memory per block", "bytes", "bytes_per_block", 1.0),
        ("build-pause", "pause of a full garbage collection", "ms", "pause_seconds", 1e3),
    ):
        rows.append(
            smaller_row(
                key,
                f"building a pool of {size.built_blocks:,} blocks, all handed out once: {what}",
                unit,
                [result[name] * scale for result in ours],
                [result[name] * scale for result in theirs],
                at_most=ceilings.get(key),
            )
        )
    return rows


if __name__ == "__main__":
    print(json.dumps(build_here(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))

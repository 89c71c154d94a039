"""A pool so large that building all of its blocks would take seconds: time, memory, garbage collection.

Every measurement is a fresh interpreter, as in `benchmarks.building`.
"""

from __future__ import annotations

from benchmarks.building import build_apart
from benchmarks.measure import Row, Size, smaller_row

ALLOWED_PAUSE_MS = 1.0
SMALLEST = 0.001


def build_rows(size: Size, bounds: dict[str, float]) -> list[Row]:
    """Time and memory against vLLM's; how much longer a full collection is than without a pool."""
    sides: dict[str, list[dict[str, float]]] = {"ours": [], "vllm": [], "nothing": []}
    for _ in range(min(size.rounds, 3)):
        for side, results in sides.items():
            results.append(build_apart(side, size.huge_blocks, 0))
    ours, theirs, nothing = sides["ours"], sides["vllm"], sides["nothing"]
    what = f"building a pool of {size.huge_blocks:,} blocks"
    rows: list[Row] = []
    for key, name, unit, field, scale in (
        ("limit-build-time", "time", "ms", "seconds", 1e3),
        ("limit-build-memory", "memory", "MB", "bytes_per_block", size.huge_blocks / 1e6),
    ):
        ours_scaled = [max(result[field] * scale, SMALLEST) for result in ours]
        theirs_scaled = [result[field] * scale for result in theirs]
        rows.append(
            smaller_row(key, f"{what}: {name}", unit, ours_scaled, theirs_scaled, at_most=bounds.get(key))
        )
    longer = [
        max((with_pool["pause_seconds"] - without["pause_seconds"]) * 1e3, SMALLEST)
        for with_pool, without in zip(ours, nothing, strict=True)
    ]
    rows.append(
        smaller_row(
            "limit-build-pause",
            f"{what}: full garbage collection, beyond that of a process without a pool",
            "ms",
            longer,
            [ALLOWED_PAUSE_MS] * len(longer),
            at_most=bounds.get("limit-build-pause"),
            against="1 ms",
        )
    )
    return rows

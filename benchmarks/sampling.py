"""How often the bound of ``blockpool curve --sample`` holds: ``python -m benchmarks.sampling [SEEDS]``.

Every trace is sampled with many seeds at several rates, and at sizes of the pool from the smallest on, each 1.6
times the one before, the exact hits are looked up: are they within the bound? The traces are generated, the
hard ones among them (few blocks that have most of the look-ups; blocks that all miss or all hit), and the public
conversation trace where it is found (see `benchmarks.curves`).
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median

from benchmarks.curves import ROOT, TRACE_NAME
from blockpool.replay import curve
from blockpool.trace import TraceReader, TraceRequest, generate

SEEDS = 12
RATES = (10, 100, 1000)
STEP = 1.6


def zipf(exponent: float) -> Callable[[], list[TraceRequest]]:
    """20,000 look-ups of 1,000 blocks, which are used in inverse proportion to a power of their rank."""

    def make() -> list[TraceRequest]:
        weights = [rank**-exponent for rank in range(1, 1001)]
        ids = random.Random(5).choices(range(1000), weights, k=20_000)
        return [TraceRequest(None, 512, 512, block_ids=[number]) for number in ids]

    return make


def loop() -> list[TraceRequest]:
    """1,000 blocks in turn, twenty times: all miss, or all hit."""
    return [TraceRequest(None, 512, 512, block_ids=[number % 1000]) for number in range(20_000)]


def generated(kind: str, requests: int, block_size: int) -> Callable[[], list[TraceRequest]]:
    """A workload of `blockpool generate`."""
    return lambda: list(generate(kind, requests, seed=1, block_size=block_size))


TRACES: dict[str, Callable[[], Sequence[TraceRequest]]] = {
    "zipf 0.8": zipf(0.8),
    "zipf 1.0": zipf(1.0),
    "zipf 1.3": zipf(1.3),
    "loop": loop,
    "chat": generated("chat", 400, 64),
    "agent": generated("agent", 300, 512),
    "documents": generated("documents", 800, 256),
    "mix": generated("mix", 400, 64),
}


def conversation() -> Sequence[TraceRequest] | None:
    """The public trace, if it is there."""
    named = os.environ.get("BLOCKPOOL_TRACES")
    path = (Path(named) if named else ROOT.parent / "shared" / "traces") / TRACE_NAME
    return list(TraceReader(path)) if path.is_file() else None


def rows(requests: Sequence[TraceRequest], seeds: int) -> Iterator[tuple[int, int, int, list[float]]]:
    """One row per rate: rate, bounds looked at, bounds that did not hold, widths as shares of the look-ups."""
    exact = curve(requests)
    capacities = [exact.largest_request_blocks]
    while capacities[-1] * STEP < exact.last_capacity:
        capacities.append(max(capacities[-1] + 1, int(capacities[-1] * STEP)))
    truths = [exact.at(capacity) for capacity in capacities]
    for one_in in RATES:
        outside, widths = 0, []
        for seed in range(seeds):
            sampled = curve(requests, one_in=one_in, seed=seed).sampled
            assert sampled is not None
            for truth in truths:
                bound = sampled.bound(truth.capacity)
                outside += not (
                    bound.least_hit_blocks <= truth.hit_blocks <= bound.most_hit_blocks
                    and bound.least_hit_tokens <= truth.hit_tokens <= bound.most_hit_tokens
                )
                widths.append((bound.most_hit_tokens - bound.least_hit_tokens) / truth.prompt_tokens)
        yield one_in, len(widths), outside, widths


def main() -> None:
    """Prints a row per trace and rate."""
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else SEEDS
    print(
        f"{'trace':13} {'1/R':>7} {'bounds':>7} {'wrong':>6} {'share':>7} {'median width':>13} {'at the end':>11}"
    )
    total = wrong = 0
    for name, make in [*TRACES.items(), ("conversation", conversation)]:
        requests = make()
        if requests is None:
            continue
        # The public trace is fifty times as long, and varies less.
        for one_in, bounds, outside, widths in rows(
            requests, seeds if name in TRACES else max(1, seeds // 10)
        ):
            total, wrong = total + bounds, wrong + outside
            last = widths[-1]
            shown = f"{name:13} {f'1/{one_in}':>7} {bounds:7,} {outside:6,} {outside / bounds:7.2%}"
            print(f"{shown} {median(widths):13.1%} {last:11.1%}", flush=True)
    print(f"all: {wrong:,} of {total:,} bounds did not hold, {wrong / total:.2%}")


if __name__ == "__main__":
    main()

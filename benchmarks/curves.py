"""`blockpool curve`: the whole command, the pass alone, what doubling a trace costs, and memory.

The public conversation trace is used where it is found (BLOCKPOOL_TRACES, else ../shared/traces beside the checkout),
else a generated one. Theirs is kvcache-simulator with its C++ backend, which is compiled before the clock starts.
"""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.measure import Row, Size, alternate, faster_row, require_equal, seconds, smaller_row
from blockpool.replay import ReplaySettings, curve
from blockpool.replay.curves.stack_distance import StackPass
from blockpool.trace import TraceReader, TraceRequest, generate, open_trace_for_writing, write_trace

ROOT = Path(__file__).resolve().parent.parent
TRACE_NAME = "mooncake_conversation.jsonl"
BLOCK_SIZE = 512
MODEL = "cohere-command-a-03-2025"  # any will do: it only turns GiB into blocks
REQUEST_BLOCKS = 20
MEMORY_LIMIT_MIB = 2048.0
COMMAND_ROUNDS = 5


def measure(size: Size, bounds: dict[str, float]) -> list[Row]:
    """The four rows."""
    with tempfile.TemporaryDirectory() as folder:
        trace = _trace(size, Path(folder))
        return [
            _command_row(trace, min(size.rounds, COMMAND_ROUNDS), bounds["curve-command"]),
            _pass_row(trace, min(size.rounds, COMMAND_ROUNDS), bounds["curve-pass"]),
            _doubling_row(size, bounds["curve-doubling"]),
            _memory_row(size, bounds["curve-memory"]),
        ]


def _trace(size: Size, folder: Path) -> Path:
    named = os.environ.get("BLOCKPOOL_TRACES")
    public = (Path(named) if named else ROOT.parent / "shared" / "traces") / TRACE_NAME
    if public.is_file() and not size.curve_requests:
        return public
    path = folder / "trace.jsonl"
    with open_trace_for_writing(path) as file:
        write_trace(generate("mix", size.curve_requests or 5_000), file, "mooncake", block_size=BLOCK_SIZE)
    return path


def _command_row(trace: Path, rounds: int, at_least: float) -> Row:
    backend = "cpp" if shutil.which("c++") else "python"
    ours = [sys.executable, "-m", "blockpool", "curve", str(trace)]
    theirs = [sys.executable, "-m", "kvcache_sim", "run", "--trace", str(trace), "--model", MODEL]
    theirs += ["--block-size", str(BLOCK_SIZE), "--policies", "lru", "--no-progress", "--backend", backend]
    _compare_hits(trace, json.loads(_output([*theirs, "--format", "json"])))
    our_times, their_times = alternate(rounds, lambda _: _run_time(ours), lambda _: _run_time(theirs))
    what = "blockpool curve, whole command, all capacities"
    against = f"kvcache-simulator 0.1.3, {backend}, 15 capacities"
    return faster_row(
        "curve-command", what, our_times, their_times, per=1, at_least=at_least, against=against
    )


def _compare_hits(trace: Path, report: dict[str, Any]) -> None:
    found = curve(trace, ReplaySettings(window="last-half"))
    for point in report["points"]:
        result, capacity = point["results"]["lru"], point["cacheBlocks"]
        if result["measurementMode"] == "fixed_window" and capacity >= found.largest_request_blocks:
            require_equal(f"hit tokens at {capacity}", found.at(capacity).hit_tokens, result["hitTokens"])


def _output(command: list[str]) -> str:
    done = subprocess.run(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True
    )
    return done.stdout


def _run_time(command: list[str]) -> float:
    start = time.perf_counter()
    _output(command)
    return time.perf_counter() - start


def _pass_row(trace: Path, rounds: int, at_least: float) -> Row:
    requests = [(request.block_ids or [], _tokens(request)) for request in TraceReader(trace)]
    lookups = sum(len(ids) for ids, _ in requests)
    require_equal("hits by stack distance", our_pass(requests), plain_pass(requests))
    our_times, their_times = alternate(
        rounds,
        lambda _: seconds(lambda: our_pass(requests)),
        lambda _: seconds(lambda: plain_pass(requests)),
    )
    return faster_row(
        "curve-pass",
        "stack distances of one look-up",
        our_times,
        their_times,
        per=lookups,
        at_least=at_least,
        against="plain Python Fenwick tree",
    )


def _tokens(request: TraceRequest) -> list[int]:
    num_blocks = request.num_prompt_blocks
    return [BLOCK_SIZE] * (num_blocks - 1) + [request.prompt_tokens - BLOCK_SIZE * (num_blocks - 1)]


def our_pass(requests: list[tuple[list[int], list[int]]]) -> list[int]:
    """Hit tokens from each capacity on at which they change."""
    stack = StackPass(False)
    for ids, tokens in requests:
        stack.play(list(ids), len(ids), tokens, 0, True)
    return stack.hits.steps(1, 1 << 40)[2]


def plain_pass(requests: list[tuple[list[int], list[int]]]) -> list[int]:
    """The same, as one would write it down."""
    size = sum(len(ids) for ids, _ in requests)
    tree = [0] * (size + 1)
    last: dict[int, int] = {}
    hits: dict[int, int] = {}
    now = 0
    for ids, tokens in requests:
        for block_id, block_tokens in zip(ids, tokens, strict=True):
            position = last.get(block_id)
            if position is not None:
                above = len(last)
                while position > 0:
                    above -= tree[position]
                    position &= position - 1
                hits[above + 1] = hits.get(above + 1, 0) + block_tokens
        for block_id in reversed(ids):
            position = last.get(block_id)
            if position is not None:
                while position <= size:
                    tree[position] -= 1
                    position += position & -position
            now += 1
            last[block_id] = position = now
            while position <= size:
                tree[position] += 1
                position += position & -position
    steps = [] if 1 in hits else [0]
    total = 0
    for capacity in sorted(hits):
        total += hits[capacity]
        steps.append(total)
    return steps


def made_up(lookups: int) -> Iterator[TraceRequest]:
    """Requests of 20 blocks whose first part often was somebody else's: two of three blocks are new."""
    source = random.Random(1)
    stems: list[list[int]] = []
    fresh = 0
    for number in range(lookups // REQUEST_BLOCKS):
        ids: list[int] = []
        if stems and source.random() < 0.55:
            stem = stems[int(len(stems) * source.random() ** 0.5)]
            ids = stem[: source.randint(5, REQUEST_BLOCKS - 1)]
        new = REQUEST_BLOCKS - len(ids)
        ids = [*ids, *range(fresh, fresh + new)]
        fresh += new
        if len(stems) < 20_000:
            stems.append(ids)
        else:
            stems[number % 20_000] = ids
        yield TraceRequest(None, REQUEST_BLOCKS * 16, 16, block_ids=ids)


def _doubling_row(size: Size, at_most: float) -> Row:
    lookups = size.curve_lookups // 20
    double, single = list(made_up(2 * lookups)), list(made_up(lookups))
    double_times, single_times = alternate(
        min(size.rounds, COMMAND_ROUNDS),
        lambda _: seconds(lambda: curve(double)),
        lambda _: seconds(lambda: curve(single)),
    )
    return smaller_row(
        "curve-doubling",
        f"curve of {2 * lookups:,} look-ups",
        "s",
        double_times,
        single_times,
        at_most=at_most,
        against=f"{lookups:,} look-ups",
    )


def _memory_row(size: Size, at_most: float) -> Row:
    peak = float(_output([sys.executable, "-m", "benchmarks.curves", str(size.curve_lookups)]))
    return smaller_row(
        "curve-memory",
        f"curve of {size.curve_lookups:,} look-ups, peak memory of the process",
        "MiB",
        [peak],
        [MEMORY_LIMIT_MIB],
        at_most=at_most,
        against="2 GiB",
    )


if __name__ == "__main__":
    curve(made_up(int(sys.argv[1])))
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(used / 2**20 if sys.platform == "darwin" else used / 2**10)

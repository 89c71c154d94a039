"""What vLLM's own scheduler takes with the drop-in and without, in the vLLM of this environment.

    python -m benchmarks.vllm_scheduler [--quick] [--output FILE]

Both sides are processes that live as long as the measurement (`vllm_side`). They take turns, each first every other
time, one working while the other waits; a ratio is the median of those of the rounds.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from benchmarks.measure import alternate, processor

PROMPTS = (32_768, 131_072)
ROUNDS = 11
QUICK_ROUNDS = 3
# Ours by theirs, at most: from a request to its first schedule, and a step of 256 requests that decode. They bind the
# compiled build; the interpreted one is shown for information.
FIRST_BOUNDS = {"0.16": 1 / 3, "0.32": 1 / 2}
# "No worse than 0.9 times" their speed.
DECODE_BOUND = 1 / 0.9
MEMORY_BOUND = 1.01  # in 0.32 the blocks are vLLM's own; a page more or less is chance
MEMORY_ROUNDS = 3
MEMORY_ROWS = {
    "memory": "memory of a pool of 1,000,000 blocks, per block",
    "process": "of its scheduler, once all were used, per block",
}
PART_ROUNDS = 3

_outputs: list[TextIO] = [sys.stdout]


def tell(line: str) -> None:
    """Writes a line of the report at once, wherever it is wanted."""
    for output in _outputs:
        print(line, file=output, flush=True)


@dataclass
class Process:
    """One side, running."""

    process: subprocess.Popen[str]
    version: str = ""
    build: str = ""

    def ask(self, what: str) -> float:
        """Has it measure one round, and returns its answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{what}\n")
        self.process.stdin.flush()
        return float(self.read())

    def parts(self) -> list[float]:
        """Has it measure where the time to the first schedule goes."""
        assert self.process.stdin is not None
        self.process.stdin.write("parts\n")
        self.process.stdin.flush()
        return [float(part) for part in self.read().split()]

    def read(self) -> str:
        """Its next line."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"a side of the measurement ended with {self.process.wait()}")
        return line


@contextmanager
def side(which: str, what: int | str) -> Iterator[Process]:
    """A side that is ready: for prompts of so many tokens, or to tell one of its figures."""
    settings = {
        **os.environ,
        "HF_HUB_OFFLINE": "1",
        "VLLM_LOGGING_LEVEL": "ERROR",
        "PYTHONWARNINGS": "ignore",
    }
    started = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.vllm_side", which, str(what)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=None if os.environ.get("BLOCKPOOL_BENCH_VERBOSE") else subprocess.DEVNULL,
        text=True,
        env=settings,
    )
    process = Process(started)
    try:
        if isinstance(what, int):
            _, process.version, process.build = process.read().split()
        yield process
    finally:
        started.kill()
        started.wait()


def show(
    what: str, ours: list[float], theirs: list[float], unit: str, scale: float, at_most: float | None
) -> bool:
    """Prints a row; tells whether its bound holds, if it has one."""
    ratio = statistics.median(one / other for one, other in zip(ours, theirs, strict=True))
    passed = at_most is None or ratio <= at_most
    verdict = "" if at_most is None else f"<= {at_most:.3f} {'ok' if passed else 'MISSED'}"
    times = f"{statistics.median(ours) * scale:>8.2f} {statistics.median(theirs) * scale:>8.2f} {unit:<5}"
    tell(f"{what:<48} {times} {ratio:>6.3f} {verdict}".rstrip())
    return passed


def show_parts(whose: str, rounds: list[list[float]]) -> None:
    """Prints where the time goes, for information; nothing is bound."""
    hashing, look_up, allocation, rest = (statistics.median(part) * 1e3 for part in zip(*rounds, strict=True))
    tell(
        f"  {whose + ':':<12} hashing {hashing:.2f} ms, look-up {look_up:.2f} ms,"
        f" allocate and index {allocation:.2f} ms, all else {rest:.2f} ms"
    )


def measure(num_tokens: int, rounds: int) -> bool:
    """The rows of prompts of one length."""
    with side("ours", num_tokens) as ours, side("own", num_tokens) as theirs:
        tell(f"vLLM {theirs.version}, blockpool {ours.build}, prompts of {num_tokens} tokens, 90 % cached")
        first = alternate(rounds, lambda _: ours.ask("first"), lambda _: theirs.ask("first"))
        show_parts("vLLM's own", [theirs.parts() for _ in range(PART_ROUNDS)])
        show_parts("ours", [ours.parts() for _ in range(PART_ROUNDS)])
        anew = alternate(rounds, lambda _: ours.ask("anew"), lambda _: theirs.ask("anew"))
        # The last: it pushes the shared prompt out of the pool.
        decode = alternate(rounds, lambda _: ours.ask("decode"), lambda _: theirs.ask("decode"))
    bound = FIRST_BOUNDS[".".join(theirs.version.split(".")[:2])]
    bounds = (bound, DECODE_BOUND) if ours.build == "compiled" else (None, None)
    results = [
        show("request to first schedule", *first, "ms", 1e3, bounds[0]),
        show("the same, of prefixes that are not remembered", *anew, "ms", 1e3, None),
        show("scheduler step, 256 requests decoding", *decode, "ms", 1e3, bounds[1]),
    ]
    return all(results)


def measure_memory(what: str, title: str) -> bool:
    """A row of memory per block."""

    def bytes_per_block(which: str) -> float:
        with side(which, what) as process:
            return float(process.read())

    sizes = alternate(MEMORY_ROUNDS, lambda _: bytes_per_block("ours"), lambda _: bytes_per_block("own"))
    return show(title, *sizes, "bytes", 1.0, MEMORY_BOUND)


def report(rounds: int) -> bool:
    """All rows; tells whether every bound holds."""
    tell(f"processor time of the thread, ours before vLLM's own; {processor()}")
    results = [measure(num_tokens, rounds) for num_tokens in PROMPTS]
    results += [measure_memory(what, title) for what, title in MEMORY_ROWS.items()]
    return all(results)


def main() -> None:
    """Print the rows; exit 1 if a bound is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.vllm_scheduler", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few rounds: does it run?")
    parser.add_argument("--output", default=os.devnull, metavar="FILE", help="write the rows there as well")
    options = parser.parse_args()
    with Path(options.output).open("w", encoding="utf-8") as file:
        _outputs.append(file)
        sys.exit(not report(QUICK_ROUNDS if options.quick else ROUNDS))


if __name__ == "__main__":
    main()

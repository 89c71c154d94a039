"""Rows of the report and the way they are timed: alternating rounds, paired ratios, medians."""

from __future__ import annotations

import gc
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

# Processor time of this thread: what else runs on the machine costs caches, but no seconds.
clock = time.thread_time


class ResultsDiffer(AssertionError):
    """Both sides did not do the same work, so that their times say nothing."""


@dataclass(frozen=True)
class Size:
    """How much is measured; `QUICK` is for the tests, where only the outcome matters."""

    rounds: int
    pool_blocks: int
    request_blocks: int
    requests_per_round: int
    hashed_blocks: int
    built_blocks: int
    small_pool_blocks: int
    large_pool_blocks: int
    allocation_rounds: int
    curve_lookups: int
    curve_requests: int  # of a generated trace; 0: the public one, if it is there
    prompt_blocks: int
    prompts_per_round: int
    decoding_requests: int
    large_path_blocks: int
    huge_blocks: int


FULL = Size(
    rounds=11,
    pool_blocks=50_000,
    request_blocks=256,
    requests_per_round=300,
    hashed_blocks=2_000,
    built_blocks=1_000_000,
    small_pool_blocks=1_000,
    large_pool_blocks=100_000,
    allocation_rounds=301,
    curve_lookups=10_000_000,
    curve_requests=0,
    prompt_blocks=2_048,
    prompts_per_round=20,
    decoding_requests=256,
    large_path_blocks=1_000_000,
    huge_blocks=10_000_000,
)
QUICK = Size(
    rounds=3,
    pool_blocks=600,
    request_blocks=32,
    requests_per_round=40,
    hashed_blocks=50,
    built_blocks=20_000,
    small_pool_blocks=500,
    large_pool_blocks=2_000,
    allocation_rounds=11,
    curve_lookups=20_000,
    curve_requests=100,
    prompt_blocks=64,
    prompts_per_round=6,
    decoding_requests=8,
    large_path_blocks=1_200,
    huge_blocks=40_000,
)


@dataclass(frozen=True)
class Row:
    """One line of the report.

    Attributes:
        key: Short name, to choose rows by.
        what: What was measured.
        unit: Of `ours` and `theirs`; less is better.
        ours: Median.
        theirs: Median of what ours is compared with.
        against: What that is.
        ratio: Median over the rounds, each of which measured both.
        at_least: Floor for theirs / ours, when more is better; else None.
        at_most: Ceiling for ours / theirs, when less is better; else None. Neither: for information.
    """

    key: str
    what: str
    unit: str
    ours: float
    theirs: float
    against: str
    ratio: float
    at_least: float | None = None
    at_most: float | None = None

    @property
    def passed(self) -> bool | None:
        """Whether the bound holds; None for a row without one."""
        if self.at_least is not None:
            return self.ratio >= self.at_least
        if self.at_most is not None:
            return self.ratio <= self.at_most
        return None


@contextmanager
def collector_off() -> Iterator[None]:
    """A clean heap and no garbage collection while timing, the same for both sides."""
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def processor() -> str:
    """The processor's name and its last cache, as far as the system tells."""
    found: dict[str, str] = {}
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition(":")
            found.setdefault(name.strip(), value.strip())
    except OSError:
        pass
    told = [found.get("model name", ""), found.get("cache size", "")]
    return ", cache ".join(filter(None, told)) or platform.processor() or platform.machine()


def seconds(action: Callable[[], object]) -> float:
    """The processor time that one call takes, with the collector off."""
    with collector_off():
        start = clock()
        action()
        return clock() - start


def alternate(
    rounds: int, ours: Callable[[int], float], theirs: Callable[[int], float]
) -> tuple[list[float], list[float]]:
    """Take turns, each side first every other time, so that a slow spell of the machine hits both."""
    our_times: list[float] = []
    their_times: list[float] = []
    for index in range(rounds):
        if index % 2:
            their_times.append(theirs(index))
            our_times.append(ours(index))
        else:
            our_times.append(ours(index))
            their_times.append(theirs(index))
    return our_times, their_times


def faster_row(
    key: str,
    what: str,
    ours: list[float],
    theirs: list[float],
    *,
    per: int,
    at_least: float | None,
    against: str = "vLLM",
) -> Row:
    """A row whose ratio says how many times faster we are; times are given per item, in µs."""
    return Row(
        key,
        what,
        "µs",
        statistics.median(ours) / per * 1e6,
        statistics.median(theirs) / per * 1e6,
        against,
        statistics.median(t / o for o, t in zip(ours, theirs, strict=True)),
        at_least=at_least,
    )


def smaller_row(
    key: str,
    what: str,
    unit: str,
    ours: list[float],
    theirs: list[float],
    *,
    at_most: float | None,
    against: str = "vLLM",
) -> Row:
    """A row whose ratio says which part of the other's need is ours."""
    return Row(
        key,
        what,
        unit,
        statistics.median(ours),
        statistics.median(theirs),
        against,
        statistics.median(o / t for o, t in zip(ours, theirs, strict=True)),
        at_most=at_most,
    )


def require_equal(what: str, ours: object, theirs: object) -> None:
    """Stop unless both sides came to the same result."""
    if ours != theirs:
        raise ResultsDiffer(f"{what} differ: {str(ours)[:200]} against {str(theirs)[:200]}")

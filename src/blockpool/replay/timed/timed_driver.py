"""`replay_timed`: one trace through one pool, with time. `replay_timed_many`: through pools of several sizes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from blockpool.replay.arguments import check_trace, instance_or, known_requests
from blockpool.replay.attention.manager_run import start_run
from blockpool.replay.driver import REQUESTS_PER_PROGRESS, Progress, find_window, first_of, open_trace
from blockpool.replay.parallel import play_sizes
from blockpool.replay.settings import (
    ENGINE_RULES,
    FOLLOW_NOTHING,
    LAST_HALF,
    ReplaySettings,
    check_pool_blocks,
)
from blockpool.replay.timed.arrivals import Arrivals
from blockpool.replay.timed.scheduler import Scheduler
from blockpool.replay.timed.timed_result import TimedResult
from blockpool.replay.timed.timed_settings import TimedSettings
from blockpool.trace.reader import TraceReader
from blockpool.trace.request import TraceRequest
from blockpool.trace.source import TracePath, spooled


def replay_timed(
    trace: TracePath | Iterable[TraceRequest],
    blocks: int,
    timed: TimedSettings | None = None,
    settings: ReplaySettings | None = None,
    *,
    pictures: bool = False,
    progress: Progress | None = None,
    perf_counter: Callable[[], float] = time.perf_counter,
) -> TimedResult:
    """Plays a trace through a cold `BlockPool` as an engine would: requests run side by side and hold their blocks.

    The same requests are also played one after the other on a second pool, for comparison. Equal input gives
    equal results, wall time aside. Memory follows the pools and the requests that run, not the trace; with `explain`
    also the distinct blocks of the trace.
    docs/timed.md has the model and its limits.

    Args:
        trace: As `replay` takes it, with timestamps or with an arrival rate.
        blocks: Usable blocks, 1 … 100,000,000; `num_gpu_blocks` of the pool is one more.
        timed: The engine and the arrivals.
        settings: By default engine rules over the whole trace. `check_every` counts steps that are played singly.
        pictures: Collect what only a report draws, too.
        progress: Called every 64 requests with the fraction of the file that has been read, or None when
            its size is unknown.
        perf_counter: Seconds for the speed figures.

    Raises:
        TraceError: As `replay` does.
        ConfigError: As `replay` does; and for a trace without timestamps unless there is an arrival rate, and the
            other way round.
        OSError: The trace cannot be read.
        InvariantError: With `check_every`, when the pool contradicts itself.
    """
    timed, settings = _checked(timed, settings)
    check_trace(trace)
    check_pool_blocks(blocks)
    if isinstance(trace, (str, os.PathLike)):
        with spooled(trace, again=settings.window == LAST_HALF) as (path, name):
            first_measured = find_window(path, name, settings)
            return replay_timed_file(
                path, name, blocks, settings, first_measured, pictures, progress, perf_counter, timed=timed
            )
    first_measured = first_of(trace, settings)
    start = perf_counter()
    requests = known_requests(trace, sort=settings.sort)
    play = _Play(blocks, timed, settings, first_measured, pictures)
    play.all(requests, progress)
    return play.result(perf_counter() - start)


def replay_timed_file(
    path: TracePath,
    name: str | None,
    blocks: int,
    settings: ReplaySettings,
    first_measured: int,
    pictures: bool,
    progress: Progress | None = None,
    perf_counter: Callable[[], float] = time.perf_counter,
    *,
    timed: TimedSettings,
) -> TimedResult:
    """Plays a file whose window is known already; see `replay_timed`.

    Args:
        path: As `TraceReader` takes it.
        name: What errors call it; None: its path.
        first_measured: From `find_window`.
        pictures: Collect what only a report draws, too.
    """
    reader = open_trace(path, name, settings)
    start = perf_counter()
    play = _Play(blocks, timed, settings, first_measured, pictures)
    play.all(iter(reader), progress, reader)
    return play.result(perf_counter() - start, reader.format, reader.bad_lines)


def replay_timed_many(
    trace: TracePath,
    sizes: Sequence[int],
    timed: TimedSettings | None = None,
    settings: ReplaySettings | None = None,
    *,
    jobs: int | None = None,
    pictures: bool = False,
    finished: Callable[[int], None] | None = None,
) -> list[TimedResult]:
    """Plays one trace through several cold pools, each in a process of its own, as `replay_many` does.

    Args:
        trace: A file, or the strings "-" (standard input) or "demo" (the bundled trace).
        sizes: Usable blocks of each pool, at least one.
        timed: As for `replay_timed`.
        settings: As for `replay_timed`.
        jobs: Processes at a time; by default one per processor. 1 does all of it in this process.
        pictures: Collect what only a report draws, too, of the first pool.
        finished: Called with the number of finished pools whenever one is done.

    Returns:
        One result per size, in the given order.

    Raises:
        BlockPoolError: Whatever `replay_timed` raises: the first error stops all; also when a process died.
        OSError: The trace cannot be read.
    """
    timed, settings = _checked(timed, settings)
    return play_sizes(
        partial(replay_timed_file, timed=timed),
        trace,
        sizes,
        settings,
        jobs=jobs,
        pictures=pictures,
        finished=finished,
    )


def _checked(
    timed: TimedSettings | None, settings: ReplaySettings | None
) -> tuple[TimedSettings, ReplaySettings]:
    return (
        instance_or("timed", timed, TimedSettings),
        instance_or("settings", settings, ReplaySettings, rules=ENGINE_RULES),
    )


class _Play:
    """A scheduler, and beside it a second pool for the same requests one after the other."""

    def __init__(
        self,
        blocks: int,
        timed: TimedSettings,
        settings: ReplaySettings,
        first_measured: int,
        pictures: bool,
    ) -> None:
        self._blocks = blocks
        self._timed = timed
        self._settings = settings
        self._first_measured = first_measured
        self._pictures = pictures

    def all(
        self, requests: Iterator[TraceRequest], progress: Progress | None, reader: TraceReader | None = None
    ) -> None:
        """Plays them; `reader` is where they come from, if that is a file."""
        # Of this one only the counts are wanted.
        bare = replace(self._settings, check_every=0, sample_rate=FOLLOW_NOTHING, explain=False, tag=None)
        self._sequential, requests = start_run(
            requests, self._blocks, bare, step_tokens=self._timed.max_batched_tokens
        )
        arrivals = Arrivals(
            self._also_played(requests), self._timed, lambda: None if reader is None else reader.line
        )
        self._scheduler = scheduler = Scheduler(
            arrivals,
            self._blocks,
            self._timed,
            self._settings,
            first_measured=self._first_measured,
            pictures=self._pictures,
        )
        shown_at = 0
        while scheduler.step():
            if progress is not None and scheduler.taken >= shown_at:
                progress(None if reader is None else reader.fraction_read())
                shown_at = scheduler.taken + REQUESTS_PER_PROGRESS

    def result(self, seconds: float, trace_format: str | None = None, bad_lines: int = 0) -> TimedResult:
        """Of what has been played."""
        counts = self._sequential.counts
        return self._scheduler.statistics.result(counts, seconds, trace_format, bad_lines)

    def _also_played(self, requests: Iterator[TraceRequest]) -> Iterator[TraceRequest]:
        """Plays each request on the second pool as it passes by."""
        for number, request in enumerate(requests):
            if number and number == self._first_measured:
                self._sequential.restart_window()
            self._sequential.play(request)
            yield request

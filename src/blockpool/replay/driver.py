"""`replay`: one trace through one pool."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sized

from blockpool.errors import ConfigError
from blockpool.replay.arguments import check_trace, instance_or, known_requests
from blockpool.replay.attention.manager_run import start_run
from blockpool.replay.misses.tags import tag_field_to_read
from blockpool.replay.pool_run import PoolRun
from blockpool.replay.result import ReplayResult
from blockpool.replay.settings import LAST_HALF, ReplaySettings, check_pool_blocks
from blockpool.trace.reader import TraceReader, count_requests
from blockpool.trace.request import TraceRequest
from blockpool.trace.source import TracePath, spooled

Progress = Callable[[float | None], None]

REQUESTS_PER_PROGRESS = 64


def replay(
    trace: TracePath | Iterable[TraceRequest],
    blocks: int,
    settings: ReplaySettings | None = None,
    *,
    pictures: bool = False,
    progress: Progress | None = None,
    perf_counter: Callable[[], float] = time.perf_counter,
) -> ReplayResult:
    """Plays a trace through a cold `BlockPool` and tells how well it did.

    Equal input gives equal results, wall time aside. Memory follows the pool, not the trace; with `explain` also the
    distinct blocks of the trace.

    Args:
        trace: A file, the strings "-" (standard input) or "demo" (the bundled trace), or requests. Requests
            with the window "last-half" must have a length.
        blocks: Usable blocks, 1 … 100,000,000; `num_gpu_blocks` of the pool is one more.
        settings: By default trace rules over the whole trace.
        pictures: Collect what only a report draws, too.
        progress: Called every 64 requests with the fraction of the file that has been read, or None when
            its size is unknown.
        perf_counter: Seconds for the speed figures.

    Raises:
        TraceError: A bad line, a damaged archive, no requests; a timestamp that goes back, unless `sort`.
        ConfigError: A number or a combination that cannot be right.
        OSError: The trace cannot be read.
        InvariantError: With `check_every`, when the pool contradicts itself.
    """
    settings = instance_or("settings", settings, ReplaySettings)
    check_trace(trace)
    check_pool_blocks(blocks)
    if isinstance(trace, (str, os.PathLike)):
        with spooled(trace, again=settings.window == LAST_HALF) as (path, name):
            first_measured = find_window(path, name, settings)
            return replay_file(path, name, blocks, settings, first_measured, pictures, progress, perf_counter)
    first_measured = first_of(trace, settings)
    requests = known_requests(trace, sort=settings.sort)
    run, requests = start_run(requests, blocks, settings, pictures=pictures)
    start = perf_counter()
    _play_all(run, requests, first_measured, progress)
    return run.result(perf_counter() - start)


def find_window(path: TracePath, name: str | None, settings: ReplaySettings) -> int:
    """Number of the first request to be measured, from 0. Reads the trace when that depends on its length."""
    if settings.window != LAST_HALF:
        return 0
    return count_requests(open_trace(path, name, settings)) // 2


def first_of(requests: Iterable[TraceRequest], settings: ReplaySettings) -> int:
    """Number of the first request to be measured, of requests that come from Python."""
    if settings.window != LAST_HALF:
        return 0
    if not isinstance(requests, Sized):
        raise ConfigError("window", settings.window, "needs requests with a length, a list for example")
    return len(requests) // 2


def replay_file(
    path: TracePath,
    name: str | None,
    blocks: int,
    settings: ReplaySettings,
    first_measured: int,
    pictures: bool = False,
    progress: Progress | None = None,
    perf_counter: Callable[[], float] = time.perf_counter,
) -> ReplayResult:
    """Plays a file whose window is known already; see `replay`.

    Args:
        path: As `TraceReader` takes it.
        name: What errors call it; None: its path.
        first_measured: From `find_window`.
    """
    reader = open_trace(path, name, settings)
    run, requests = start_run(iter(reader), blocks, settings, pictures=pictures)
    start = perf_counter()
    _play_all(run, requests, first_measured, progress, reader)
    return run.result(perf_counter() - start, trace_format=reader.format, bad_lines=reader.bad_lines)


def _play_all(
    run: PoolRun,
    requests: Iterable[TraceRequest],
    first_measured: int,
    progress: Progress | None,
    reader: TraceReader | None = None,
) -> None:
    """Plays them; `reader` is where they come from, if that is a file."""
    for number, request in enumerate(requests):
        if number and number == first_measured:
            run.restart_window()
        run.play(request, reader.line if reader is not None else None)
        if progress is not None and number % REQUESTS_PER_PROGRESS == 0:
            progress(None if reader is None else reader.fraction_read())


def open_trace(path: TracePath, name: str | None, settings: ReplaySettings) -> TraceReader:
    """The reader that the settings ask for; opens nothing yet.

    Args:
        path: As `TraceReader` takes it.
        name: What errors call it; None: its path.
        settings: How to read it.
    """
    return TraceReader(
        path,
        block_size=settings.block_size,
        skip_bad=settings.skip_bad,
        sort=settings.sort,
        name=name,
        tag_field=tag_field_to_read(settings.tag),
    )

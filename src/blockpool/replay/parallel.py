"""`replay_many`: one trace through pools of several sizes, in parallel processes."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from blockpool.core.arguments import as_list, as_size
from blockpool.errors import BlockPoolError, ConfigError
from blockpool.replay.arguments import instance_or
from blockpool.replay.driver import find_window, replay_file
from blockpool.replay.result import ReplayResult
from blockpool.replay.settings import ReplaySettings, check_pool_blocks
from blockpool.trace.source import TracePath, check_path, spooled

Result = TypeVar("Result")

_MAX_PROCESSES = 61  # more cannot be waited for on Windows


def replay_many(
    trace: TracePath,
    sizes: Sequence[int],
    settings: ReplaySettings | None = None,
    *,
    jobs: int | None = None,
    pictures: bool = False,
    finished: Callable[[int], None] | None = None,
) -> list[ReplayResult]:
    """Plays one trace through several cold pools, each in a process of its own.

    The processes are spawned, so a script that calls this must guard its main part with
    `if __name__ == "__main__":`. Standard input is read once and spooled.

    Args:
        trace: A file, or the strings "-" (standard input) or "demo" (the bundled trace).
        sizes: Usable blocks of each pool, at least one.
        settings: The same for all; by default trace rules over the whole trace.
        jobs: Processes at a time; by default one per processor. 1 does all of it in this process.
        pictures: Collect what only a report draws, too, of the first pool.
        finished: Called with the number of finished pools whenever one is done.

    Returns:
        One result per size, in the given order.

    Raises:
        BlockPoolError: Whatever `replay` raises: the first error stops all; also when a process died.
        OSError: The trace cannot be read.
    """
    settings = instance_or("settings", settings, ReplaySettings)
    return play_sizes(replay_file, trace, sizes, settings, jobs=jobs, pictures=pictures, finished=finished)


def play_sizes(
    play_file: Callable[..., Result],
    trace: TracePath,
    sizes: Sequence[int],
    settings: ReplaySettings,
    *,
    jobs: int | None = None,
    pictures: bool = False,
    finished: Callable[[int], None] | None = None,
) -> list[Result]:
    """Plays one trace through several pools in some way; see `replay_many`.

    Args:
        play_file: Takes path, name, usable blocks, settings, the number of the first measured request and whether
            pictures are wanted, as `replay_file` does. It can be pickled, as its results can.
    """
    check_path(trace)
    as_list("sizes", sizes)
    if not len(sizes):
        raise ConfigError("sizes", list(sizes), "must name at least one size")
    for size in sizes:
        check_pool_blocks(size)
    jobs = (os.cpu_count() or 1) if jobs is None else as_size("jobs", jobs)
    jobs = min(jobs, len(sizes), _MAX_PROCESSES)
    with spooled(trace, again=True) as (path, name):
        first_measured = find_window(path, name, settings)
        tasks = [
            (path, name, size, settings, first_measured, pictures and not number)
            for number, size in enumerate(sizes)
        ]
        if jobs > 1:
            return _run_in_processes(play_file, tasks, jobs, finished)
        results: list[Result] = []
        for task in tasks:
            results.append(play_file(*task))
            if finished is not None:
                finished(len(results))
        return results


def _run_in_processes(
    play_file: Callable[..., Result],
    tasks: Sequence[tuple[object, ...]],
    jobs: int,
    finished: Callable[[int], None] | None,
) -> list[Result]:
    before = set(multiprocessing.active_children())
    executor = ProcessPoolExecutor(
        jobs, mp_context=multiprocessing.get_context("spawn"), initializer=_die_quietly
    )
    try:
        # A signal interrupts the main thread only: half-started, a process would fail on what it was to read.
        with ThreadPoolExecutor(1, initializer=_shield_children) as starter:
            futures = starter.submit(_submit_all, executor, play_file, tasks).result()
        for done, future in enumerate(as_completed(futures), start=1):
            future.result()
            if finished is not None:
                finished(done)
        return [future.result() for future in futures]
    except BrokenProcessPool:
        raise BlockPoolError(
            "a process that replayed the trace died: out of memory, or a script that calls replay_many "
            'without `if __name__ == "__main__":` around its main part'
        ) from None
    except BaseException:
        # Nobody wants the other results any more; without this, leaving would wait for them.
        for process in set(multiprocessing.active_children()) - before:
            process.terminate()
        raise
    finally:
        executor.shutdown(cancel_futures=True)


def _submit_all(
    executor: ProcessPoolExecutor, play_file: Callable[..., Result], tasks: Sequence[tuple[object, ...]]
) -> list[Future[Result]]:
    return [executor.submit(play_file, *task) for task in tasks]


def _shield_children() -> None:
    """Processes that this thread starts hold SIGINT back until `_die_quietly`; it would end imports with words."""
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])


def _die_quietly() -> None:
    """Makes a worker end without words when it is interrupted, and when the process that wants its result is gone."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    threading.Thread(target=_die_with_parent, daemon=True).start()


def _die_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)

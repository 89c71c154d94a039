"""`publish_trace`: a trace as the traffic of a fleet of mock workers, which publish as engines do."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from itertools import chain
from types import TracebackType
from typing import Final, NamedTuple, final

from blockpool.errors import ConfigError
from blockpool.events.fleet_settings import BY_SESSION, FleetSettings
from blockpool.events.mock_worker import MockWorker, event_block_size, trace_fingerprint
from blockpool.events.publisher import EventPublisher, PublisherStats
from blockpool.events.received import SourceAddress
from blockpool.replay.arguments import as_instance, check_trace, known_requests
from blockpool.replay.driver import REQUESTS_PER_PROGRESS, Progress, open_trace
from blockpool.replay.result import ReplayResult
from blockpool.replay.settings import ENGINE_RULES, WHOLE_TRACE, ReplaySettings
from blockpool.trace.reader import TraceReader
from blockpool.trace.request import TraceRequest
from blockpool.trace.source import TracePath

FLUSH_SECONDS: Final = 10.0
CLOSE_SECONDS: Final = 5.0
LONGEST_SLEEP_SECONDS: Final = 3600.0


class WorkerResult(NamedTuple):
    """What one worker did.

    Attributes:
        rank: Its number.
        address: Where it published and answered, with the ports that were really bound.
        replay: As of `replay`.
        cached_blocks: Blocks in its index at the end.
        publisher: Counts of its publisher.
    """

    rank: int
    address: SourceAddress
    replay: ReplayResult
    cached_blocks: int
    publisher: PublisherStats


@final
class MockFleet:
    """Workers with a pool and a publisher each, and who gets which request. A context manager.

    Args:
        first: The first request, for what all have in common.
        blocks: Usable blocks of each pool.
        settings: By engine rules, over the whole trace.
        fleet: How many, and where.

    Attributes:
        workers: In order of their numbers.

    Raises:
        ConfigError: For settings that do not go together, and a trace that events cannot tell of.
        EndpointError: If an address is taken.
    """

    def __init__(
        self, first: TraceRequest, blocks: int, settings: ReplaySettings, fleet: FleetSettings
    ) -> None:
        if settings.rules != ENGINE_RULES:
            raise ConfigError("rules", settings.rules, "publishing goes by engine rules: full blocks only")
        if settings.window != WHOLE_TRACE:
            raise ConfigError("window", settings.window, "publishing has no warm-up")
        self._fleet = fleet
        self._next = 0
        self._sessions: dict[str | int, MockWorker] = {}
        self.workers: list[MockWorker] = []
        block_size = event_block_size(first)
        fingerprint = trace_fingerprint(first, settings)
        adapters: dict[str, int] = {}
        with ExitStack() as stack:
            for rank in range(fleet.workers):
                publisher = EventPublisher(
                    fleet.publish,
                    fleet.publish_replay,
                    topic=fleet.topic_of(rank),
                    data_parallel_rank=rank,
                    dialect=fleet.dialect,
                    bind=True,
                    fingerprint=fingerprint,
                )
                stack.callback(publisher.close, CLOSE_SECONDS)
                self.workers.append(MockWorker(blocks, settings, block_size, publisher, adapters))
            self._publishers = stack.pop_all()

    def addresses(self) -> list[SourceAddress]:
        """Where the workers publish and answer."""
        return [
            SourceAddress(worker.publisher.endpoint, worker.publisher.replay_endpoint)
            for worker in self.workers
        ]

    def play(self, request: TraceRequest) -> None:
        """Gives the request to the worker whose turn it is.

        Raises:
            ConfigError: With routing by session, if it belongs to none; and as `MockWorker.play`.
        """
        self._worker_for(request).play(request)

    def flush(self, timeout: float = FLUSH_SECONDS) -> bool:
        """Waits until everything was handed to ZeroMQ; False if `timeout` seconds do not suffice for one of them."""
        return all(worker.publisher.flush(timeout) for worker in self.workers)

    def close(self) -> None:
        """Ends the publishers. May be called twice."""
        self._publishers.close()

    def __enter__(self) -> MockFleet:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _worker_for(self, request: TraceRequest) -> MockWorker:
        if self._fleet.routing != BY_SESSION:
            return self._next_worker()
        session = request.session_id
        if session is None:
            raise ConfigError("routing", BY_SESSION, "a request of the trace has no session_id")
        if session not in self._sessions:
            self._sessions[session] = self._next_worker()
        return self._sessions[session]

    def _next_worker(self) -> MockWorker:
        worker = self.workers[self._next % len(self.workers)]
        self._next += 1
        return worker


def publish_trace(
    trace: TracePath | Iterable[TraceRequest],
    blocks: int,
    settings: ReplaySettings,
    fleet: FleetSettings,
    *,
    started: Callable[[list[SourceAddress]], None] | None = None,
    finished: Callable[[list[WorkerResult]], None] | None = None,
    progress: Progress | None = None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> list[WorkerResult]:
    """Plays a trace through the pools of a fleet, each of which publishes its events.

    Args:
        trace: As `replay` takes it.
        blocks: Usable blocks of each pool.
        settings: By engine rules, over the whole trace.
        fleet: How many workers, where, how fast.
        started: Called with their addresses before the first request.
        finished: Called after the last request, while the publishers still answer; they are closed when it returns.
        progress: Called every 64 requests with the fraction of the file that has been read, or None.
        clock: Seconds.
        sleep: Waits so many seconds.

    Raises:
        TraceError, OSError: As `replay`.
        ConfigError: For settings that do not go together; with a speed, for a trace without timestamps.
        EndpointError: If an address is taken.
    """
    as_instance("settings", settings, ReplaySettings)
    as_instance("fleet", fleet, FleetSettings)
    check_trace(trace)
    reader = open_trace(trace, None, settings) if isinstance(trace, (str, os.PathLike)) else None
    requests = known_requests(reader or trace, sort=settings.sort)  # type: ignore[arg-type]  # a path has a reader
    first = next(requests)
    pace = None if fleet.speed is None else _Pace(first, fleet.speed, clock, sleep)
    with MockFleet(first, blocks, settings, fleet) as made:
        if started is not None:
            started(made.addresses())
        start = clock()
        for number, request in enumerate(_paced(chain((first,), requests), pace)):
            made.play(request)
            if progress is not None and number % REQUESTS_PER_PROGRESS == 0:
                progress(None if reader is None else reader.fraction_read())
        seconds = clock() - start
        made.flush()
        results = _results(made, seconds, reader)
        if finished is not None:
            finished(results)
        return results


class _Pace:
    """When requests are due."""

    def __init__(
        self, first: TraceRequest, speed: float, clock: Callable[[], float], sleep: Callable[[float], None]
    ) -> None:
        if first.timestamp_ms is None:
            raise ConfigError("speed", speed, "the trace has no timestamps")
        self._first_ms = first.timestamp_ms
        self._speed = speed
        self._clock = clock
        self._sleep = sleep
        self._start: float | None = None

    def wait_for(self, request: TraceRequest) -> None:
        """Waits until the request is due; not at all if that is over."""
        assert request.timestamp_ms is not None
        now = self._clock()
        if self._start is None:
            self._start = now
        due = self._start + (request.timestamp_ms - self._first_ms) / 1000 / self._speed
        while due > now:  # in pieces: clocks of systems end, and timestamps go far beyond
            self._sleep(min(due - now, LONGEST_SLEEP_SECONDS))
            now = self._clock()


def _paced(requests: Iterable[TraceRequest], pace: _Pace | None) -> Iterator[TraceRequest]:
    for request in requests:
        if pace is not None:
            pace.wait_for(request)
        yield request


def _results(made: MockFleet, seconds: float, reader: TraceReader | None) -> list[WorkerResult]:
    trace_format = None if reader is None else reader.format
    bad_lines = 0 if reader is None else reader.bad_lines
    return [
        WorkerResult(
            rank,
            address,
            worker.result(seconds, trace_format=trace_format, bad_lines=bad_lines),
            sum(block.block_hash is not None for block in worker.pool.blocks),
            worker.publisher.stats(),
        )
        for rank, (worker, address) in enumerate(zip(made.workers, made.addresses(), strict=True))
    ]

"""`generate`: a seeded workload, the same on every platform, as an iterator of requests."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from blockpool.core.arguments import as_choice, as_int, as_size
from blockpool.errors import ConfigError
from blockpool.trace.draws import Draws
from blockpool.trace.request import TraceRequest
from blockpool.trace.workloads import WORKLOADS, SharedTexts, Step

WORKLOAD_KINDS = tuple(WORKLOADS)
MAX_SEED = 2**63 - 1
MEAN_SESSION_GAP_MS = 1_500

_ARRIVAL_STREAM = 2**62  # sessions use the streams from 0 on


def generate(kind: str, num_requests: int, *, seed: int = 0, block_size: int = 16) -> Iterator[TraceRequest]:
    """Makes a workload of interleaved sessions, ordered by time.

    Sessions begin as a Poisson process; each then follows its own pace. Equal arguments give equal requests,
    and a longer workload begins with the shorter one. Memory follows the sessions that are open at a time.

    Args:
        kind: One of `WORKLOAD_KINDS`.
        num_requests: How many requests, at least 1.
        seed: 0 … 2^63-1.
        block_size: What the requests carry as their block size, at least 1; the tokens do not depend on it.

    Returns:
        Requests with prompt, output, session id and a timestamp in whole milliseconds that never goes back.

    Raises:
        ConfigError: An argument is out of range. Raised by the call, not by the first `next`.
    """
    as_choice("kind", kind, WORKLOAD_KINDS)
    num_requests = as_size("num_requests", num_requests)
    if not 0 <= as_int("seed", seed) <= MAX_SEED:
        raise ConfigError("seed", seed, f"must be 0 … {MAX_SEED}")
    block_size = as_size("block_size", block_size)
    return _requests(kind, num_requests, seed, block_size)


def _requests(kind: str, num_requests: int, seed: int, block_size: int) -> Iterator[TraceRequest]:
    events = _interleaved(kind, seed)
    for _ in range(num_requests):
        time_ms, session_id, step = next(events)
        yield TraceRequest(
            timestamp_ms=time_ms,
            prompt_tokens=len(step.prompt),
            block_size=block_size,
            token_ids=step.prompt,
            output_token_ids=step.output,
            output_tokens=len(step.output),
            session_id=session_id,
        )


def _interleaved(kind: str, seed: int) -> Iterator[tuple[int, str, Step]]:
    """Endless steps of all sessions in order of time; at one time, the older session goes first."""
    shared = SharedTexts(seed)
    arrivals = Draws(seed, _ARRIVAL_STREAM)
    next_start_ms = 0
    started = 0
    waiting: list[tuple[int, int, str, Step, Iterator[Step]]] = []
    while True:
        while not waiting or next_start_ms <= waiting[0][0]:
            draws = Draws(seed, started)
            name, steps = _new_session(kind, draws, shared)
            _wait_for_next(waiting, next_start_ms, started, f"{name}-{started}", steps)
            started += 1
            next_start_ms += int(arrivals.exponential() * MEAN_SESSION_GAP_MS)
        time_ms, number, session_id, step, steps = heapq.heappop(waiting)
        yield time_ms, session_id, step
        _wait_for_next(waiting, time_ms, number, session_id, steps)


def _new_session(kind: str, draws: Draws, shared: SharedTexts) -> tuple[str, Iterator[Step]]:
    ticket = draws.below(10)
    for name, session, share in WORKLOADS[kind]:
        if ticket < share:
            return name, session(draws, shared)
        ticket -= share
    raise AssertionError(f"the shares of {kind} do not sum to 10")


def _wait_for_next(
    waiting: list[tuple[int, int, str, Step, Iterator[Step]]],
    time_ms: int,
    number: int,
    session_id: str,
    steps: Iterator[Step],
) -> None:
    step = next(steps, None)
    if step is not None:
        # Session numbers differ and a session waits once, so the comparison never reaches the step.
        heapq.heappush(waiting, (time_ms + step.gap_ms, number, session_id, step, steps))

"""`curve`: the hits at every capacity from one pass over a trace."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from blockpool.core.arguments import as_int
from blockpool.errors import ConfigError, TraceError
from blockpool.replay.arguments import REQUESTS_NAME, check_trace, instance_or, known_requests
from blockpool.replay.curves.hit_curve import HitCurve
from blockpool.replay.curves.key_sampler import KeySampler
from blockpool.replay.curves.sampled_hits import SampledHits, SampledLookup, Totals
from blockpool.replay.curves.stack_distance import NEVER_FOUND, StackPass
from blockpool.replay.driver import REQUESTS_PER_PROGRESS, Progress, find_window, first_of, open_trace
from blockpool.replay.keys import KeyMaker
from blockpool.replay.rules import RequestPlan, plan_request
from blockpool.replay.settings import LAST_HALF, MAX_POOL_BLOCKS, NO_CURVE, ReplaySettings
from blockpool.replay.sizes import MAX_SAMPLING
from blockpool.trace.reader import TraceReader
from blockpool.trace.request import TraceRequest
from blockpool.trace.source import TracePath, spooled


class Consumer(Protocol):
    """Takes the requests of a trace one after the other."""

    def play(self, request: TraceRequest, plan: RequestPlan, tokens: list[int], measured: bool) -> int:
        """Takes one. Returns -1, or the index of a block that stands behind another one than before."""


def curve(
    trace: TracePath | Iterable[TraceRequest],
    settings: ReplaySettings | None = None,
    *,
    one_in: int = 1,
    seed: int = 0,
    progress: Progress | None = None,
    perf_counter: Callable[[], float] = time.perf_counter,
) -> HitCurve:
    """Tells what `replay` would find at every capacity from the largest request on, in one pass.

    The numbers are those of `replay`, to the block and the token, under both sets of rules; with `one_in` above 1
    they are estimates. Memory follows the distinct blocks of the trace, not its length.

    Args:
        trace: As `replay` takes it.
        settings: By default trace rules over the whole trace. What is about checking and residency is not used.
        one_in: Look at one of so many blocks only, chosen by hash; 1 … 1,048,576.
        seed: Of the sample.
        progress: As `replay` calls it.
        perf_counter: Seconds, for `HitCurve.seconds`.

    Raises:
        TraceError: A bad line, a damaged archive, no requests; or a block that does not stand for its whole
            prefix, so that no single pass can be exact.
        ConfigError: A number or a combination that cannot be right.
        OSError: The trace cannot be read.
    """
    settings = instance_or("settings", settings, ReplaySettings)
    settings.require_full_attention(NO_CURVE)
    check_trace(trace)
    if isinstance(trace, (str, os.PathLike)):
        with spooled(trace, again=settings.window == LAST_HALF) as (path, name):
            first_measured = find_window(path, name, settings)
            return curve_of_file(
                path,
                name,
                settings,
                first_measured,
                one_in=one_in,
                seed=seed,
                progress=progress,
                perf_counter=perf_counter,
            )
    start = perf_counter()
    main = MainPass(settings, one_in, seed)
    feed(trace, settings, first_of(trace, settings), [main], progress=progress)
    return main.result(perf_counter() - start)


def curve_of_file(
    path: TracePath,
    name: str | None,
    settings: ReplaySettings,
    first_measured: int,
    *,
    one_in: int = 1,
    seed: int = 0,
    others: Sequence[Consumer] = (),
    progress: Progress | None = None,
    perf_counter: Callable[[], float] = time.perf_counter,
) -> HitCurve:
    """`curve` of a file whose window is known already.

    Args:
        path: As `TraceReader` takes it.
        name: What errors call it; None: its path.
        first_measured: From `find_window`.
        others: Take the requests as well.
    """
    reader = open_trace(path, name, settings)
    start = perf_counter()
    main = MainPass(settings, one_in, seed)
    feed(reader, settings, first_measured, [main, *others], progress=progress)
    return main.result(perf_counter() - start, reader.format, reader.bad_lines)


def feed(
    requests: Iterable[TraceRequest],
    settings: ReplaySettings,
    first_measured: int,
    consumers: Sequence[Consumer],
    *,
    progress: Progress | None = None,
) -> None:
    """Reads a trace once for several consumers.

    Raises:
        TraceError: As reading does, and for a block that follows another one than it did before.
    """
    reader = requests if isinstance(requests, TraceReader) else None
    key_maker = KeyMaker(settings.hash_algorithm, plain_ids=True)
    for number, request in enumerate(known_requests(requests, sort=settings.sort)):
        plan = plan_request(request, settings.rules, key_maker)
        tokens = _block_tokens(request)
        for consumer in consumers:
            index = consumer.play(request, plan, tokens, number >= first_measured)
            if index >= 0:
                raise TraceError(
                    reader.name if reader else REQUESTS_NAME,
                    reader.line if reader else number + 1,
                    f"block {index + 1} of the prompt, {_shown(plan.keys[index])}, follows another block than "
                    "before: an id must stand for its whole prefix (`replay` plays such a trace)",
                )
        if progress is not None and number % REQUESTS_PER_PROGRESS == 0:
            progress(reader.fraction_read() if reader else None)


class MainPass:
    """The pass over all requests."""

    def __init__(self, settings: ReplaySettings, one_in: int = 1, seed: int = 0) -> None:
        if not 1 <= as_int("sample", one_in) <= MAX_SAMPLING:
            raise ConfigError("sample", one_in, f"must be 1/1 … 1/{MAX_SAMPLING}")
        as_int("seed", seed)
        self._sampler = KeySampler(one_in, seed) if one_in > 1 else None
        self._one_in = one_in
        self._reuse = settings.reuse_uncached_first
        self._pass = StackPass(self._reuse and one_in == 1, one_in > 1)
        self._largest = 0
        self._requests = 0
        self._prompt_tokens = 0
        self._prompt_blocks = 0
        self._lookups = 0
        self._lookup_tokens = 0
        self._uses = 0
        self._largest_block = 0

    def play(self, request: TraceRequest, plan: RequestPlan, tokens: list[int], measured: bool) -> int:
        """Plays one request at all capacities; see `Consumer`."""
        self._largest = max(self._largest, plan.num_blocks)
        num_nameless = plan.num_blocks - len(plan.keys)
        if measured:
            self._requests += 1
            self._prompt_tokens += request.prompt_tokens
            self._prompt_blocks += request.num_prompt_blocks
        if self._sampler is None:
            return self._pass.play(plan.keys, plan.max_hit_blocks, tokens, num_nameless, measured)
        num_lookups = min(plan.max_hit_blocks, len(plan.keys))
        self._uses += plan.num_blocks
        if measured and num_lookups:
            self._lookups += num_lookups
            self._lookup_tokens += sum(tokens[:num_lookups])
            self._largest_block = max(self._largest_block, max(tokens[:num_lookups]))
        chosen = self._sampler.choose(plan.keys)
        num_nameless = 0 if self._reuse else self._sampler.choose_nameless(num_nameless)
        hittable = [index for index in chosen if index < num_lookups]
        spoilt = self._pass.play(
            [plan.keys[index] for index in chosen],
            len(hittable),
            [tokens[index] for index in hittable],
            num_nameless,
            measured,
        )
        return -1 if spoilt < 0 else chosen[spoilt]

    def result(self, seconds: float, trace_format: str | None = None, bad_lines: int = 0) -> HitCurve:
        """The curve.

        Args:
            seconds: Wall time of the pass.
            trace_format: Of the trace the requests came from; None when they came from Python.
            bad_lines: Lines of it that were skipped.
        """
        sampled = None
        first = max(1, self._largest)
        if self._sampler is None:
            steps = self._pass.hits.steps(first, MAX_POOL_BLOCKS)
        else:
            lookups = [
                SampledLookup(math.inf if above == NEVER_FOUND else above * self._one_in + 1, slot, tokens)
                for slot, above, tokens in self._pass.take_record()
            ]
            totals = Totals(self._lookups, self._lookup_tokens, self._uses, self._largest_block)
            sampled = SampledHits(self._one_in, lookups, totals)
            steps = sampled.steps(first)
        return HitCurve(
            self._requests,
            self._prompt_tokens,
            self._prompt_blocks,
            first,
            self._pass.distinct_keys,
            self._pass.num_uncertain,
            *steps,
            sampled,
            trace_format,
            bad_lines,
            seconds,
        )


def _block_tokens(request: TraceRequest) -> list[int]:
    """Tokens of each block of the prompt."""
    if request.block_tokens is not None:
        return request.block_tokens
    assert request.block_size is not None
    num_blocks = request.num_prompt_blocks
    tokens = [request.block_size] * num_blocks
    tokens[-1] = request.prompt_tokens - request.block_size * (num_blocks - 1)
    return tokens


def _shown(key: object) -> str:
    return str(key) if isinstance(key, int) else "given by its tokens"

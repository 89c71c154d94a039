"""`plan_capacity`: how many blocks of a model's cache fit, and what a trace makes of them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from blockpool.errors import ConfigError
from blockpool.replay.arguments import as_instance, check_trace, instance_or, known_requests
from blockpool.replay.curves.curve_pass import MainPass, feed
from blockpool.replay.curves.hit_curve import HitCurve
from blockpool.replay.curves.policy_points import PolicyRecorder, check_policies
from blockpool.replay.curves.policy_table import LRU, other_policies
from blockpool.replay.driver import Progress, open_trace
from blockpool.replay.plans.fleet import Fleet
from blockpool.replay.plans.model_memory import ModelMemory, model_memory
from blockpool.replay.plans.model_shape import ModelShape
from blockpool.replay.plans.plan_result import (
    DOUBLE,
    HALF,
    KNEE,
    MOST,
    PLANNED,
    FleetPlan,
    Plan,
    PlanPoint,
)
from blockpool.replay.plans.plan_settings import PlanSettings
from blockpool.replay.plans.trace_facts import TraceFacts, trace_facts
from blockpool.replay.settings import NO_CURVE, ReplaySettings
from blockpool.trace.reader import TraceReader
from blockpool.trace.request import TraceRequest
from blockpool.trace.source import TracePath, spooled


def plan_capacity(
    trace: TracePath | Sequence[TraceRequest],
    shape: ModelShape,
    settings: PlanSettings,
    replay: ReplaySettings | None = None,
    *,
    policies: Sequence[str] = (),
    progress: Progress | None = None,
) -> Plan:
    """Plans the cache of a model for a trace. Reads the trace twice: to know it, then for its curves.

    Args:
        trace: A file, the strings "-" (standard input, spooled) or "demo", or requests.
        shape: From `load_model_shape` or `shape_from_config`.
        settings: The hardware and the fleet.
        replay: How the trace is read and counted: rules, window, block size, hash. `check_every` and
            `sample_rate` have no meaning here.
        policies: Those beside "lru" are played, too, at the sizes of a single replica. Keeps the trace in memory.
        progress: Called every 64 requests of the second reading, as `replay` calls it.

    Raises:
        TraceError: A bad line, a damaged archive, no requests.
        ConfigError: The model cannot be split so, or the memory does not hold one request of the trace.
        OSError: The trace cannot be read.
    """
    as_instance("shape", shape, ModelShape)
    as_instance("settings", settings, PlanSettings)
    replay = instance_or("replay", replay, ReplaySettings)
    replay.require_full_attention(NO_CURVE)
    check_trace(trace)
    check_policies(policies or (LRU,))
    others = other_policies(policies) if settings.replicas == 1 else []
    if isinstance(trace, (str, os.PathLike)):
        with spooled(trace, again=True) as (path, name):
            return _plan(open_trace(path, name, replay), shape, settings, replay, others, progress)
    return _plan(trace, shape, settings, replay, others, progress)


def _plan(
    requests: Iterable[TraceRequest],
    shape: ModelShape,
    settings: PlanSettings,
    replay: ReplaySettings,
    others: list[str],
    progress: Progress | None,
) -> Plan:
    facts = trace_facts(known_requests(requests, sort=replay.sort), replay)
    memory = model_memory(
        shape,
        block_size=facts.block_size,
        kv_dtype=settings.kv_dtype,
        tensor_parallel=settings.tensor_parallel,
    )
    blocks = blocks_that_fit(memory, settings)
    _check_holds_largest(blocks, memory, facts, settings)
    single = MainPass(replay)
    fleets: list[Fleet] = []
    if settings.replicas > 1:
        fleets = [Fleet(routing, settings.replicas, settings.seed, replay) for routing in settings.routings()]
    recorder = PolicyRecorder()
    recorders = [recorder] if others else []
    feed(requests, replay, facts.first_measured, [single, *fleets, *recorders], progress=progress)
    curve = single.result(0.0)
    all_tokens = facts.prompt_tokens + facts.warm_up_tokens
    shares: list[tuple[str | None, tuple[int, ...], tuple[int, ...], HitCurve]] = [
        (fleet.routing, tuple(fleet.requests), tuple(fleet.tokens), fleet.curve()) for fleet in fleets
    ] or [(None, (facts.requests,), (all_tokens,), curve)]
    plans = [
        FleetPlan(routing, sent, tokens, _points(hits, blocks, memory, facts, settings), hits)
        for routing, sent, tokens, hits in shares
    ]
    return Plan(
        shape=shape,
        memory=memory,
        settings=settings,
        replay=replay,
        facts=facts,
        bad_lines=requests.bad_lines if isinstance(requests, TraceReader) else 0,
        blocks=blocks,
        fleets=tuple(plans),
        shared_hit_tokens=curve.at(blocks * settings.replicas).hit_tokens if fleets else None,
        policy_points=tuple(
            recorder.point(policy, size) for policy in others for size in _playable_sizes(plans[0], facts)
        ),
    )


def _playable_sizes(fleet: FleetPlan, facts: TraceFacts) -> list[int]:
    smallest = facts.largest_request_blocks
    return sorted({smallest, *(point.blocks for point in fleet.points if point.blocks >= smallest)})


def blocks_that_fit(memory: ModelMemory, settings: PlanSettings) -> int:
    """Blocks of one GPU's pool; every GPU of a replica has as many.

    Raises:
        ConfigError: Nothing is left for a pool.
    """
    constant = settings.max_running * memory.bytes_per_request
    left = settings.gpu_memory - settings.reserve - constant
    if left <= 0:
        raise ConfigError(
            "gpu_memory",
            settings.gpu_memory,
            f"{settings.reserve:,} bytes of reserve and {constant:,} bytes of windows and states of running "
            "requests leave nothing for the pool",
        )
    return left // memory.bytes_per_block


def _check_holds_largest(blocks: int, memory: ModelMemory, facts: TraceFacts, settings: PlanSettings) -> None:
    wanted = facts.largest_request_blocks
    if blocks < wanted:
        raise ConfigError(
            "gpu_memory",
            settings.gpu_memory,
            f"holds {blocks:,} blocks ({blocks * memory.bytes_per_block:,} bytes), but request "
            f"{facts.largest_request:,} of the trace alone needs {wanted:,} "
            f"({wanted * memory.bytes_per_block:,} bytes)",
        )


def _points(
    curve: HitCurve, blocks: int, memory: ModelMemory, facts: TraceFacts, settings: PlanSettings
) -> tuple[PlanPoint, ...]:
    sizes = (
        (PLANNED, blocks),
        (HALF, blocks // 2),
        (DOUBLE, 2 * blocks),
        (KNEE, curve.knee()),
        (MOST, curve.capacity_for_share(1.0)),
    )
    return tuple(_point(name, size, curve, memory, facts, settings) for name, size in sizes)


def _point(
    name: str, blocks: int, curve: HitCurve, memory: ModelMemory, facts: TraceFacts, settings: PlanSettings
) -> PlanPoint:
    pool_bytes = blocks * memory.bytes_per_block
    constant = settings.reserve + settings.max_running * memory.bytes_per_request
    hits = curve.at(blocks).hit_tokens if blocks >= facts.largest_request_blocks else None
    rate = settings.prefill_rate
    return PlanPoint(
        name=name,
        blocks=blocks,
        pool_bytes=pool_bytes,
        gpu_bytes=constant + pool_bytes,
        hit_tokens=hits,
        hit_rate=None if hits is None else hits / facts.prompt_tokens,
        saved_seconds=None if hits is None or rate is None else hits / rate,
    )

"""`Plan`: what a capacity plan has to say, and the same as plain data for JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from blockpool.replay.curves.hit_curve import HitCurve
from blockpool.replay.curves.policy_points import PolicyPoint
from blockpool.replay.plans.model_memory import ModelMemory
from blockpool.replay.plans.model_shape import ModelShape
from blockpool.replay.plans.plan_settings import PlanSettings
from blockpool.replay.plans.shared_pool import SharedPool, shared_pool
from blockpool.replay.plans.trace_facts import TraceFacts
from blockpool.replay.settings import ReplaySettings

PLAN_SCHEMA = "blockpool.plan/1"

PLANNED = "planned"
HALF = "half"
DOUBLE = "double"
KNEE = "knee"
MOST = "most"
POINT_NAMES = (PLANNED, HALF, DOUBLE, KNEE, MOST)


@dataclass(frozen=True, slots=True)
class PlanPoint:
    """One size of pool.

    Attributes:
        name: "planned", "half" and "double" of it, "knee", or "most": the least that loses nothing.
        blocks: Usable blocks of each replica.
        pool_bytes: What they take on each GPU.
        gpu_bytes: With the reserve and the constant part of running requests.
        hit_tokens: Prompt tokens found in the cache, of all replicas; None when the pool is smaller than the
            largest request.
        hit_rate: Of all counted prompt tokens.
        saved_seconds: Prefill time that they would have taken; None without a rate.
    """

    name: str
    blocks: int
    pool_bytes: int
    gpu_bytes: int
    hit_tokens: int | None
    hit_rate: float | None
    saved_seconds: float | None


@dataclass(frozen=True, slots=True)
class FleetPlan:
    """One way of routing, or the only replica.

    Attributes:
        routing: None for a single replica.
        replica_requests: Requests that each replica was sent, warm-up included.
        replica_tokens: Their prompt tokens.
        points: One for each of `POINT_NAMES`, in that order.
        curve: Hits by the size of one pool.
    """

    routing: str | None
    replica_requests: tuple[int, ...]
    replica_tokens: tuple[int, ...]
    points: tuple[PlanPoint, ...]
    curve: HitCurve

    def point(self, name: str) -> PlanPoint:
        """The point of that name."""
        return self.points[POINT_NAMES.index(name)]


@dataclass(frozen=True, slots=True)
class Plan:
    """A capacity plan.

    Attributes:
        shape: The model.
        memory: Its bytes per token, block and request on one GPU.
        settings: What was planned for.
        replay: How the trace was played.
        facts: Of the trace.
        bad_lines: Lines of it that were skipped.
        blocks: Usable blocks that fit, of each replica; the null block is not charged.
        fleets: One per way of routing.
        shared_hit_tokens: What one pool as large as those of all replicas together would hit: the bound that
            routing can reach. None for a single replica.
        policy_points: What other policies hit at sizes of the plan; only when asked for, and of a single replica.
    """

    shape: ModelShape
    memory: ModelMemory
    settings: PlanSettings
    replay: ReplaySettings
    facts: TraceFacts
    bad_lines: int
    blocks: int
    fleets: tuple[FleetPlan, ...]
    shared_hit_tokens: int | None
    policy_points: tuple[PolicyPoint, ...] = ()

    @property
    def shared_pool(self) -> SharedPool | None:
        """What to replay for the true hits of a model with windows; see `shared_pool`."""
        return shared_pool(self.shape, self.memory, self.settings)

    @property
    def pool_bytes(self) -> int:
        """Bytes of one GPU that are left for the pool."""
        return (
            self.settings.gpu_memory
            - self.settings.reserve
            - self.settings.max_running * self.memory.bytes_per_request
        )


def plan_as_dict(trace: str, plan: Plan, *, version: str, compiled: bool) -> dict[str, Any]:
    """The plan as plain data for `json.dumps`; docs/plan.md lists every field.

    Args:
        trace: The trace as it was named.
        version: Of blockpool.
        compiled: Whether the core was the compiled one.
    """
    shape = plan.shape
    return {
        "schema": PLAN_SCHEMA,
        "version": version,
        "compiled": compiled,
        "trace": trace,
        "model": {
            "name": shape.name,
            "full_layers": shape.num_full_layers,
            "sliding_layers": shape.num_sliding_layers,
            "state_layers": shape.num_state_layers,
        },
        "memory": {**asdict(plan.memory), "bytes_per_request": plan.memory.bytes_per_request},
        "settings": asdict(plan.settings),
        "replay": asdict(plan.replay),
        "facts": asdict(plan.facts),
        "bad_lines": plan.bad_lines,
        "blocks": plan.blocks,
        "pool_bytes": plan.pool_bytes,
        "fleets": [_fleet_as_dict(fleet) for fleet in plan.fleets],
        "shared_hit_tokens": plan.shared_hit_tokens,
        "shared_pool": None if plan.shared_pool is None else asdict(plan.shared_pool),
    }


def _fleet_as_dict(fleet: FleetPlan) -> dict[str, Any]:
    return {
        "routing": fleet.routing,
        "replica_requests": list(fleet.replica_requests),
        "replica_tokens": list(fleet.replica_tokens),
        "points": {point.name: asdict(point) for point in fleet.points},
    }

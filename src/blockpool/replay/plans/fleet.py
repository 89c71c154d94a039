"""`Fleet`: several replicas, each with a pool of its own, at every size of those pools; and sums of curves."""

from __future__ import annotations

from collections.abc import Sequence

from blockpool.replay.curves.curve_pass import MainPass
from blockpool.replay.curves.hit_curve import HitCurve
from blockpool.replay.plans.routing import make_router
from blockpool.replay.rules import RequestPlan
from blockpool.replay.settings import ReplaySettings
from blockpool.trace.request import TraceRequest


class Fleet:
    """Sends the requests of a trace to replicas; takes part in `feed`.

    Attributes:
        routing: How.
        requests: Requests that each replica was sent.
        tokens: Their prompt tokens.
    """

    def __init__(self, routing: str, replicas: int, seed: int, settings: ReplaySettings) -> None:
        """Starts with cold pools; see `make_router`."""
        self.routing = routing
        self.requests = [0] * replicas
        self.tokens = [0] * replicas
        self._router = make_router(routing, replicas, seed=seed)
        self._passes = [MainPass(settings) for _ in range(replicas)]

    def play(self, request: TraceRequest, plan: RequestPlan, tokens: list[int], measured: bool) -> int:
        """Plays one request on its replica, at all sizes; see `Consumer`."""
        replica = self._router.route(plan, request.prompt_tokens)
        self.requests[replica] += 1
        self.tokens[replica] += request.prompt_tokens
        return self._passes[replica].play(request, plan, tokens, measured)

    def curve(self) -> HitCurve:
        """The hits of all replicas by the size of one pool."""
        return sum_of_curves([one.result(0.0) for one in self._passes])


def sum_of_curves(curves: Sequence[HitCurve]) -> HitCurve:
    """The curve of several pools of equal size, by the size of one. O(steps · log steps).

    Args:
        curves: Exact ones, at least one.
    """
    first = max(curve.largest_request_blocks for curve in curves)
    changes: dict[int, tuple[int, int]] = {first: (0, 0)}
    for curve in curves:
        blocks_before = tokens_before = 0
        for capacity, blocks, tokens in zip(
            curve.capacities, curve.hit_blocks, curve.hit_tokens, strict=True
        ):
            more_blocks, more_tokens = changes.get(max(capacity, first), (0, 0))
            changes[max(capacity, first)] = (
                more_blocks + blocks - blocks_before,
                more_tokens + tokens - tokens_before,
            )
            blocks_before, tokens_before = blocks, tokens
    capacities = sorted(changes)
    hit_blocks, hit_tokens = [], []
    sum_blocks = sum_tokens = 0
    for capacity in capacities:
        sum_blocks += changes[capacity][0]
        sum_tokens += changes[capacity][1]
        hit_blocks.append(sum_blocks)
        hit_tokens.append(sum_tokens)
    return HitCurve(
        requests=sum(curve.requests for curve in curves),
        prompt_tokens=sum(curve.prompt_tokens for curve in curves),
        prompt_blocks=sum(curve.prompt_blocks for curve in curves),
        largest_request_blocks=first,
        distinct_keys=sum(curve.distinct_keys for curve in curves),
        uncertain_places=sum(curve.uncertain_places for curve in curves),
        capacities=capacities,
        hit_blocks=hit_blocks,
        hit_tokens=hit_tokens,
        sampled=None,
        trace_format=None,
        bad_lines=0,
        seconds=0.0,
    )

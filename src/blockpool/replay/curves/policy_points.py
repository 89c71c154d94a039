"""Other policies beside the pool's LRU: what they would hit at chosen capacities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from blockpool.core.arguments import as_choice, as_list
from blockpool.errors import ConfigError
from blockpool.replay.curves.policies import PolicyTrace
from blockpool.replay.curves.policy_table import POLICIES, POLICY_TABLE
from blockpool.replay.rules import RequestPlan
from blockpool.trace.request import TraceRequest


class PolicyPoint(NamedTuple):
    """What one policy hits at one capacity; requests and totals are those of the curve there.

    Attributes:
        policy: One of `POLICIES`, but not "lru".
        capacity: Usable blocks.
        hit_blocks: Of "optimal", the most that any policy could hit.
        hit_tokens: Of "optimal", a bound that no policy exceeds; reached where all blocks are of equal size.
    """

    policy: str
    capacity: int
    hit_blocks: int
    hit_tokens: int


class PolicyRecorder:
    """Keeps a trace in memory for policies that are played capacity by capacity."""

    def __init__(self) -> None:
        """No requests."""
        self._trace = PolicyTrace()

    def play(self, request: TraceRequest, plan: RequestPlan, tokens: list[int], measured: bool) -> int:
        """Takes one request; see `blockpool.replay.curves.curve_pass.Consumer`."""
        num_nameless = plan.num_blocks - len(plan.keys)
        self._trace.add(plan.keys, plan.max_hit_blocks, tokens, num_nameless, measured)
        return -1

    def point(self, policy: str, capacity: int) -> PolicyPoint:
        """Plays one policy other than the pool's own at one capacity. O(look-ups · log capacity) at most.

        Raises:
            ConfigError: The pool's own, or one that is unknown.
        """
        row = POLICY_TABLE.get(policy)
        if row is None or row.hits is None:
            raise ConfigError("policy", policy, "is not played size by size")
        return PolicyPoint(policy, capacity, *row.hits(self._trace, capacity))


def parse_policies(text: str) -> list[str]:
    """Reads "lru,fifo,optimal".

    Raises:
        ConfigError: A policy is unknown or named twice.
    """
    policies = [name.strip() for name in text.split(",")]
    check_policies(policies)
    return policies


def check_policies(policies: Sequence[str]) -> None:
    """Raises ConfigError for a policy that is unknown or named twice."""
    as_list("policies", policies)
    for policy in policies:
        as_choice("policies", policy, POLICIES)
    if len(set(policies)) != len(policies) or not policies:
        raise ConfigError("policies", ",".join(policies), "must name each policy once")

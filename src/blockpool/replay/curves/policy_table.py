"""The policies of a curve, one row each: how its hits are counted, and what it is called and looks like."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from blockpool.replay.curves.policies import PolicyTrace

LRU = "lru"
FIFO = "fifo"
OPTIMAL = "optimal"


class Policy(NamedTuple):
    """One policy.

    Attributes:
        title: Its name in a report.
        hits: Hit blocks and hit tokens of a trace at a capacity in usable blocks; None for the pool's own policy, whose
            hits at every capacity the curve has.
        colors: Of its line in a report, on a light and on a dark page.
        plot_color: Of its line on a terminal, as plotille names colours.
        label_place: Where its name stands there, 0 … 100 per cent of the way along its line.
    """

    title: str
    hits: Callable[[PolicyTrace, int], tuple[int, int]] | None
    colors: tuple[str, str]
    plot_color: str
    label_place: int


def _optimal_hits(trace: PolicyTrace, capacity: int) -> tuple[int, int]:
    """The most blocks, and a bound of the tokens that is reached where all blocks are of equal size."""
    blocks, tokens = trace.optimal(capacity)
    return blocks, trace.most_tokens(capacity) if trace.unequal else tokens


POLICY_TABLE = {
    LRU: Policy("LRU, the pool", None, ("#2563eb", "#60a5fa"), "bright_green", 50),
    FIFO: Policy("FIFO", PolicyTrace.fifo, ("#b45309", "#f5a524"), "bright_yellow", 70),
    OPTIMAL: Policy("optimum", _optimal_hits, ("#047857", "#34d399"), "bright_blue", 20),
}
POLICIES = tuple(POLICY_TABLE)


def other_policies(policies: Iterable[str]) -> list[str]:
    """Those beside the pool's own, in the same order."""
    return [policy for policy in policies if POLICY_TABLE[policy].hits is not None]

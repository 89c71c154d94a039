"""The report of `blockpool plan`."""

from __future__ import annotations

from blockpool.replay.curves.policy_table import LRU, POLICY_TABLE
from blockpool.replay.html.hit_chart import HitLine, SizeMark, curve_points, hit_chart
from blockpool.replay.html.numbers import percent, points, ratio, whole
from blockpool.replay.html.page import Chart, DataTable, Fact, Page, Section
from blockpool.replay.html.replay_words import playing_settings
from blockpool.replay.plans.plan_result import DOUBLE, HALF, KNEE, MOST, PLANNED, FleetPlan, Plan, PlanPoint
from blockpool.replay.plans.plan_tables import (
    bytes_as_words,
    layer_words,
    plan_notes,
    seconds_as_words,
    verdict,
)

_ROWS = ((HALF, "half"), (PLANNED, "as planned"), (DOUBLE, "twice"), (KNEE, "knee"), (MOST, "loses nothing"))
_MARKS = ((PLANNED, "planned"), (DOUBLE, "twice"), (KNEE, "knee"))
_GIB = 2**30


def plan_page(trace: str, plan: Plan) -> Page:
    """A report of a plan."""
    best = max(plan.fleets, key=lambda fleet: fleet.point(PLANNED).hit_tokens or 0)
    here = best.point(PLANNED)
    pool = f"{bytes_as_words(plan.pool_bytes)} per GPU"
    assert here.hit_rate is not None
    with_routing = f" with {best.routing} routing" if best.routing else ""
    answer = f"{whole(plan.blocks)} blocks fit, and find {percent(here.hit_rate)} of the prompt tokens{with_routing}."
    facts = (
        Fact("pool", f"{whole(plan.blocks)} blocks", pool),
        Fact(
            "prompt tokens found",
            percent(here.hit_rate),
            f"{whole(here.hit_tokens or 0)} tokens{with_routing}",
        ),
        *(
            (Fact("prefill saved", seconds_as_words(here.saved_seconds)),)
            if here.saved_seconds is not None
            else ()
        ),
        Fact("bytes per token", whole(plan.memory.bytes_per_token), f"of each GPU, {plan.memory.kv_dtype}"),
    )
    policies = _policy_table(plan)
    section = Section(
        "sizes",
        "Other sizes",
        (
            "The share of the prompt tokens that pools of each size find. The knee is where more memory begins to "
            "bring less than it does on average.",
            *(
                (
                    "Other policies are played at the sizes that are marked by points; the optimum knows the future.",
                )
                if policies
                else ()
            ),
            *_load_words(plan),
            *plan_notes(plan),
        ),
        (_chart(plan),),
        (*(_points_table(plan, fleet) for fleet in plan.fleets), *((policies,) if policies else ())),
    )
    return Page(trace, answer, _meaning(plan, best), facts, (section,), _settings(plan))


def _meaning(plan: Plan, fleet: FleetPlan) -> tuple[str, ...]:
    here, double, knee, most = (fleet.point(name) for name in (PLANNED, DOUBLE, KNEE, MOST))
    assert here.hit_rate is not None
    words = [verdict(fleet)]
    if double.hit_rate is not None:
        words.append(f"Twice the pool would bring {points(double.hit_rate - here.hit_rate)}.")
    if most.hit_rate is not None:
        words.append(
            f"The knee is at {bytes_as_words(knee.pool_bytes)}; from {bytes_as_words(most.pool_bytes)} on "
            f"nothing more is found ({percent(most.hit_rate)})."
        )
    if len(plan.fleets) > 1:
        rates = [
            f"{other.routing} {percent(rate)}"
            for other in plan.fleets
            if (rate := other.point(PLANNED).hit_rate) is not None
        ]
        words.append(f"By routing: {', '.join(rates)}.")
    return tuple(words)


def _load_words(plan: Plan) -> list[str]:
    if len(plan.fleets[0].replica_tokens) == 1:
        return []
    loads = []
    for fleet in plan.fleets:
        busiest = max(fleet.replica_tokens) * len(fleet.replica_tokens) / sum(fleet.replica_tokens)
        loads.append(f"{busiest:.2f} times the mean load with {fleet.routing} routing")
    return [
        f"Sizes are those of one replica's pool. The busiest of {whole(plan.settings.replicas)} has {', '.join(loads)}."
    ]


def _settings(plan: Plan) -> tuple[Fact, ...]:
    settings = plan.settings
    replicas = f", {whole(settings.replicas)} replicas" if settings.replicas > 1 else ""
    reserve = bytes_as_words(settings.reserve) if settings.reserve else "nothing"
    return (
        Fact("model", f"{plan.shape.name}: {layer_words(plan.shape)}"),
        Fact(
            "GPU",
            f"{bytes_as_words(settings.gpu_memory)}, {reserve} reserved, {settings.tensor_parallel} per "
            f"replica{replicas}",
        ),
        Fact(
            "block", f"{whole(plan.facts.block_size)} tokens, {bytes_as_words(plan.memory.bytes_per_block)}"
        ),
        *playing_settings(plan.replay, None, plan.bad_lines)[1:],
    )


def _chart(plan: Plan) -> Chart:
    per_block = plan.memory.bytes_per_block / _GIB
    lines, marks = [], []
    widest = max(point.blocks for fleet in plan.fleets for point in fleet.points) * per_block
    best = max(plan.fleets, key=lambda fleet: fleet.point(PLANNED).hit_tokens or 0)
    for fleet in plan.fleets:
        line = tuple((blocks * per_block, rate) for blocks, rate in curve_points(fleet.curve))
        # From its end on a curve goes on as it is.
        line += ((widest, line[-1][1]),) if widest > line[-1][0] else ()
        lines.append(
            HitLine(
                f"{fleet.routing} routing" if fleet.routing else POLICY_TABLE[LRU].title, line, is_steps=True
            )
        )
    lines += _policy_lines(plan)
    for name, words in _MARKS:
        point = best.point(name)
        if point.hit_rate is not None:
            marks.append(SizeMark(words, point.blocks * per_block, point.hit_rate))
    marked = ", ".join(f"{mark.name} {mark.size:.3g} GiB {percent(mark.rate)}" for mark in marks)
    return hit_chart(
        "Share of the prompt tokens that are found, by memory of the pool",
        f"Lines of hit rate over the memory of the pool. Marked: {marked}.",
        lines,
        marks,
        size_title="GiB of the pool on each GPU (logarithmic)",
    )


def _policy_lines(plan: Plan) -> list[HitLine]:
    per_block = plan.memory.bytes_per_block / _GIB
    lines = []
    for policy in dict.fromkeys(point.policy for point in plan.policy_points):
        rates = tuple(
            (point.capacity * per_block, ratio(point.hit_tokens, plan.facts.prompt_tokens))
            for point in plan.policy_points
            if point.policy == policy
        )
        lines.append(HitLine(POLICY_TABLE[policy].title, rates, is_steps=False, color=policy))
    return lines


def _policy_table(plan: Plan) -> DataTable | None:
    if not plan.policy_points:
        return None
    rows = tuple(
        (
            whole(point.capacity),
            bytes_as_words(point.capacity * plan.memory.bytes_per_block),
            POLICY_TABLE[point.policy].title,
            percent(ratio(point.hit_tokens, plan.facts.prompt_tokens)),
            whole(point.hit_tokens),
        )
        for point in plan.policy_points
    )
    return DataTable("Other policies", ("blocks", "per GPU", "policy", "hit rate", "tokens saved"), rows)


def _points_table(plan: Plan, fleet: FleetPlan) -> DataTable:
    rows = [(words, *_cells(fleet.point(name))) for name, words in _ROWS]
    if plan.shared_hit_tokens is not None:
        rate = percent(plan.shared_hit_tokens / plan.facts.prompt_tokens)
        rows.append(("one pool of all", "", "", rate, whole(plan.shared_hit_tokens), ""))
    title = "Hits by size" + (f", {fleet.routing} routing" if fleet.routing else "")
    headings = ("pool", "blocks", "per GPU", "hit rate", "tokens saved", "time saved")
    return DataTable(title, headings, tuple(rows), is_folded=False)


def _cells(point: PlanPoint) -> tuple[str, ...]:
    sizes = (whole(point.blocks), bytes_as_words(point.pool_bytes))
    if point.hit_tokens is None or point.hit_rate is None:
        return (*sizes, "too small", "", "")
    saved = "\u2013" if point.saved_seconds is None else seconds_as_words(point.saved_seconds)
    return (*sizes, percent(point.hit_rate), whole(point.hit_tokens), saved)

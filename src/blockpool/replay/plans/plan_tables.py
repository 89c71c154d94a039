"""A plan as tables for people. Needs the package rich."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from blockpool.errors import printable
from blockpool.replay.plans.model_shape import ModelShape
from blockpool.replay.plans.plan_result import DOUBLE, HALF, KNEE, MOST, PLANNED, FleetPlan, Plan, PlanPoint
from blockpool.replay.tables import print_title, trimmed
from blockpool.replay.whole_tables import print_whole

_ROWS = ((HALF, "half"), (PLANNED, "as planned"), (DOUBLE, "twice"), (KNEE, "knee"), (MOST, "loses nothing"))
_BYTE_UNITS = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))


def print_plan(console: Console, trace: str, plan: Plan) -> None:
    """Prints what fits, what it brings, and what other sizes would bring."""
    with trimmed(console):
        print_title(console, f"{trace}: {_replay_words(plan)}")
        print_whole(console, _facts(plan))
        for number, fleet in enumerate(plan.fleets):
            if number:
                console.print()
            console.print(_fleet_title(plan, fleet), markup=False, highlight=False)
            print_whole(console, _points(plan, fleet))
            console.print(_double_words(plan, fleet), markup=False, highlight=False)
            console.print(verdict(fleet), markup=False, highlight=False)
        for note in plan_notes(plan):
            console.print(f"\n{note}", markup=False, highlight=False)


def bytes_as_words(size: int) -> str:
    """A size that fits where it is read: "1.25 MiB"."""
    for factor, unit in _BYTE_UNITS:
        if size >= factor:
            return f"{size / factor:,.2f} {unit}"
    return f"{size:,} B"


def seconds_as_words(seconds: float) -> str:
    """A time that fits where it is read: "1.5 h"."""
    for factor, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= factor:
            return f"{seconds / factor:,.1f} {unit}"
    return f"{seconds:,.1f} s"


def layer_words(shape: ModelShape) -> str:
    """What layers a model has."""
    windows = sorted({layers.sliding_window or 0 for layers in shape.sliding})
    parts = [
        (shape.num_full_layers, "see all tokens"),
        (shape.num_sliding_layers, f"see a window of {' or '.join(f'{window:,}' for window in windows)}"),
        (shape.num_state_layers, "have a state"),
    ]
    return ", ".join(f"{count} layers {words}" for count, words in parts if count)


def _replay_words(plan: Plan) -> str:
    words = f"{plan.facts.requests:,} requests, {plan.replay.rules} rules"
    return words if plan.replay.window == "all" else f"{words}, {plan.replay.window} measured"


def _facts(plan: Plan) -> Table:
    memory, settings, facts = plan.memory, plan.settings, plan.facts
    table = Table(box=box.SIMPLE_HEAD, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column()
    table.add_row("model", escape(f"{printable(plan.shape.name)}: {layer_words(plan.shape)}"))
    reserve = (
        f"{bytes_as_words(settings.reserve)} reserved" if settings.reserve else "NOTHING reserved for weights"
    )
    table.add_row("GPU", f"{bytes_as_words(settings.gpu_memory)}, {reserve}, {_gpu_words(plan)}")
    table.add_row("KV cache", f"{memory.kv_dtype}, {memory.bytes_per_token:,} bytes per token of each GPU")
    table.add_row("block", f"{facts.block_size:,} tokens, {bytes_as_words(memory.bytes_per_block)}")
    if memory.bytes_per_request:
        table.add_row(
            "running requests",
            f"{settings.max_running:,} with {bytes_as_words(memory.bytes_per_request)} of windows and states each",
        )
    table.add_row(
        "pool",
        f"{bytes_as_words(plan.pool_bytes)} = {plan.blocks:,} blocks = {plan.blocks * facts.block_size:,} tokens",
    )
    table.add_row(
        "trace",
        f"{facts.prompt_tokens:,} prompt tokens; the largest request needs {facts.largest_request_blocks:,} blocks",
    )
    if plan.bad_lines:
        table.add_row("bad lines", f"{plan.bad_lines:,} skipped")
    return table


def _gpu_words(plan: Plan) -> str:
    settings = plan.settings
    words = f"{settings.tensor_parallel} per replica"
    return f"{words}, {settings.replicas:,} replicas" if settings.replicas > 1 else words


def _fleet_title(plan: Plan, fleet: FleetPlan) -> str:
    if fleet.routing is None:
        return "one replica"
    tokens = fleet.replica_tokens
    busiest = max(tokens) * len(tokens) / sum(tokens)
    return f"{len(tokens):,} replicas, {fleet.routing} routing; the busiest has {busiest:.2f} times the mean load"


def _points(plan: Plan, fleet: FleetPlan) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    headings = ["blocks", "per GPU", "hit rate", "tokens saved"]
    if plan.settings.prefill_rate is not None:
        headings.append("time saved")
    table.add_column("pool", no_wrap=True)
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    for name, words in _ROWS:
        table.add_row(words, *_cells(fleet.point(name))[: len(headings)])
    if plan.shared_hit_tokens is not None:
        rate = plan.shared_hit_tokens / plan.facts.prompt_tokens
        table.add_row("one pool of all", "", "", f"{rate:.2%}", f"{plan.shared_hit_tokens:,}")
    return table


def _cells(point: PlanPoint) -> list[str]:
    sizes = [f"{point.blocks:,}", bytes_as_words(point.pool_bytes)]
    if point.hit_tokens is None or point.hit_rate is None:
        return [*sizes, "too small", "", ""]
    saved = "-" if point.saved_seconds is None else seconds_as_words(point.saved_seconds)
    return [*sizes, f"{point.hit_rate:.2%}", f"{point.hit_tokens:,}", saved]


def _double_words(plan: Plan, fleet: FleetPlan) -> str:
    here, double = fleet.point(PLANNED), fleet.point(DOUBLE)
    assert here.hit_tokens is not None
    assert double.hit_tokens is not None
    more = double.hit_tokens - here.hit_tokens
    words = f"The next 2x brings {more:,} tokens, {more / plan.facts.prompt_tokens:.2%} of all"
    if here.saved_seconds is not None and double.saved_seconds is not None:
        words += f", {seconds_as_words(double.saved_seconds - here.saved_seconds)} of prefill"
    return words + "."


def verdict(fleet: FleetPlan) -> str:
    """What the planned size keeps of all that can be found, and whether twice of it is worth it, in one sentence."""
    here, double, knee, most = (fleet.point(name) for name in (PLANNED, DOUBLE, KNEE, MOST))
    assert here.hit_tokens is not None
    if not most.hit_tokens:
        return "Nothing can be found at any size: no prompt begins as one before it does."
    keeps = (
        f"As planned, the pool keeps {here.hit_tokens / most.hit_tokens:.1%} of what the largest pool finds"
    )
    if double.hit_tokens == here.hit_tokens:
        return f"{keeps}; twice is not worth it: it finds nothing more."
    if here.blocks < knee.blocks:
        return f"{keeps}; twice is worth it: the knee is at {bytes_as_words(knee.pool_bytes)}."
    return f"{keeps}; twice is hardly worth it: the knee is behind."


def plan_notes(plan: Plan) -> list[str]:
    """What has to be known of the numbers, in sentences."""
    memory, facts = plan.memory, plan.facts
    notes = []
    if plan.settings.prefill_rate is None:
        notes.append("Time saved: give --prefill-rate, prompt tokens per second of one replica.")
    if memory.windows_in_pool:
        notes.append(
            "All layers have a window: the pool is sized as if they saw all tokens, so it is an upper bound of "
            "memory and a lower bound of hits."
        )
    elif memory.bytes_per_request:
        notes.append(
            "The pool holds the layers that see all tokens. A hit also needs the window or state at its end, which "
            "this plan takes to be there: an upper bound of hits (docs/plan.md)."
        )
    shared = plan.shared_pool
    if shared is not None and facts.equal_blocks:
        notes.append(
            "As vLLM pools such a model, all layers draw from one pool. What they find there: "
            f"blockpool replay --blocks {shared.blocks} --attention '{shared.attention}'"
        )
    if memory.vllm_block_size is not None and facts.block_size < memory.vllm_block_size:
        notes.append(f"vLLM would raise the block size of this model to {memory.vllm_block_size:,} tokens.")
    if not facts.equal_blocks:
        notes.append("The blocks of this trace are of unequal size; each is charged as a full one.")
    return notes

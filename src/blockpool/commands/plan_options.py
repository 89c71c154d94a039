"""The options of `blockpool plan` that say what is planned for: the GPUs, the engine on them, and the fleet."""

from __future__ import annotations

from typing import Any

import click

from blockpool.commands.options import all_of
from blockpool.commands.usage import as_usage, refuse_if_given
from blockpool.replay.plans.kv_dtype import KV_DTYPES
from blockpool.replay.plans.plan_settings import MAX_RUNNING, MAX_TENSOR_PARALLEL, PlanSettings
from blockpool.replay.plans.routing import AFFINE, MAX_REPLICAS, ROUTINGS
from blockpool.replay.sizes import parse_bytes
from blockpool.trace.generator import MAX_SEED

GPU_OPTIONS = ("gpu_memory", "reserve", "tensor_parallel", "kv_dtype", "max_running", "prefill_rate")
FLEET_OPTIONS = ("replicas", "routing", "seed")
"""Names of both, in the order of the help."""

plan_options = all_of(
    click.option("--gpu-memory", required=True, metavar="SIZE", help="Memory of one GPU, such as 80GiB."),
    click.option(
        "--reserve",
        metavar="SIZE",
        help="Of it, for weights, activations and all else.  [default: nothing]",
    ),
    click.option(
        "--tensor-parallel",
        type=click.IntRange(1, MAX_TENSOR_PARALLEL),
        default=1,
        show_default=True,
        help="GPUs of one replica.",
    ),
    click.option(
        "--kv-dtype",
        type=click.Choice(KV_DTYPES),
        default=KV_DTYPES[0],
        show_default=True,
        help="Of the cache; auto: as the model.",
    ),
    click.option(
        "--max-running",
        type=click.IntRange(1, MAX_RUNNING),
        default=1,
        show_default=True,
        help="Requests at a time, for their windows and states.",
    ),
    click.option(
        "--prefill-rate",
        type=float,
        metavar="TOKENS/S",
        help="Prompt tokens that one replica computes per second.",
    ),
    click.option(
        "--replicas",
        type=click.IntRange(1, MAX_REPLICAS),
        default=1,
        show_default=True,
        help="Engines, each with a pool of its own.",
    ),
    click.option(
        "--routing", type=click.Choice(ROUTINGS), help="How they share the requests.  [default: both ways]"
    ),
    click.option(
        "--seed",
        type=click.IntRange(0, MAX_SEED),
        default=0,
        show_default=True,
        help="Of random routing.",
    ),
)
"""All of them. They reach the command together, as `**planned` by name."""


def plan_settings(planned: dict[str, Any]) -> PlanSettings:
    """The settings that the options ask for.

    Args:
        planned: The options by their names.

    Raises:
        UsageError: An option that has no effect, or a value that cannot be right.
    """
    if planned["replicas"] == 1:
        refuse_if_given("routing", "is for several replicas: with --replicas")
        refuse_if_given("seed", "is for several replicas: with --replicas")
    if planned["routing"] == AFFINE:
        refuse_if_given("seed", "is for random routing")
    memory, reserve = planned.pop("gpu_memory"), planned.pop("reserve")
    return as_usage(
        lambda: PlanSettings(
            gpu_memory=parse_bytes("gpu_memory", memory),
            reserve=0 if reserve is None else parse_bytes("reserve", reserve, least=0),
            **planned,
        )
    )

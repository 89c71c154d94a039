"""`blockpool plan`: how much cache fits, and what it brings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

import blockpool
from blockpool.commands.html_report import html_option, html_report
from blockpool.commands.options import (
    block_size_option,
    check_hash_is_used,
    hash_option,
    json_option,
    not_empty,
    rules_option,
    skip_bad_option,
    sort_option,
    trace_argument,
    window_option,
)
from blockpool.commands.output import print_json, table_console
from blockpool.commands.plan_options import FLEET_OPTIONS, GPU_OPTIONS, plan_options, plan_settings
from blockpool.commands.progress import fraction_task, progress_bar
from blockpool.commands.sections import SectionedCommand
from blockpool.commands.usage import as_usage, refuse_if_given
from blockpool.replay.curves.policy_table import POLICIES
from blockpool.replay.plans.model_catalog import config_path, load_model_shape
from blockpool.replay.plans.plan import plan_capacity
from blockpool.replay.plans.plan_result import plan_as_dict
from blockpool.replay.plans.plan_tables import print_plan
from blockpool.replay.settings import DEFAULT_HASH, ReplaySettings

if TYPE_CHECKING:
    from blockpool.replay.html.page import Page


class _PlanCommand(SectionedCommand):
    sections = (
        ("The model and its GPUs", ("model", *GPU_OPTIONS)),
        ("The fleet", FLEET_OPTIONS),
        ("The trace", ("block_size", "rules", "window", "hash_algorithm", "skip_bad", "sort")),
        ("What is told", ("as_json", "html")),
    )


@click.command("plan", cls=_PlanCommand, short_help="Size the cache of a model.")
@trace_argument
@click.option(
    "--model",
    required=True,
    callback=not_empty,
    metavar="PATH|NAME",
    help="A config.json, its folder, or a well-known model.",
)
@plan_options
@block_size_option
@rules_option
@window_option
@hash_option
@skip_bad_option
@sort_option
@json_option
@html_option
def plan_command(
    trace: str,
    model: str,
    block_size: int | None,
    rules: str,
    window: str,
    hash_algorithm: str | None,
    skip_bad: bool,
    sort: bool,
    as_json: bool,
    html: str | None,
    **planned: Any,
) -> None:
    """Size the cache of a model: what fits into the memory, and what the trace makes of it.

    TRACE is as for replay. --model is the path of a Hugging Face config.json, or one of llama-3-8b,
    llama-3-70b, llama-3.1-405b, qwen2.5-72b, qwen3-8b, qwen3-32b, qwen3-235b-a22b, mistral-7b-v0.1,
    gpt-oss-120b, gemma-2-27b, gemma-3-27b, deepseek-v3, deepseek-r1, kimi-k2, jamba-v0.1, nemotron-h-8b,
    qwen3-next-80b-a3b.
    """
    settings = plan_settings(planned)
    replay = ReplaySettings(
        rules=rules,
        window=window,
        skip_bad=skip_bad,
        sort=sort,
        block_size=block_size,
        hash_algorithm=hash_algorithm or DEFAULT_HASH,
    )
    check_hash_is_used(trace, hash_algorithm, block_size=block_size, skip_bad=skip_bad)
    shape = load_model_shape(model)
    if not shape.has_constant_part:
        refuse_if_given("max_running", "is for windows and states of running requests; this model needs none")
    with html_report(html, trace, config_path(model)) as write:
        with progress_bar() as bar:
            progress = fraction_task(bar, "planning")
            plan = as_usage(
                lambda: plan_capacity(
                    trace,
                    shape,
                    settings,
                    replay,
                    policies=() if html is None else POLICIES,
                    progress=progress,
                ),
                fields=("sort",),
            )

        def page() -> Page:
            from blockpool.replay.html.plan_page import plan_page

            return plan_page(trace, plan)

        write(page)
    if as_json:
        print_json(plan_as_dict(trace, plan, version=blockpool.__version__, compiled=blockpool.COMPILED))
    else:
        print_plan(table_console(), trace, plan)

"""`blockpool replay --publish`: a trace as the traffic of a fleet of mock workers."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import click

import blockpool
from blockpool.commands.following import ending_when_terminated
from blockpool.commands.open_files import PER_PUBLISHER, allow_open_files
from blockpool.commands.options import (
    Number,
    all_of,
    check_hash_is_used,
    check_hash_was_used,
    check_interval,
    pool_sizes,
)
from blockpool.commands.output import print_json, table_console
from blockpool.commands.progress import fraction_task, progress_bar
from blockpool.commands.usage import as_usage, given, refuse_all_but
from blockpool.errors import printable
from blockpool.replay import ReplaySettings
from blockpool.replay.settings import DEFAULT_HASH, ENGINE_RULES
from blockpool.replay.sizes import parse_speed

if TYPE_CHECKING:
    from blockpool.events import SourceAddress
    from blockpool.events.fleet_settings import FleetSettings
    from blockpool.events.mock_fleet import WorkerResult

PUBLISH_OPTIONS = ("publish", "publish_replay", "workers", "routing", "publish_topic", "dialect", "linger")
_MEANINGFUL = (
    *PUBLISH_OPTIONS, "trace", "blocks", "memory", "bytes_per_block", "block_size", "hash_algorithm",
    "reuse_uncached_first", "skip_bad", "sort", "check", "check_every", "as_json", "speed", "rules",
)  # fmt: skip
_ROUTINGS = ("round-robin", "session")  # as blockpool.events has them, which needs its extra
_DIALECTS = ("array", "map")


publish_options = all_of(
    click.option(
        "--publish",
        metavar="ADDRESS",
        help="Publish the events of the pool there, such as tcp://127.0.0.1:5557; by engine rules, "
        "as fast as possible or at --speed.",
    ),
    click.option(
        "--publish-replay", metavar="ADDRESS", help="With --publish: answer there who missed something."
    ),
    click.option(
        "--workers",
        type=click.IntRange(1, 256),
        help="With --publish: so many pools, each with a publisher; ports rise by 1.  [default: 1]",
    ),
    click.option(
        "--routing",
        type=click.Choice(_ROUTINGS),
        help="With --publish: which worker gets a request.  [default: round-robin]",
    ),
    click.option(
        "--publish-topic",
        metavar="TOPIC",
        help="With --publish: of all messages; {rank} in it is the number of the worker.  [default: none]",
    ),
    click.option(
        "--dialect", type=click.Choice(_DIALECTS), help="With --publish: of events.  [default: array]"
    ),
    click.option(
        "--linger",
        type=Number(0),
        metavar="SECONDS",
        help="With --publish: stay so long after the last request, and answer.  [default: 0]",
    ),
)
"""The options of `--publish`; --speed is shared with --timed."""


def publish(trace: str, params: dict[str, Any]) -> None:
    """Plays a trace and publishes what becomes of the pools; prints what the workers did.

    Args:
        trace: As given.
        params: All options of the command.

    Raises:
        UsageError: For options that mean nothing here, or values that cannot be right.
    """
    _refuse_what_means_nothing()
    from blockpool.events.fleet_tables import fleet_as_dict, print_fleet
    from blockpool.events.mock_fleet import publish_trace

    _refuse_what_has_no_effect(params)
    sizes = as_usage(lambda: pool_sizes(params["blocks"], params["memory"], params["bytes_per_block"]))
    if len(sizes) > 1:
        raise click.UsageError("--publish plays one size of the pool")
    check_every = check_interval(params["check"], params["check_every"])
    settings = as_usage(
        lambda: ReplaySettings(
            rules=ENGINE_RULES,
            reuse_uncached_first=params["reuse_uncached_first"],
            check_every=check_every,
            skip_bad=params["skip_bad"],
            sort=params["sort"],
            block_size=params["block_size"],
            hash_algorithm=params["hash_algorithm"] or DEFAULT_HASH,
        )
    )
    fleet = as_usage(lambda: _fleet_settings(params))
    check_hash_is_used(
        trace, params["hash_algorithm"], block_size=params["block_size"], skip_bad=params["skip_bad"]
    )

    def finished(results: list[WorkerResult]) -> None:
        check_hash_was_used(params["hash_algorithm"], results[0].replay.trace_format)
        bar.stop()
        if params["as_json"]:
            report = fleet_as_dict(trace, settings, fleet, results, version=blockpool.__version__)
            print_json(report)
        else:
            print_fleet(table_console(), trace, fleet, results)
        sys.stdout.flush()
        _stay(params["linger"] or 0.0)

    allow_open_files(f"{fleet.workers} workers", PER_PUBLISHER * fleet.workers)
    with ending_when_terminated(), progress_bar() as bar:
        progress = fraction_task(bar, "publishing")
        as_usage(
            lambda: publish_trace(
                trace, sizes[0], settings, fleet, started=_say_where, finished=finished, progress=progress
            ),
            fields=("sort", "speed", "routing", "publish"),
        )


def _fleet_settings(params: dict[str, Any]) -> FleetSettings:
    from blockpool.events.fleet_settings import FleetSettings

    speed = params["speed"]
    return FleetSettings(
        publish=params["publish"],
        publish_replay=params["publish_replay"],
        workers=params["workers"] or 1,
        routing=params["routing"] or _ROUTINGS[0],
        speed=None if speed is None else parse_speed(speed),
        topic=params["publish_topic"] or "",
        dialect=params["dialect"] or _DIALECTS[0],
    )


def _refuse_what_means_nothing() -> None:
    refuse_all_but(_MEANINGFUL, "does not go with --publish")
    if given("rules") and click.get_current_context().params["rules"] != ENGINE_RULES:
        raise click.UsageError("--rules: --publish goes by engine rules, as only full blocks are published")


def _refuse_what_has_no_effect(params: dict[str, Any]) -> None:
    if params["routing"] is not None and (params["workers"] or 1) == 1:
        raise click.UsageError("--routing goes with --workers 2 or more")
    for name in ("publish", "publish_replay"):
        if (params[name] or "").startswith("inproc://"):
            option = name.replace("_", "-")
            raise click.UsageError(
                printable(f"--{option} {params[name]}: inproc ends at the edge of a process")
            )


def _say_where(addresses: list[SourceAddress]) -> None:
    for rank, address in enumerate(addresses):
        replay = "" if address.replay_endpoint is None else f", replay at {address.replay_endpoint}"
        click.echo(f"worker {rank} publishes at {address.endpoint}{replay}", err=True)
    sys.stderr.flush()


def _stay(seconds: float) -> None:
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        time.sleep(min(left, 3600.0))

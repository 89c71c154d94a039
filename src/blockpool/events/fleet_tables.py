"""What a fleet of mock workers did, as a table for people, which needs the package rich, and as data for JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from blockpool.errors import printable
from blockpool.events.fleet_settings import FleetSettings
from blockpool.events.mock_fleet import WorkerResult
from blockpool.replay.report import counts_as_dict
from blockpool.replay.settings import ReplaySettings
from blockpool.replay.tables import trimmed
from blockpool.replay.whole_tables import print_whole

FLEET_SCHEMA: Final = "blockpool.fleet/1"


def print_fleet(console: Console, trace: str, fleet: FleetSettings, results: Sequence[WorkerResult]) -> None:
    """Prints a row per worker."""
    first = results[0].replay
    pace = "as fast as possible" if fleet.speed is None else f"at {fleet.speed:g}x"
    many = f"{len(results)} workers, {fleet.routing}" if len(results) > 1 else "1 worker"
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("worker", no_wrap=True)
    for heading in ("requests", "refused", "hit tokens", "evictions", "cached", "batches", "dropped"):
        table.add_column(heading, justify="right", no_wrap=True)
    for result in results:
        counts = result.replay.counts
        table.add_row(
            Text(printable(result.address.endpoint)),
            f"{counts.requests:,}",
            f"{counts.refused:,}",
            f"{counts.token_hit_rate:.2%}",
            f"{counts.evictions:,}",
            f"{result.cached_blocks:,}",
            f"{result.publisher.num_batches:,}",
            f"{result.publisher.num_dropped:,}",
        )
    with trimmed(console):
        title = f"{trace}: {first.trace_format} trace, engine rules, published {pace}, {many}"
        console.print(title, soft_wrap=True, markup=False, highlight=False)
        print_whole(console, table)
        if first.bad_lines:
            console.print(f"{first.bad_lines:,} bad lines skipped", highlight=False)
        console.print(f"{first.blocks:,} blocks each; {first.seconds:,.1f} seconds", highlight=False)


def fleet_as_dict(
    trace: str,
    settings: ReplaySettings,
    fleet: FleetSettings,
    results: Sequence[WorkerResult],
    *,
    version: str,
) -> dict[str, Any]:
    """The same, and more, as plain data for `json.dumps`."""
    return {
        "schema": FLEET_SCHEMA,
        "version": version,
        "trace": trace,
        "settings": asdict(settings),
        "fleet": asdict(fleet),
        "workers": [
            {
                "rank": result.rank,
                "endpoint": result.address.endpoint,
                "replay_endpoint": result.address.replay_endpoint,
                "blocks": result.replay.blocks,
                "bad_lines": result.replay.bad_lines,
                "seconds": result.replay.seconds,
                **counts_as_dict(result.replay.counts),
                "cached_blocks": result.cached_blocks,
                "publisher": result.publisher._asdict(),
            }
            for result in results
        ],
    }

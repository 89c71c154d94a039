"""Timed results as plain data, for JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from blockpool.replay.report import counts_as_dict, pool_as_dict
from blockpool.replay.settings import ReplaySettings
from blockpool.replay.timed.timed_result import TimedResult
from blockpool.replay.timed.timed_settings import TimedSettings

TIMED_SCHEMA = "blockpool.replay-timed/1"


def timed_report_as_dict(
    trace: str,
    timed: TimedSettings,
    settings: ReplaySettings,
    results: Sequence[TimedResult],
    *,
    version: str,
    compiled: bool,
) -> dict[str, Any]:
    """The report as plain data for `json.dumps`; docs/timed.md lists every field.

    Args:
        trace: The trace as it was named.
        timed: What all results were made with.
        settings: What all results were made with.
        results: One per pool size.
        version: Of blockpool.
        compiled: Whether the core was the compiled one.
    """
    return {
        "schema": TIMED_SCHEMA,
        "version": version,
        "compiled": compiled,
        "trace": trace,
        "settings": asdict(settings),
        "timed": asdict(timed),
        "results": [_result_as_dict(result) for result in results],
    }


def _result_as_dict(result: TimedResult) -> dict[str, Any]:
    return pool_as_dict(
        result,
        points_apart={"interval_ms": result.occupancy_interval_ms},
        more={
            "sequential": counts_as_dict(result.sequential),
            **asdict(result.preemption),
            "queueing_seconds": result.queueing._asdict(),
            "first_token_seconds": result.first_token._asdict(),
            "running": {"mean": result.running_mean, "max": result.running_max},
            "makespan_seconds": result.makespan,
            "steps": result.steps,
        },
    )

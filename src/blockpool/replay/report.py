"""Results as plain data, for JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from blockpool.replay.misses.miss_dict import misses_as_dict
from blockpool.replay.residency import Residency
from blockpool.replay.result import PoolResult, ReplayResult, WindowCounts
from blockpool.replay.settings import ReplaySettings

REPORT_SCHEMA = "blockpool.replay/1"


def report_as_dict(
    trace: str, settings: ReplaySettings, results: Sequence[ReplayResult], *, version: str, compiled: bool
) -> dict[str, Any]:
    """The report as plain data for `json.dumps`; docs/replay.md lists every field.

    Args:
        trace: The trace as it was named.
        settings: What all results were made with.
        results: One per pool size.
        version: Of blockpool.
        compiled: Whether the core was the compiled one.
    """
    return {
        "schema": REPORT_SCHEMA,
        "version": version,
        "compiled": compiled,
        "trace": trace,
        "settings": asdict(settings),
        "results": [
            pool_as_dict(result, points_apart={"stride": result.occupancy_stride}) for result in results
        ],
    }


def counts_as_dict(counts: WindowCounts) -> dict[str, Any]:
    """Counts and the rates that follow from them."""
    return {
        "requests": counts.requests,
        "refused": counts.refused,
        "largest_refused_blocks": counts.largest_refused_blocks,
        "prompt_tokens": counts.prompt_tokens,
        "hit_tokens": counts.hit_tokens,
        "prompt_blocks": counts.prompt_blocks,
        "hit_blocks": counts.hit_blocks,
        "evictions": counts.evictions,
        "token_hit_rate": counts.token_hit_rate,
        "block_hit_rate": counts.block_hit_rate,
    }


def pool_as_dict(
    result: PoolResult, *, points_apart: dict[str, Any], more: dict[str, Any] | None = None
) -> dict[str, Any]:
    """What every replay says of one size of the pool.

    Args:
        result: Of any kind of replay.
        points_apart: How far the points of the occupancy stand apart, by the name of its unit.
        more: What only this kind of replay has; stands behind the counts.
    """
    means = result.occupancy_means
    return {
        "blocks": result.blocks,
        "trace_format": result.trace_format,
        "bad_lines": result.bad_lines,
        **counts_as_dict(result.counts),
        **(more or {}),
        "occupancy": {
            "mean": None if means is None else means._asdict(),
            **points_apart,
            "points": [point._asdict() for point in result.occupancy_points],
        },
        "residency": _residency_as_dict(result.residency),
        "misses": None if result.misses is None else misses_as_dict(result.misses),
        "played_requests": result.played_requests,
        "played_blocks": result.played_blocks,
        "seconds": result.seconds,
        "requests_per_second": result.requests_per_second,
        "blocks_per_second": result.blocks_per_second,
    }


def _residency_as_dict(residency: Residency) -> dict[str, Any]:
    return {
        "unit": residency.unit,
        "sample_rate": residency.sample_rate,
        "relative_error": residency.relative_error,
        "lifetime": residency.lifetime._asdict(),
        "idle": residency.idle._asdict(),
        "reuse_gap": residency.reuse_gap._asdict(),
        "recycled": residency.recycled,
    }

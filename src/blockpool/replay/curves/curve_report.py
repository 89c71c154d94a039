"""Curves as JSON and as CSV; documented in docs/curve.md."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from blockpool.replay.curves.curve_study import CurveRow, CurveStudy
from blockpool.replay.curves.sampled_hits import ErrorBound

CURVE_SCHEMA = "blockpool.curve/1"

CSV_HEADER = ("capacity", "hit_blocks", "block_hit_rate", "hit_tokens", "token_hit_rate")
ESTIMATED_CSV_HEADER = tuple(name if name == "capacity" else f"estimated_{name}" for name in CSV_HEADER)


def study_as_dict(study: CurveStudy, *, version: str, compiled: bool) -> dict[str, Any]:
    """What `blockpool curve --json` prints.

    Args:
        version: Of blockpool.
        compiled: Whether the core is the compiled one.
    """
    curve = study.curve
    return {
        "schema": CURVE_SCHEMA,
        "version": version,
        "compiled": compiled,
        "trace": study.trace,
        "settings": asdict(study.settings),
        "sample_one_in": study.one_in,
        "seed": study.seed,
        "policies": list(study.policies),
        "trace_format": curve.trace_format,
        "bad_lines": curve.bad_lines,
        "exact": curve.sampled is None,
        "requests": curve.requests,
        "prompt_tokens": curve.prompt_tokens,
        "prompt_blocks": curve.prompt_blocks,
        "largest_request_blocks": curve.largest_request_blocks,
        "knee": study.knee,
        "uncertain_places": curve.uncertain_places,
        "verified": list(study.verified),
        "chosen": [_row_as_dict(row) for row in study.rows],
        "curve": {
            "capacities": list(curve.capacities),
            "hit_blocks": list(curve.hit_blocks),
            "hit_tokens": list(curve.hit_tokens),
        },
        "seconds": curve.seconds,
    }


def csv_rows(study: CurveStudy) -> Iterator[tuple[object, ...]]:
    """What `blockpool curve --csv` prints: a header, then each capacity at which something changes.

    Estimates of a sample are called so, and have their bound only at the chosen capacities: to work it out at every
    step would take the square of their number.
    """
    curve = study.curve
    totals = max(1, curve.prompt_blocks), max(1, curve.prompt_tokens)
    sampled = curve.sampled
    if sampled is None:
        yield CSV_HEADER
    else:
        yield *ESTIMATED_CSV_HEADER, *ErrorBound._fields
    chosen = {row.point.capacity for row in study.rows} if sampled else set()
    for capacity in sorted({*curve.capacities, *chosen}):
        point = curve.at(capacity)
        row = (
            capacity,
            point.hit_blocks,
            f"{point.hit_blocks / totals[0]:.6f}",
            point.hit_tokens,
            f"{point.hit_tokens / totals[1]:.6f}",
        )
        if sampled is None:
            yield row
        else:
            yield *row, *(sampled.bound(capacity) if capacity in chosen else ("",) * len(ErrorBound._fields))


def _row_as_dict(row: CurveRow) -> dict[str, Any]:
    point = row.point
    return {
        **asdict(point),
        "token_hit_rate": point.token_hit_rate,
        "block_hit_rate": point.block_hit_rate,
        "notes": list(row.notes),
        "bound": None if row.bound is None else row.bound._asdict(),
        "policies": {
            other.policy: {"hit_blocks": other.hit_blocks, "hit_tokens": other.hit_tokens}
            for other in row.others
        },
    }

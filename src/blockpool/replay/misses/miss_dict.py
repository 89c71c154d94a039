"""A `MissReport` as plain data, for JSON; docs/explain.md lists every field."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from blockpool.replay.misses.miss_report import MissReport, ReasonMisses, TagMisses


def misses_as_dict(misses: MissReport) -> dict[str, Any]:
    """The report as plain data for `json.dumps`."""
    evicted = misses.evicted
    return {
        "missed_blocks": misses.missed_blocks,
        "missed_tokens": misses.missed_tokens,
        "reasons": _reasons(misses.reasons),
        "other_keys": [
            {"kinds": row.reason, "blocks": row.blocks, "tokens": row.tokens} for row in misses.other_keys
        ],
        "evicted": {
            "seconds_ago": None if evicted.seconds_ago is None else evicted.seconds_ago._asdict(),
            "requests_ago": evicted.requests_ago._asdict(),
            "blocks_too_few": evicted.blocks_too_few._asdict(),
        },
        "differs_at": misses.differs_at._asdict(),
        "differs_is_bound": misses.differs_is_bound,
        "tag": misses.tag,
        "num_tags": misses.num_tags,
        "tags": [_tag(row) for row in misses.tags],
        "other_tags": None if misses.other_tags is None else _tag(misses.other_tags),
        "cases": [{**case._asdict(), "reasons": _reasons(case.reasons)} for case in misses.cases],
    }


def _reasons(rows: Iterable[ReasonMisses]) -> list[dict[str, Any]]:
    return [row._asdict() for row in rows]


def _tag(row: TagMisses) -> dict[str, Any]:
    return {**row._asdict(), "reasons": _reasons(row.reasons)}

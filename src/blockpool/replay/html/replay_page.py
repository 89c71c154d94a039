"""The report of `blockpool replay`."""

from __future__ import annotations

from collections.abc import Sequence

from blockpool.replay.html.block_map_section import block_map_section
from blockpool.replay.html.miss_section import miss_section
from blockpool.replay.html.numbers import percent, whole
from blockpool.replay.html.occupancy_section import occupancy_section
from blockpool.replay.html.page import Fact, Page, Section, sections_of
from blockpool.replay.html.replay_words import (
    answer_of,
    meaning_of,
    replay_settings,
    requests_fact,
    tokens_fact,
)
from blockpool.replay.html.residency_section import residency_section
from blockpool.replay.html.sizes_section import sizes_section
from blockpool.replay.result import ReplayResult
from blockpool.replay.settings import ReplaySettings


def replay_page(
    trace: str,
    settings: ReplaySettings,
    results: Sequence[ReplayResult],
) -> Page:
    """A report over all sizes, with details of the first.

    Args:
        trace: As it was named.
        settings: What all results were made with.
        results: One per size, at least one; block map and histograms need `ReplayResult.pictures` of the first, miss
            reasons need `ReplayResult.misses`.
    """
    first = results[0]
    counts = first.counts
    facts = (
        tokens_fact(counts),
        Fact(
            "blocks found",
            percent(counts.block_hit_rate),
            f"{whole(counts.hit_blocks)} of {whole(counts.prompt_blocks)}",
        ),
        Fact("evictions", whole(counts.evictions), "blocks lost their content to make room"),
        requests_fact(counts),
    )
    sections = sections_of(
        _sizes_section(results),
        occupancy_section(first),
        None if first.pictures is None else block_map_section(first.pictures.block_map),
        miss_section(first.misses),
        residency_section(first.residency, None if first.pictures is None else first.pictures.histograms),
    )
    return Page(
        trace,
        answer_of(first.blocks, counts),
        meaning_of(counts),
        facts,
        sections,
        replay_settings(settings, first),
    )


def _sizes_section(results: Sequence[ReplayResult]) -> Section | None:
    rows = tuple(
        (
            whole(result.blocks),
            whole(result.counts.hit_tokens),
            percent(result.counts.token_hit_rate),
            whole(result.counts.hit_blocks),
            percent(result.counts.block_hit_rate),
            whole(result.counts.evictions),
            whole(result.counts.refused),
        )
        for result in results
    )
    headings = (
        "blocks",
        "hit tokens",
        "token hit rate",
        "hit blocks",
        "block hit rate",
        "evictions",
        "refused",
    )
    return sizes_section(results, "Hits by size", headings, rows)

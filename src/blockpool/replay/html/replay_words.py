"""What a report says of any replay, in words: the answer, what follows from it, and how it was made."""

from __future__ import annotations

from blockpool.replay.html.numbers import percent, whole
from blockpool.replay.html.page import Fact
from blockpool.replay.result import PoolResult, WindowCounts
from blockpool.replay.settings import WHOLE_TRACE, ReplaySettings


def answer_of(blocks: int, counts: WindowCounts) -> str:
    """The first sentence."""
    if not counts.prompt_tokens:
        return f"A pool of {whole(blocks)} blocks could not play a single request."
    return f"A pool of {whole(blocks)} blocks found {percent(counts.token_hit_rate)} of the prompt tokens."


def meaning_of(counts: WindowCounts) -> tuple[str, ...]:
    """What follows from it."""
    words = []
    if counts.prompt_tokens:
        missed = counts.prompt_tokens - counts.hit_tokens
        words.append(
            f"{whole(counts.hit_tokens)} prompt tokens did not have to be computed again, {whole(missed)} had to."
        )
        if counts.evictions:
            words.append("Blocks were evicted to make room: a larger pool may find more.")
        elif not counts.refused:
            words.append("Nothing was evicted: a larger pool would find no more.")
    if counts.refused:
        words.append(
            f"{whole(counts.refused)} requests were refused, for the pool is too small for them: the largest needs "
            f"{whole(counts.largest_refused_blocks)} blocks. Rates are over the others."
        )
    return tuple(words)


def tokens_fact(counts: WindowCounts) -> Fact:
    """How many tokens were found."""
    return Fact("tokens found", whole(counts.hit_tokens), f"of {whole(counts.prompt_tokens)} prompt tokens")


def requests_fact(counts: WindowCounts) -> Fact:
    """How many requests came, and were refused."""
    refused = f"{whole(counts.refused)} refused" if counts.refused else "none refused"
    return Fact("requests", whole(counts.requests), refused)


def replay_settings(
    settings: ReplaySettings, result: PoolResult, *, checked_per: str = "requests"
) -> tuple[Fact, ...]:
    """How a replay was made.

    Args:
        settings: Of it.
        result: Of it.
        checked_per: What `check_every` counts.
    """
    speed = f"{result.requests_per_second:,.0f} requests/s, {result.blocks_per_second:,.0f} blocks/s"
    return (
        *playing_settings(settings, result.trace_format, result.bad_lines),
        *(
            (Fact("invariants", f"checked every {whole(settings.check_every)} {checked_per}"),)
            if settings.check_every
            else ()
        ),
        Fact("speed of the replay", speed),
    )


def playing_settings(settings: ReplaySettings, trace_format: str | None, bad_lines: int) -> tuple[Fact, ...]:
    """How a trace was played, whatever for."""
    facts = [
        Fact("trace format", trace_format or "requests from Python"),
        Fact("rules", settings.rules),
        Fact(
            "measured", "all requests" if settings.window == WHOLE_TRACE else "the last half, after a warm-up"
        ),
    ]
    if not settings.is_full_attention:
        facts.insert(2, Fact("attention", settings.attention))
    if settings.reuse_uncached_first:
        facts.append(Fact("recycled first", "blocks that can never hit"))
    if bad_lines:
        facts.append(Fact("bad lines", f"{whole(bad_lines)} skipped"))
    return tuple(facts)

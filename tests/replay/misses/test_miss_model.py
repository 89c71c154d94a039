"""Every block's reason, age and distance against a model that searches all history; sums against the counts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockpool.core.extra_keys import MultiModalInput
from blockpool.replay import REASONS, MissReport, PoolRun, ReplaySettings
from blockpool.trace import TraceRequest

from ...shares import share
from ..curves.curve_traces import FOLLOW_NOTHING, id_traces, token_traces
from .miss_model import MissModel, Verdict


@st.composite
def image_traces(draw: Any) -> list[TraceRequest]:
    """Token traces, some of whose prompts hold images."""
    requests = draw(token_traces())[:20]
    for request in requests:
        images, end = [], 0
        for _ in range(draw(st.sampled_from([0, 0, 1, 2]))):
            start = end + draw(st.integers(0, 3))
            length = draw(st.integers(1, 3))
            end = start + length
            if end > request.prompt_tokens:
                break
            images.append(MultiModalInput(draw(st.sampled_from("pq")), start, length))
        request.images = images or None
    return requests


@st.composite
def unchained_traces(draw: Any) -> list[TraceRequest]:
    """Ids that follow now this id, now that."""
    chains = draw(
        st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=4, unique=True), min_size=1, max_size=15)
    )
    return [TraceRequest(None, 4 * len(ids), 4, block_ids=ids) for ids in chains]


KINDS = {
    "tokens": token_traces(),
    "images": image_traces(),
    "ids": id_traces(),
    "unchained": unchained_traces(),
}


@st.composite
def timed(draw: Any, traces: st.SearchStrategy[list[TraceRequest]]) -> list[TraceRequest]:
    requests = draw(traces)[:20]
    if draw(st.booleans()):
        times = draw(st.lists(st.integers(0, 5000), min_size=len(requests), max_size=len(requests)))
        for request, time_ms in zip(requests, sorted(times), strict=True):
            request.timestamp_ms = time_ms
    return requests


class Recorded:
    """A run that keeps what was said of each request."""

    def __init__(self, capacity: int, settings: ReplaySettings) -> None:
        self.run = PoolRun(capacity, settings)
        self.added: list[tuple[Any, ...]] = []
        assert self.run._misses is not None
        self.misses = self.run._misses

    def play(self, request: TraceRequest) -> tuple[list[Verdict], int | None]:
        add = self.misses._sums.add
        said: list[Any] = []
        self.misses._sums.add = lambda *arguments: (said.append(arguments), add(*arguments))  # type: ignore
        self.run.play(request)
        del self.misses._sums.add
        [(_, _, found, too_few)] = said
        evictions, distances = iter(found.evictions), iter(too_few or ())
        verdicts = []
        for run in found.runs:
            for _ in range(run.first, run.stop):
                if run.reason == "evicted":
                    eviction = next(evictions)
                    distance = next(distances) if too_few is not None else None
                    verdicts.append(Verdict("evicted", "", eviction.request, eviction.seconds, distance))
                elif run.reason == "no room":
                    verdicts.append(Verdict("no room", too_few=too_few[0]))
                else:
                    verdicts.append(Verdict(run.reason, run.kinds))
        assert next(evictions, None) is None
        return verdicts, found.differs_at


@pytest.mark.parametrize("rules", ["trace", "engine"])
@pytest.mark.parametrize("kind", KINDS)
@share(4)
@given(data=st.data())
def test_every_block_as_the_model_says(rules: str, kind: str, data: st.DataObject) -> None:
    requests = data.draw(timed(KINDS[kind]))
    reuse = data.draw(st.booleans())
    capacity = data.draw(st.integers(1, 12))
    settings = ReplaySettings(
        rules=rules, reuse_uncached_first=reuse, explain=True, sample_rate=FOLLOW_NOTHING
    )
    model = MissModel(capacity, rules, reuse_uncached_first=reuse)
    recorded = Recorded(capacity, settings)
    for request in requests:
        assert recorded.play(request) == model.play(request)


@pytest.mark.parametrize("rules", ["trace", "engine"])
@pytest.mark.parametrize("kind", KINDS)
@share(4)
@given(data=st.data())
def test_sums_are_the_misses_of_the_replay(rules: str, kind: str, data: st.DataObject) -> None:
    requests = data.draw(timed(KINDS[kind]))
    settings = ReplaySettings(
        rules=rules,
        reuse_uncached_first=data.draw(st.booleans()),
        explain=True,
        sample_rate=FOLLOW_NOTHING,
        tag=data.draw(st.sampled_from([None, "lora", "salt"])) if kind in ("tokens", "images") else None,
    )
    if settings.tag is not None:
        setattr(requests[0], settings.tag, "x")
    first_measured = data.draw(st.sampled_from([0, len(requests) // 2]))
    run = PoolRun(data.draw(st.integers(1, 20)), settings)
    plain = PoolRun(
        run._blocks,
        ReplaySettings(
            rules=rules, reuse_uncached_first=settings.reuse_uncached_first, sample_rate=FOLLOW_NOTHING
        ),
    )
    refused: list[TraceRequest] = []
    for number, request in enumerate(requests):
        if number == first_measured:
            run.restart_window()
            plain.restart_window()
            refused = []
        if run.play(request) is None:
            refused.append(request)
        plain.play(request)
    assert run.counts == plain.counts
    report = run.result(1.0).misses
    assert report is not None
    check_sums(report, run, refused)


def check_sums(report: MissReport, run: PoolRun, refused: list[TraceRequest]) -> None:
    counts = run.counts
    assert [row.reason for row in report.reasons] == list(REASONS)
    no_room = report.reasons[REASONS.index("no room")]
    assert no_room.blocks == sum(request.num_prompt_blocks for request in refused)
    assert no_room.tokens == sum(request.prompt_tokens for request in refused)
    assert report.missed_blocks == sum(row.blocks for row in report.reasons)
    assert report.missed_tokens == sum(row.tokens for row in report.reasons)
    assert report.missed_blocks - no_room.blocks == counts.prompt_blocks - counts.hit_blocks
    assert report.missed_tokens - no_room.tokens == counts.prompt_tokens - counts.hit_tokens
    other = report.reasons[REASONS.index("other key")]
    assert sum(row.blocks for row in report.other_keys) == other.blocks
    assert sum(row.tokens for row in report.other_keys) == other.tokens
    assert report.evicted.requests_ago.samples == report.reasons[REASONS.index("evicted")].blocks
    if report.tag is not None:
        rows = [*report.tags, *([report.other_tags] if report.other_tags else [])]
        assert sum(row.requests for row in rows) == counts.requests
        for place, reason in enumerate(report.reasons):
            assert sum(row.reasons[place].blocks for row in rows) == reason.blocks
            assert sum(row.reasons[place].tokens for row in rows) == reason.tokens
    for case in report.cases:
        assert case.missed_tokens == sum(row.tokens for row in case.reasons)
        assert case.missed_blocks == sum(row.blocks for row in case.reasons)

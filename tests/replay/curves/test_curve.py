"""The curve against the real pool: the same integers at every capacity, under both sets of rules."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockpool import ConfigError, TraceError
from blockpool.replay import ReplaySettings, curve
from blockpool.replay.curves.curve_pass import MainPass, feed
from blockpool.trace import TraceReader, TraceRequest

from ...shares import share
from ..test_golden import CONVERSATION
from .curve_traces import FOLLOW_NOTHING, any_traces, id_traces, replayed, token_traces


def by_ids(*chains: list[int], tokens: int | None = None) -> list[TraceRequest]:
    return [TraceRequest(None, tokens or 4 * len(ids), 4, block_ids=ids) for ids in chains]


@pytest.mark.parametrize("rules", ["trace", "engine"])
@pytest.mark.parametrize("kind", ["tokens", "ids"])
@share(2)
@given(data=st.data())
def test_equal_to_the_pool_at_every_capacity(rules: str, kind: str, data: st.DataObject) -> None:
    requests = data.draw(token_traces() if kind == "tokens" else id_traces())
    settings = ReplaySettings(
        rules=rules,
        window=data.draw(st.sampled_from(["all", "last-half"])),
        reuse_uncached_first=data.draw(st.booleans()),
        sample_rate=FOLLOW_NOTHING,
    )
    found = curve(requests, settings)
    # Above the last step nothing changes; two more show it.
    for capacity in range(found.largest_request_blocks, found.last_capacity + 3):
        assert found.at(capacity) == replayed(requests, capacity, settings)


@given(any_traces, st.sampled_from(["trace", "engine"]), st.booleans(), st.integers(1, 5))
def test_winning_back_places_changes_nothing(
    requests: list[TraceRequest], rules: str, reuse_uncached_first: bool, every: int
) -> None:
    settings = ReplaySettings(rules=rules, reuse_uncached_first=reuse_uncached_first)

    class Compacting(MainPass):
        played = 0

        def play(self, *arguments: object) -> int:
            self.played += 1
            if self.played % every == 0:
                self._pass._compact(1)
            return super().play(*arguments)  # type: ignore[arg-type]

    compacting = Compacting(settings)
    feed(requests, settings, 0, [compacting])
    found, expected = compacting.result(0.0), curve(requests, settings)
    assert list(found.capacities) == list(expected.capacities)
    assert list(found.hit_tokens) == list(expected.hit_tokens)
    assert list(found.hit_blocks) == list(expected.hit_blocks)


def test_pools_that_took_different_copies() -> None:
    """A last block may not hit and is indexed again; later, pools of different sizes find different copies of it."""
    settings = ReplaySettings(rules="engine", sample_rate=FOLLOW_NOTHING)
    requests = by_ids([1, 2], [3], [1, 2], [4], [1, 2, 5], [6], [7, 8], [1, 2, 9], [3, 10], [4, 11])
    found = curve(requests, settings)
    assert found.uncertain_places > 0
    for capacity in range(3, 30):
        assert found.at(capacity) == replayed(requests, capacity, settings)


def test_many_copies_of_one_block() -> None:
    settings = ReplaySettings(rules="engine", sample_rate=FOLLOW_NOTHING)
    chains: list[list[int]] = []
    for number in range(60):
        chains += [[1, 2], [100 + number], [1, 2, 200 + number] if number % 7 == 0 else [300 + number]]
    requests = by_ids(*chains)
    found = curve(requests, settings)
    for capacity in (*range(3, 40), 60, 90, 120, 150, 200):
        assert found.at(capacity) == replayed(requests, capacity, settings)


def test_places_are_won_back() -> None:
    """A long trace over few blocks needs no more room than a short one."""
    main = MainPass(ReplaySettings(rules="engine"))
    requests = by_ids(*[[number % 50, 1_000 + number % 50] for number in range(20_000)], tokens=7)
    feed(requests, ReplaySettings(rules="engine"), 0, [main])
    assert len(main._pass._recency._owner) < 5_000


# --- reading things off


def test_points_and_shares() -> None:
    found = curve(by_ids([1], [2], [3], [1], [2], [3], [4], [4]))
    assert list(zip(found.capacities, found.hit_blocks, found.hit_tokens, strict=True)) == [
        (1, 1, 4),
        (3, 4, 16),
    ]
    assert found.at(2).hit_blocks == 1
    assert found.at(1_000_000).token_hit_rate == 0.5
    assert (found.capacity_for_share(0.25), found.capacity_for_share(0.26), found.last_capacity) == (1, 3, 3)
    assert (found.distinct_keys, found.sampled) == (4, None)
    with pytest.raises(ConfigError, match="capacity"):
        found.at(0)


def test_the_knee_is_where_the_curve_bends() -> None:
    chains = [[number] for number in range(10)] * 20 + [[number] for number in range(100, 200)] * 2
    assert curve(by_ids(*chains)).knee() == 10


def test_a_trace_without_hits() -> None:
    found = curve(by_ids([1], [2, 3]))
    assert (list(found.capacities), list(found.hit_blocks)) == ([2], [0])
    assert (found.knee(), found.capacity_for_share(1.0)) == (2, 2)


# --- bad input


def test_an_id_behind_two_parents_is_refused() -> None:
    for chains in ([[1, 2], [3, 2]], [[1, 2], [2]], [[2], [1, 2]]):
        with pytest.raises(TraceError, match="follows another block") as caught:
            curve(by_ids(*chains))
        assert (caught.value.path, caught.value.line) == ("<requests>", 2)


def test_the_line_of_a_bad_chain_is_named(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    lines = ['{"hash_ids":[1,2],"input_length":600}', "", '{"hash_ids":[7,2],"input_length":600}']
    path.write_text("\n".join(lines), encoding="ascii")
    with pytest.raises(TraceError, match="block 2 of the prompt, 2, follows") as caught:
        curve(path)
    assert (caught.value.path, caught.value.line) == (str(path), 3)


def test_settings_that_cannot_be() -> None:
    with pytest.raises(ConfigError, match="sample"):
        curve(by_ids([1]), one_in=0)
    with pytest.raises(ConfigError, match="length"):
        curve(iter(by_ids([1])), ReplaySettings(window="last-half"))


# --- public traces


def test_conversation_trace(traces: Path) -> None:
    found = curve(traces / "mooncake_conversation.jsonl")
    assert {
        blocks: (found.at(blocks).hit_blocks, found.at(blocks).hit_tokens) for blocks in CONVERSATION
    } == (CONVERSATION)
    assert (found.requests, found.prompt_blocks, found.distinct_keys) == (12_031, 288_500, 182_790)
    assert (found.largest_request_blocks, found.trace_format) == (247, "mooncake")


def test_ragpulse_equals_the_published_results(traces: Path) -> None:
    published = json.loads((traces / "ragpulse_published_lru.json").read_text(encoding="utf-8"))
    expected = {int(blocks): hits for blocks, hits in published["lru_hit_tokens_by_capacity_blocks"].items()}
    found = curve(traces / "ragpulse_chained.jsonl", ReplaySettings(window="last-half"))
    assert len(expected) == 100
    assert {blocks: found.at(blocks).hit_tokens for blocks in expected} == expected
    assert found.prompt_tokens == published["measured_tokens"]


@pytest.mark.parametrize("reuse_uncached_first", [False, True])
def test_public_trace_under_engine_rules(traces: Path, reuse_uncached_first: bool) -> None:
    settings = ReplaySettings(
        rules="engine", reuse_uncached_first=reuse_uncached_first, sample_rate=FOLLOW_NOTHING
    )
    requests = list(TraceReader(traces / "ragpulse_chained.jsonl"))
    found = curve(requests, settings)
    for capacity in (found.largest_request_blocks, 300, 3_000, found.last_capacity):
        assert found.at(capacity) == replayed(requests, capacity, settings)

"""One small story per reason; what is summed, listed and refused."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace as changed
from typing import Any

import pytest

from blockpool import ArgumentError, ConfigError
from blockpool.core.extra_keys import MultiModalInput
from blockpool.replay import MissReport, ReplaySettings, replay
from blockpool.replay.misses.tags import shown_others, shown_tag
from blockpool.trace import TraceRequest
from blockpool.trace.tag_field import tag_text


def ids(*chain: int, **fields: Any) -> TraceRequest:
    return TraceRequest(None, 4 * len(chain), 4, block_ids=list(chain), **fields)


def text(*tokens: int, **fields: Any) -> TraceRequest:
    return TraceRequest(None, len(tokens), 4, token_ids=list(tokens), **fields)


def explained(requests: Iterable[TraceRequest], blocks: int = 100, **settings: Any) -> MissReport:
    report = replay(list(requests), blocks, ReplaySettings(explain=True, **settings)).misses
    assert report is not None
    return report


def of_last(requests: list[TraceRequest], blocks: int = 100, **settings: Any) -> tuple[dict[str, int], Any]:
    """Missed blocks of the last request by reason, and its case."""
    number = len(requests) - 1
    report = explained(requests, blocks, **settings)
    [case] = [case for case in report.cases if case.request == number]
    return {row.reason: row.blocks for row in case.reasons}, case


def test_without_explain_there_is_no_report() -> None:
    assert replay([ids(1)], 5).misses is None


def test_never_seen_and_differs_for_ids() -> None:
    first = ids(1, 2, 3)
    assert of_last([first])[0] == {"never seen": 3}
    reasons, case = of_last([first, ids(1, 4, 5)])
    assert (reasons, case.differs_at) == ({"differs": 2}, 4)
    assert of_last([first, ids(6, 7)])[0] == {"never seen": 2}, "nothing shared"
    assert of_last([first, ids(1, 2, 3, 4)])[0] == {"never seen": 1}, "what is known ends"


def test_differs_at_the_exact_token() -> None:
    known = [text(1, 2, 3, 4, 5, 6, 7, 8), text(1, 2, 3, 4, 9, 9, 9, 9)]
    reasons, case = of_last([*known, text(1, 2, 3, 4, 5, 6, 0, 8, 1, 1, 1, 1)])
    assert (reasons, case.differs_at) == ({"differs": 2}, 6), "the nearest of two continuations"
    reasons, case = of_last([*known, text(1, 2, 0, 4)])
    assert (reasons, case.differs_at) == ({"differs": 1}, 2), "within the first block"
    assert of_last([*known, text(0, 2, 3, 4)])[0] == {"never seen": 1}
    assert of_last([*known, text(*known[0].token_ids or (), 1)])[0] == {"never seen": 1}


def test_outputs_are_known_continuations_under_engine_rules() -> None:
    first = text(1, 2, 3, 4, output_token_ids=[5, 6, 7, 8, 9])
    reasons, case = of_last([first, text(1, 2, 3, 4, 5, 6, 0, 0, 1)], rules="engine")
    assert (reasons, case.differs_at) == ({"differs": 1, "partial block": 1}, 6)


def test_partial_blocks() -> None:
    assert of_last([text(1, 2), text(1, 2)], rules="engine")[0] == {"partial block": 1}
    # Under trace rules it has a key of its own, which is not that of the longer block.
    assert of_last([text(1, 2, 3, 4), text(1, 2, 3)])[0] == {"partial block": 1}
    # And what goes on where a partial block ended does not differ from it.
    assert of_last([text(1, 2, 3), text(1, 2, 3, 4)])[0] == {"never seen": 1}
    reasons, case = of_last([text(1, 2, 3), text(1, 2, 4, 4)])
    assert (reasons, case.differs_at) == ({"differs": 1}, 2)


def test_last_token_rule() -> None:
    reasons, case = of_last([text(1, 2, 3, 4), text(1, 2, 3, 4)], rules="engine")
    assert (reasons, case.blocks_too_few) == ({"last-token rule": 1}, None)
    # No pool finds it, whether this one has it or not: eviction is not what keeps it from hitting.
    assert of_last([text(1, 2, 3, 4), text(5, 5, 5, 5), text(1, 2, 3, 4)], 1, rules="engine")[0] == {
        "last-token rule": 1
    }


def test_evicted_blocks_hit_in_a_pool_that_is_larger_by_what_was_too_few() -> None:
    requests = [ids(1, 2), ids(3, 4, 5), ids(6), ids(1, 2)]
    report = explained(requests, 3)
    reasons, case = of_last(requests, 3)
    assert (reasons, case.blocks_too_few) == ({"evicted": 2}, 3)
    assert replay(requests, 3 + 3).counts.hit_blocks == 2
    assert replay(requests, 3 + 2).counts.hit_blocks == 1
    evicted = report.evicted
    assert (evicted.seconds_ago, evicted.requests_ago.samples, evicted.blocks_too_few.samples) == (None, 2, 2)


def test_how_long_ago() -> None:
    times = [0, 1000, 3000, 63_000]
    requests = [ids(1), ids(2), ids(3), ids(1)]
    for request, time_ms in zip(requests, times, strict=True):
        request.timestamp_ms = time_ms
    evicted = explained(requests, 1).evicted
    assert evicted.seconds_ago is not None
    assert evicted.seconds_ago.median == pytest.approx(62, rel=0.01), "since it made room for request 1"
    assert evicted.requests_ago.median == pytest.approx(2, rel=0.01)


@pytest.mark.parametrize(
    ("known", "asked", "kinds"),
    [
        ({}, {"lora": "a"}, "lora"),
        ({"lora": "a"}, {}, "lora"),
        ({"lora": "a"}, {"lora": "b"}, "lora"),
        ({"salt": "a"}, {"salt": "b"}, "salt"),
        ({"lora": "a", "salt": "a"}, {}, "lora + salt"),
        ({"images": [MultiModalInput("x", 1, 2)]}, {"images": [MultiModalInput("y", 1, 2)]}, "image"),
        ({"images": [MultiModalInput("x", 1, 2)]}, {}, "image"),
        ({"images": [MultiModalInput("x", 1, 2)], "salt": "s"}, {"lora": "l"}, "lora + salt + image"),
    ],
)
def test_other_keys(known: dict[str, Any], asked: dict[str, Any], kinds: str) -> None:
    tokens = range(8)
    report = explained([text(*tokens, **known), text(*tokens, 9, **asked)])
    assert [(row.reason, row.blocks, row.tokens) for row in report.other_keys] == [(kinds, 2, 8)]
    assert {row.reason: row.blocks for row in report.reasons if row.blocks} == {
        "never seen": 3,
        "other key": 2,
    }


@pytest.mark.parametrize(
    ("known", "asked", "kinds"),
    [
        (
            [("a", "a"), ("b", "c")],
            ("b", "a"),
            {"lora", "lora + salt"},
        ),  # of lora and salt, what was known first
        ([("a", "a"), ("b", "c")], ("d", "c"), {"lora", "lora + salt"}),
        ([("a", "a"), (None, None)], (None, "c"), {"salt", "lora + salt"}),
    ],
)
def test_of_several_other_keys_the_nearest_counts(
    known: list[tuple[str, str]], asked: tuple[str | None, str], kinds: set[str]
) -> None:
    requests = [text(1, 2, lora=lora, salt=salt) for lora, salt in [*known, asked]]
    assert {row.reason for row in explained(requests).other_keys} == kinds
    assert of_last(requests)[0] == {"other key": 1}


def test_an_image_that_begins_later_shares_what_stands_before_it() -> None:
    with_image = text(*range(12), images=[MultiModalInput("x", 6, 2)])
    reasons, case = of_last([text(*range(12)), with_image])
    assert (reasons, case.missed_tokens) == ({"other key": 2}, 8)


def test_no_room() -> None:
    report = explained([ids(1), ids(1, 2, 3, 4)], 2)
    [case, _] = report.cases
    assert {row.reason: row.blocks for row in case.reasons} == {"no room": 4}
    assert case.blocks_too_few == 2
    # It was not indexed, so nothing of it is known.
    assert of_last([ids(1, 2, 3), ids(1, 2)], 2)[0] == {"never seen": 2}


def test_ids_that_follow_different_ids() -> None:
    """The pool may have a block and not the one before it; from there on no distance can be told."""
    requests = [ids(1, 2), ids(3), ids(4, 2), ids(5), ids(6), ids(7), ids(3)]
    report = explained(requests, 4)
    assert {row.reason: row.blocks for row in report.reasons if row.blocks} == {
        "never seen": 7,
        "behind a miss": 1,
        "evicted": 1,
    }
    assert report.evicted.requests_ago.samples == 1
    assert report.evicted.blocks_too_few.samples == 0


def test_tags() -> None:
    requests = [ids(number, session_id=f"s{number}") for number in range(30)]
    requests += [ids(99, 98, session_id="s7"), ids(50)]
    report = explained(requests)
    assert (report.tag, report.num_tags, len(report.tags)) == ("session_id", 31, 20)
    first = report.tags[0]
    assert (first.tag, first.requests, first.prompt_tokens, first.missed_blocks) == ("s7", 2, 12, 3)
    assert report.other_tags is not None
    assert report.other_tags.requests == 11
    assert report.missed_tokens == sum(row.missed_tokens for row in (*report.tags, report.other_tags))
    assert explained([ids(1)]).tag is None, "no request has a session"


def test_tags_by_name() -> None:
    requests = [text(1, lora="a"), text(2, lora="b"), text(3)]
    assert [row.tag for row in explained(requests, tag="lora").tags] == ["a", "b", None]
    requests = [ids(1, tag="x"), ids(2, 3, tag="y")]
    assert [row.tag for row in explained(requests, tag="customer").tags] == ["y", "x"]
    with pytest.raises(ConfigError, match="tag='salt': no request of the trace has this field"):
        explained(requests, tag="salt")


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"tag": "lora"}, ConfigError, "goes with explain"),
        ({"explain": True, "tag": ""}, ConfigError, "the name is empty"),
        ({"explain": True, "tag": 5}, ArgumentError, "the name of a field"),
        ({"explain": 1}, ArgumentError, "True or False"),
    ],
)
def test_settings_are_checked(settings: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        ReplaySettings(**settings)


def test_the_ten_costliest_requests() -> None:
    requests = [ids(*range(100 * number, 100 * number + 1 + number % 15)) for number in range(40)]
    cases = explained(requests, 1000).cases
    assert [case.missed_blocks for case in cases] == [15, 15, 14, 14, 13, 13, 12, 12, 11, 11]
    assert [case.request for case in cases][:3] == [14, 29, 13], "of equals, the earlier one first"
    assert {case.line for case in cases} == {None}


def test_the_window_counts_and_the_warm_up_is_known() -> None:
    requests = [ids(1, 2), ids(3), ids(1, 4), ids(1, 2)]
    report = explained(requests, window="last-half")
    assert {row.reason: row.blocks for row in report.reasons if row.blocks} == {"differs": 1}
    assert [case.request for case in report.cases] == [2]


def test_a_request_that_is_changed_afterwards_does_no_harm() -> None:
    request = ids(1, 2)
    assert explained([request, changed(request)]).missed_blocks == 2


def test_session_ids_of_two_types_are_two_tags() -> None:
    requests = [ids(1, session_id=1), ids(2, session_id="1"), ids(3, session_id="a"), ids(4)]
    report = explained(requests)
    assert {row.tag for row in report.tags} == {"1", '"1"', "a", None}
    assert report.num_tags == 4


def test_tags_that_look_like_what_tables_add_themselves() -> None:
    tags = [None, "(none)", '"(none)"', "2 others", "1,234 others", "others", "(None)"]
    shown = [shown_tag(None if tag is None else tag_text(tag)) for tag in tags]
    assert shown[:2] == ["(none)", '"(none)"']
    assert shown[3:] == ['"2 others"', '"1,234 others"', "others", "(None)"]
    assert len(set(shown)) == len(tags)
    assert shown_others(1_234) == "1,234 others"

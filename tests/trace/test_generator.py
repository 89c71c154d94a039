"""Workloads: the same on every machine, and really what they are said to be."""

from __future__ import annotations

import hashlib
import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockpool import ConfigError
from blockpool.trace import WORKLOAD_KINDS, TraceRequest, generate
from blockpool.trace.draws import VOCABULARY, Draws
from blockpool.trace.workloads import MAX_PROMPT_TOKENS

# Digests of what the generator made when it was written: a change of them changes everybody's workloads.
DIGESTS = {
    "chat": "9efae01b3055c64a",
    "agent": "ee7a81968814c612",
    "documents": "5230a111759b9540",
    "mix": "e39c45f71f49a4cb",
}


def sessions(kind: str, num_requests: int = 400, seed: int = 3) -> dict[str, list[TraceRequest]]:
    found: dict[str, list[TraceRequest]] = {}
    for request in generate(kind, num_requests, seed=seed):
        assert request.session_id is not None
        found.setdefault(request.session_id, []).append(request)
    return found


def tokens(request: TraceRequest) -> list[int]:
    assert request.token_ids is not None
    return request.token_ids


def output(request: TraceRequest) -> list[int]:
    assert request.output_token_ids is not None
    return request.output_token_ids


@pytest.mark.parametrize("kind", WORKLOAD_KINDS)
def test_the_same_everywhere(kind: str) -> None:
    digest = hashlib.sha256()
    for request in generate(kind, 50, seed=7):
        digest.update(
            repr((request.timestamp_ms, request.session_id, tokens(request), output(request))).encode()
        )
    assert digest.hexdigest()[:16] == DIGESTS[kind]


@pytest.mark.parametrize("kind", WORKLOAD_KINDS)
def test_equal_seeds_and_prefixes(kind: str) -> None:
    short = list(generate(kind, 40, seed=5))
    random.seed(99)
    assert list(generate(kind, 80, seed=5))[:40] == short
    assert list(generate(kind, 40, seed=6)) != short


@pytest.mark.parametrize("kind", WORKLOAD_KINDS)
def test_every_request_is_sound(kind: str) -> None:
    requests = list(generate(kind, 300, seed=1, block_size=32))
    assert len(requests) == 300
    times = [request.timestamp_ms for request in requests]
    assert times == sorted(times, key=lambda time: time or 0)
    for request in requests:
        assert request.prompt_tokens == len(tokens(request)) > 0
        assert request.output_tokens == len(output(request)) > 0
        assert request.prompt_tokens <= MAX_PROMPT_TOKENS + 4_000
        assert request.block_size == 32
        assert all(0 <= token < VOCABULARY for token in tokens(request) + output(request))


@pytest.mark.parametrize("kind", ["chat", "agent"])
def test_each_prompt_extends_the_one_before_and_its_output(kind: str) -> None:
    longest = 0
    for requests in sessions(kind).values():
        longest = max(longest, len(requests))
        for before, after in itertools.pairwise(requests):
            earlier = tokens(before) + output(before)
            assert tokens(after)[: len(earlier)] == earlier
            assert len(tokens(after)) > len(earlier)
    assert longest >= 5


def test_chats_share_system_prompts() -> None:
    beginnings = [tuple(tokens(requests[0])[:64]) for requests in sessions("chat").values()]
    assert len(beginnings) > 40
    assert 2 <= len(set(beginnings)) <= 12


def test_agents_share_preambles() -> None:
    beginnings = [tuple(tokens(requests[0])[:512]) for requests in sessions("agent").values()]
    assert len(beginnings) > 20
    assert 2 <= len(set(beginnings)) <= 4


def test_questions_share_documents_and_some_documents_more() -> None:
    asked: dict[tuple[int, ...], int] = {}
    for requests in sessions("documents").values():
        for request in requests:
            beginning = tuple(tokens(request)[:320])
            asked[beginning] = asked.get(beginning, 0) + 1
    assert 20 < len(asked) <= 60
    assert max(asked.values()) > 5 * sorted(asked.values())[len(asked) // 2]


def test_a_mix_has_all_three_interleaved() -> None:
    names = [str(request.session_id) for request in generate("mix", 400, seed=3)]
    assert {name.split("-")[0] for name in names} == {"chat", "agent", "documents"}
    switches = sum(before != after for before, after in itertools.pairwise(names))
    assert switches > 200


@pytest.mark.parametrize(
    ("kind", "num_requests", "options"),
    [
        ("poetry", 1, {}),
        ("chat", 0, {}),
        ("chat", -1, {}),
        ("chat", 1, {"seed": -1}),
        ("chat", 1, {"seed": 2**63}),
        ("chat", 1, {"block_size": 0}),
    ],
)
def test_bad_arguments_are_refused_by_the_call(kind: str, num_requests: int, options: dict[str, int]) -> None:
    with pytest.raises(ConfigError):
        generate(kind, num_requests, **options)


def test_exponential_draws() -> None:
    draws = Draws(0, 0)
    numbers = [draws.exponential() for _ in range(20_000)]
    assert 0.97 < sum(numbers) / len(numbers) < 1.03
    above_two = sum(number > 2 for number in numbers) / len(numbers)
    assert 0.125 < above_two < 0.146, "e^-2 = 0.135"


def test_popular_draws() -> None:
    draws = Draws(0, 0)
    counts = [0] * 5
    for _ in range(20_000):
        counts[draws.popular(5)] += 1
    assert counts == sorted(counts, reverse=True)
    assert 1.8 < counts[0] / counts[1] < 2.2


@given(st.integers(0, 2**63 - 1), st.integers(0, 2**64 - 1), st.integers(0, 50))
def test_draws_stay_in_range(seed: int, stream: int, count: int) -> None:
    draws = Draws(seed, stream)
    assert 0 <= draws.below(count + 1) <= count
    assert 3 <= draws.length(30 + count, 3, 40) <= 40
    assert 0 <= draws.popular(count + 1) <= count
    drawn = draws.tokens(count)
    assert len(drawn) == count
    assert all(0 <= token < VOCABULARY for token in drawn)

"""Routers: equal seeds, prefixes that stay together, and loads that stay even."""

from __future__ import annotations

from collections import Counter

import pytest

from blockpool import ConfigError
from blockpool.replay.keys import KeyMaker
from blockpool.replay.plans.routing import LOAD_FACTOR, ROUTINGS, Router, make_router
from blockpool.replay.rules import plan_request
from blockpool.trace import TraceRequest, generate


def request(*ids: int) -> TraceRequest:
    return TraceRequest(None, 16 * len(ids), 16, block_ids=list(ids))


def send(router: Router, requests: list[TraceRequest], rules: str = "trace") -> list[int]:
    key_maker = KeyMaker("blake2b_raw")
    return [router.route(plan_request(one, rules, key_maker), one.prompt_tokens) for one in requests]


def ways(routing: str, replicas: int, requests: list[TraceRequest], seed: int = 0) -> list[int]:
    return send(make_router(routing, replicas, seed=seed), requests)


@pytest.mark.parametrize("routing", ROUTINGS)
def test_repeats(routing: str) -> None:
    requests = list(generate("mix", 200, seed=3))
    first = ways(routing, 4, requests)
    assert first == ways(routing, 4, requests)
    assert set(first) == {0, 1, 2, 3}


def test_seeds() -> None:
    requests = [request(1)] * 50
    assert ways("random", 4, requests, seed=1) != ways("random", 4, requests, seed=2)


@pytest.mark.parametrize("routing", ROUTINGS)
def test_one_replica_gets_all(routing: str) -> None:
    assert ways(routing, 1, [request(1), request(2)]) == [0, 0]


def test_a_prefix_goes_where_it_went() -> None:
    requests = [request(1, 2), request(3), request(1, 2, 4), request(3, 5), request(3, 6), request(1, 7)]
    assert ways("affine", 2, requests) == [0, 1, 0, 1, 1, 0]


def test_the_longest_run_counts() -> None:
    router = make_router("affine", 3, seed=0)
    assert send(router, [request(1), request(2), request(3)]) == [0, 1, 2]
    # Replica 0 has least to do, but the others know more of these.
    later = [request(*ids) for ids in ((2, 4, 5), (2, 4, 6), (2, 7), (3, 8), (1, 9))]
    assert send(router, later) == [1, 1, 1, 2, 0]


def test_a_new_prompt_goes_to_who_has_least() -> None:
    requests = [request(*ids) for ids in ((1, 2, 3), (4, 5), (6,), (7,), (8,))]
    assert ways("affine", 3, requests) == [0, 1, 2, 2, 1]


def test_outputs_are_remembered_but_not_foreseen() -> None:
    def one(prompt: list[int], output: list[int]) -> TraceRequest:
        return TraceRequest(None, len(prompt), 16, token_ids=prompt, output_token_ids=output)

    first, second, answer = list(range(40)), list(range(100, 140)), list(range(200, 240))
    requests = [one(first, answer), one(second, []), one(first + answer + [1], []), one(second, answer)]
    assert send(make_router("affine", 2, seed=0), requests, "engine") == [0, 1, 0, 1]


def test_a_prefix_that_all_share_is_spread_in_the_end() -> None:
    requests = [request(0, number) for number in range(1, 3000)]
    loads = Counter(ways("affine", 4, requests))
    assert max(loads.values()) <= LOAD_FACTOR * len(requests) / 4


def test_adapters_are_prefixes_of_their_own() -> None:
    def with_lora(lora: str | None) -> TraceRequest:
        return TraceRequest(None, 16, 16, token_ids=list(range(16)), lora=lora)

    requests = [with_lora(None), with_lora("a"), with_lora(None), with_lora("a")]
    assert ways("affine", 2, requests) == [0, 1, 0, 1]


@pytest.mark.parametrize(
    ("routing", "replicas", "words"),
    [
        ("fair", 2, "routing='fair': must be one of random, affine"),
        ("random", 0, "replicas=0: must be 1"),
        ("affine", 5000, "replicas=5000: must be 1"),
    ],
)
def test_nonsense(routing: str, replicas: int, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        make_router(routing, replicas, seed=0)

"""`TokenRequest`: its hashes are those of its tokens, however they come."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockpool import ArgumentError, BlockHasher, ConfigError, MultiModalInput, block_extra_keys
from blockpool.kv_cache import TokenRequest

HASHER = BlockHasher("blake2b_raw", 4, "seed")


@given(tokens=st.lists(st.integers(0, 2**32 - 1), max_size=40), cuts=st.sets(st.integers(0, 40), max_size=6))
def test_grown_as_hashed_at_once(tokens: list[int], cuts: set[int]) -> None:
    lora = SimpleNamespace(adapter_id=1, name="sql")
    images = [MultiModalInput("image", 3, 7)]
    bounds = [0, *sorted(cut for cut in cuts if cut <= len(tokens)), len(tokens)]
    request = TokenRequest(
        "a", tokens[: bounds[1]], HASHER, lora_request=lora, mm_inputs=images, cache_salt="salt"
    )
    for start, end in pairwise(bounds[1:]):
        request.append_output_token_ids(tokens[start:end])
    keys = block_extra_keys(len(tokens) // 4, 4, lora_name="sql", mm_inputs=images, cache_salt="salt")
    assert request.block_hashes == HASHER.hash_tokens(tokens, extra_keys=keys)
    assert request.all_token_ids == tokens
    assert request.num_tokens == len(tokens)


def test_without_a_hasher_there_are_no_hashes() -> None:
    request = TokenRequest("a", range(9))
    request.append_output_token_ids(3)
    assert (request.num_tokens, request.block_hashes) == (10, [])


def test_preempted() -> None:
    request = TokenRequest("a", range(9), HASHER)
    request.num_computed_tokens = 9
    request.preempt()
    assert (request.num_computed_tokens, request.num_preemptions) == (0, 1)
    assert repr(request) == "TokenRequest('a', num_tokens=9, num_computed_tokens=0)"


@pytest.mark.parametrize(
    ("arguments", "options", "error"),
    [
        ((1, [1]), {}, ArgumentError),
        (("a", 1.5), {}, ArgumentError),
        (("a", "text"), {}, ArgumentError),
        (("a", ["x"]), {}, ArgumentError),
        (("a", [-1] * 4), {}, ConfigError),
        (("a", [-1], None), {}, ConfigError),
        (("a", [2**32], None), {}, ConfigError),
        (("a", [1], "sha256"), {}, ArgumentError),
        (("a", [1]), {"lora_request": "sql"}, ArgumentError),
        (("a", [1]), {"lora_request": SimpleNamespace(name=3)}, ArgumentError),
        (("a", [1] * 4), {"cache_salt": ""}, ConfigError),
        (("a", [1]), {"skip_reading_prefix_cache": 1}, ArgumentError),
        (("a", [1, ("b",)]), {}, ArgumentError),
        (("a", [1]), {"mm_inputs": 3}, ArgumentError),
        (("a", [1]), {"mm_inputs": [("image", 0)]}, ArgumentError),
        (("a", [1]), {"mm_inputs": [("image", -1, 2)]}, ConfigError),
        (("a", [1], None), {"mm_inputs": [("image", 0)]}, ArgumentError),
        (("a", [1], None), {"cache_salt": 3}, ArgumentError),
        (("a", [1], None), {"cache_salt": ""}, ConfigError),
    ],
)
def test_refused(arguments: Any, options: Any, error: type[ConfigError]) -> None:
    given_hasher = arguments if len(arguments) == 3 else (*arguments, HASHER)
    with pytest.raises(error) as caught:
        TokenRequest(*given_hasher, **options)
    assert type(caught.value) is error


class Integer:
    """What stands for an integer, as NumPy's numbers do."""

    def __index__(self) -> int:
        return 3

    def __int__(self) -> int:
        return 3


@pytest.mark.parametrize("hasher", [None, HASHER])
def test_a_token_that_stands_for_an_integer(hasher: BlockHasher | None) -> None:
    token: Any = Integer()
    request = TokenRequest("a", [token], hasher)
    request.append_output_token_ids(token)
    assert request.all_token_ids == [3, 3]
    assert all(type(each) is int for each in request.all_token_ids)


def test_inputs_are_taken_once() -> None:
    image = ("image", 2, 9)
    listed = TokenRequest("a", range(4), HASHER, mm_inputs=[image])
    iterated: Any = iter([image])
    request = TokenRequest("b", range(4), HASHER, mm_inputs=iterated)
    for each in (listed, request):
        each.append_output_token_ids(range(4, 12))
    assert request.block_hashes == listed.block_hashes


def test_bad_tokens_change_nothing() -> None:
    request = TokenRequest("a", range(3), HASHER)
    with pytest.raises(ConfigError):
        request.append_output_token_ids(-1)
    assert (request.all_token_ids, request.block_hashes) == ([0, 1, 2], [])

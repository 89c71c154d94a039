"""How many blocks a request holds at most: never more, and really so many; so much must a pool have."""

from __future__ import annotations

import random
from typing import Any

import pytest

from blockpool import ArgumentError, ConfigError
from blockpool.kv_cache import (
    KVCacheConfig,
    KVCacheGroupSpec,
    KVCacheManager,
    KVCacheSpec,
    max_blocks_per_request,
)

from .support import chunked, cross, full, make_manager, make_request, mamba, mla, sink, window

LENGTH = 60


def config(*specs: KVCacheSpec) -> KVCacheConfig:
    return KVCacheConfig(1000, [KVCacheGroupSpec([], spec) for spec in specs])


def most_held(manager: KVCacheManager, most: int, lookahead: int, seed: int) -> int:
    """The most blocks at once of a request that is alone, in steps of at most so many tokens."""
    source = random.Random(seed)
    request = make_request("r", range(LENGTH), None)
    held = 0
    while request.num_computed_tokens < LENGTH:
        step = min(source.choice([most, source.randint(1, most)]), LENGTH - request.num_computed_tokens)
        assert manager.allocate_slots(request, step, num_lookahead_tokens=lookahead) is not None
        request.num_computed_tokens += step
        held = max(held, sum(len(ids) - ids.count(0) for ids in manager.get_block_ids("r")))
    manager.free(request)
    return held


@pytest.mark.parametrize("lookahead", [0, 3])
@pytest.mark.parametrize("step", [1, 3, 4, 9, 200])
@pytest.mark.parametrize(
    "specs",
    [
        [full(4)],
        [mla(3)],
        [sink(4, 8)],
        [window(4, 1)],
        [window(4, 9)],
        [window(3, 10)],
        [chunked(4, 8)],
        [chunked(4, 6)],
        [mamba(4, "all", 2)],
        [mamba(4, "align")],
        [mamba(4, "align", 2)],
    ],
)
def test_a_request_holds_so_many_and_never_more(specs: list[KVCacheSpec], step: int, lookahead: int) -> None:
    """A pool that has just so many is enough, whatever the steps are; and some steps need them all."""
    bound = max_blocks_per_request(config(*specs), LENGTH, step, num_lookahead_tokens=lookahead)
    manager = make_manager(*specs, num_blocks=1000, enable_caching=False, self_check=False)
    num_sinks = 1000 - 1 - manager.num_usable_blocks
    manager = make_manager(
        *specs, num_blocks=1 + num_sinks + bound, enable_caching=False, max_model_len=LENGTH + lookahead
    )
    assert manager.num_usable_blocks == bound
    assert manager.max_blocks_per_request(LENGTH, step, lookahead) == bound
    assert max(most_held(manager, step, lookahead, seed) for seed in range(40)) == bound


@pytest.mark.parametrize(
    ("specs", "more", "expected"),
    [
        ([full(16)], {}, 64),
        ([full(16)], {"context_parallel_size": 4}, 16),
        ([full(16)], {"max_model_len": 512}, 32),
        ([full(16)], {"num_lookahead_tokens": 1}, 65),
        ([full(16), cross(16)], {"num_encoder_tokens": 100}, 64 + 7),
        ([full(16), window(16, 128)], {}, 64 + 17),  # 127 + 128 tokens lie in up to 17 blocks
        ([full(16), full(32), chunked(16, 256)], {}, 64 + 32 + 24),
        ([], {}, 0),
    ],
)
def test_groups_add_up(specs: list[KVCacheSpec], more: dict[str, Any], expected: int) -> None:
    assert max_blocks_per_request(config(*specs), 1024, 128, **more) == expected


def test_ranks_and_longest_request_are_the_managers() -> None:
    manager = make_manager(full(4), dcp_world_size=2, max_model_len=64, hash_block_size=8)
    assert manager.max_blocks_per_request(1000, 16) == 8


@pytest.mark.parametrize(
    ("arguments", "more", "error"),
    [
        ((0, 1), {}, ConfigError),
        ((1, 0), {}, ConfigError),
        ((1, 1), {"num_lookahead_tokens": -1}, ConfigError),
        ((1, 1), {"num_encoder_tokens": -1}, ConfigError),
        ((1, 1), {"max_model_len": 0}, ConfigError),
        ((1, 1), {"context_parallel_size": 0}, ConfigError),
        (("1", 1), {}, ArgumentError),
        ((1, 1.0), {}, ArgumentError),
    ],
)
def test_wrong_numbers(arguments: Any, more: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        max_blocks_per_request(config(full(4)), *arguments, **more)


def test_wrong_configuration() -> None:
    nothing: Any = None
    with pytest.raises(ArgumentError):
        max_blocks_per_request(nothing, 1, 1)

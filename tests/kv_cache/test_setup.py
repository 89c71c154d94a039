"""What the constructor tells: sizes that do not fit, groups that cannot hit, prompts that are too short to."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from blockpool import ArgumentError, ConfigError
from blockpool.kv_cache import KVCacheConfig, KVCacheManager, KVCacheSpec

from .support import admit, chunked, cross, full, make_manager, make_request, mamba, run_once, sink, window


@pytest.mark.parametrize(
    ("specs", "options", "field"),
    [
        ([full(16)], {"hash_block_size": 12}, "block_size"),
        ([full(16), window(24, 9)], {"hash_block_size": 16}, "block_size"),
        ([full(16)], {"hash_block_size": 0}, "hash_block_size"),
        ([full(16)], {"max_model_len": 0}, "max_model_len"),
        ([full(16), cross(16)], {}, "enable_caching"),
        ([sink(4, 40)], {"num_blocks": 10}, "num_blocks"),
        ([sink(4, 36)], {"num_blocks": 10}, "num_blocks"),
        ([sink(4, 8), sink(4, 28)], {"num_blocks": 10}, "num_blocks"),
        ([full(16), full(16)], {"dcp_world_size": 2}, "dcp_world_size"),
        ([window(16, 9)], {"pcp_world_size": 2}, "dcp_world_size"),
        ([full(16)], {"dcp_world_size": 0}, "dcp_world_size"),
    ],
)
def test_refused(specs: list[KVCacheSpec], options: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make_manager(*specs, **options)
    assert type(caught.value) is ConfigError
    assert caught.value.field == field


def test_no_groups_only_without_caching() -> None:
    with pytest.raises(ConfigError):
        KVCacheManager(KVCacheConfig(10, []), 100, 16)
    manager = KVCacheManager(KVCacheConfig(10, []), 100, 16, enable_caching=False)
    request = make_request("a", range(10), None)
    assert admit(manager, request) is manager.empty_kv_cache_blocks
    assert manager.get_block_ids("a") == ()
    manager.free(request)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ((object(), 10, 1), "kv_cache_config"),
        ((KVCacheConfig(10, []), "10", 1), "max_model_len"),
        ((KVCacheConfig(10, []), 10, 1, 1), "enable_caching"),
        ((KVCacheConfig(10, []), 10, 1, True, None), "use_eagle"),
        ((KVCacheConfig(10, []), 10, 1, True, False, 0), "log_stats"),
    ],
)
def test_wrong_types(arguments: Any, field: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        KVCacheManager(*arguments)
    assert caught.value.field == field


def test_a_spec_without_a_manager() -> None:
    with pytest.raises(ConfigError, match="no manager"):
        make_manager(KVCacheSpec(4))


@pytest.mark.parametrize(
    ("specs", "eagle", "shortest"),
    [
        ([full(16), window(16, 9)], False, None),
        ([full(16), window(32, 9)], False, 33),
        ([full(48), window(64, 9)], False, 193),
        ([full(48), window(64, 9)], True, 257),
        ([full(16), mamba(64)], True, 81),
    ],
)
def test_prompts_too_short_to_hit_are_told_of(
    specs: list[KVCacheSpec], eagle: bool, shortest: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "blockpool"):
        manager = make_manager(*specs, hash_block_size=16, use_eagle=eagle, num_blocks=200)
    if shortest is None:
        assert not caplog.records
        return
    assert [f"less than {shortest} tokens" in record.getMessage() for record in caplog.records] == [True]
    tokens = range(300)
    run_once(manager, tokens)
    assert manager.get_computed_blocks(make_request("a", tokens[: shortest - 1], manager))[1] == 0
    assert manager.get_computed_blocks(make_request("b", tokens[:shortest], manager))[1] > 0


@pytest.mark.parametrize(
    ("specs", "options", "shortest"),
    [
        ([full(16)], {}, 17),
        ([full(16)], {"use_eagle": True}, 33),
        ([mamba(16)], {"use_eagle": True}, 33),
        ([full(48), window(64, 9)], {"hash_block_size": 16}, 193),
    ],
)
def test_a_model_too_short_to_hit_is_told_of_and_works(
    specs: list[KVCacheSpec], options: dict[str, Any], shortest: int, caplog: pytest.LogCaptureFixture
) -> None:
    """The length of a model is often an option of whoever runs it: nothing to stop an engine for."""
    with caplog.at_level(logging.WARNING, "blockpool"):
        make_manager(*specs, max_model_len=shortest, **options)
        assert "nothing can hit" not in caplog.text
        manager = make_manager(*specs, max_model_len=shortest - 1, **options)
    message = f"nothing can hit: a prompt must have {shortest} tokens to, and max_model_len is {shortest - 1}"
    assert message in caplog.text
    longest = range(shortest - 1)
    run_once(manager, longest)
    assert manager.get_computed_blocks(make_request("again", longest, manager))[1] == 0


def test_states_that_nobody_keeps_are_told_of(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "blockpool"):
        make_manager(mamba(16, "none"), enable_caching=False)
        assert not caplog.records
        make_manager(mamba(16, "none"))
    assert "mamba_cache_mode" in caplog.text


def test_without_caching_sizes_need_not_fit_and_nothing_is_found() -> None:
    manager = make_manager(
        full(16), window(24, 9), cross(5), hash_block_size=7, enable_caching=False, max_model_len=16
    )
    run_once(manager, range(16))
    request = make_request("a", range(16), None)
    assert manager.get_computed_blocks(request) == (manager.empty_kv_cache_blocks, 0)
    manager.cache_blocks(request, 16)
    assert manager.get_num_common_prefix_blocks("a") == [0, 0, 0]


def test_context_parallel_blocks_are_larger() -> None:
    """Two ranks each keep half of a block's tokens: a block of 4 covers 8 tokens."""
    manager = make_manager(full(4), dcp_world_size=2, hash_block_size=8)
    run_once(manager, range(17))
    request = make_request("a", range(20), manager)
    assert manager.get_computed_blocks(request)[0].get_block_ids() == ([1, 2],)
    assert admit(manager, request).get_block_ids() == ([4],)


def test_chunks_and_everything_else_with_eagle() -> None:
    manager = make_manager(full(4), chunked(4, 8), use_eagle=True)
    run_once(manager, range(30))
    assert manager.get_computed_blocks(make_request("a", range(30), manager))[1] == 24

"""The engine's own part: what it takes, what it refuses, and how the pieces stand together."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("numpy", reason="the extra demo is not installed")

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from blockpool.demo.engine import Engine, EngineSettings
from blockpool.demo.kv_groups import blocks_of_longest_request, make_kv_cache_config
from blockpool.demo.model_config import HYBRID_ATTENTION, ModelConfig
from blockpool.errors import ArgumentError, ConfigError
from blockpool.kv_cache import FullAttentionSpec, SlidingWindowSpec

from .engine_support import Prompt, serve, small_config


def make_engine(hybrid: bool = False) -> Engine:
    return Engine(small_config(hybrid), EngineSettings(40, 4, 16, 4))


def test_the_manager_is_told_of_a_group_per_window() -> None:
    config = make_kv_cache_config(ModelConfig(windows=HYBRID_ATTENTION), 33, 8)
    full, window = config.kv_cache_groups
    assert config.num_blocks == 33
    assert (full.layer_names, window.layer_names) == (("layers.0", "layers.2"), ("layers.1", "layers.3"))
    assert isinstance(full.kv_cache_spec, FullAttentionSpec)
    assert isinstance(window.kv_cache_spec, SlidingWindowSpec)
    assert window.kv_cache_spec.sliding_window == 24
    assert full.kv_cache_spec.page_size_bytes == window.kv_cache_spec.page_size_bytes == 8 * 2 * 2 * 8 * 4


def test_groups_share_the_tensors_in_blocks_of_their_own() -> None:
    engine = make_engine(hybrid=True)
    engine.add_request("r", list(range(10)), 3)
    engine.step()
    assert engine.cache.keys.shape[0] == 1, "two groups of one layer need one tensor"
    full, window = engine.manager.get_block_ids("r")
    assert set(full).isdisjoint(window)
    written = ~np.isnan(engine.cache.keys[0]).any(axis=(2, 3))
    assert written[full].sum() == 10
    assert written.sum() == 20


def test_a_step_without_requests_does_nothing() -> None:
    engine = make_engine()
    result = engine.step()
    assert (result.num_tokens, result.finished, engine.has_unfinished_requests) == (0, [], False)


def test_what_a_step_tells() -> None:
    engine = make_engine()
    request = engine.add_request("r", list(range(20)), 2)
    first = engine.step()
    assert (first.num_tokens, first.stats.queries, first.stats.hits) == (16, 20, 0)
    engine.run()
    assert engine.num_computed_tokens == 21
    assert len(request.output_token_ids) == len(request.logits) == 2
    again = engine.add_request("s", list(range(20)), 1)
    result = engine.step()
    assert (result.finished, result.stats.hits, result.num_tokens) == ([again], 16, 4)


def test_what_is_poisoned_is_what_was_handed_out() -> None:
    engine = make_engine()
    engine.add_request("r", list(range(6)), 1)
    engine.step()
    (block,) = (block for block in engine.manager.block_pool.blocks if block.block_hash is not None)
    assert not np.isnan(engine.cache.keys[:, block.block_id]).any(), "what is cached stays"
    for number in range(12):
        engine.add_request(f"r{number}", [31 - number] * 13, 1)
    engine.run()
    assert all(block.ref_cnt == 0 for block in engine.manager.block_pool.blocks[1:])
    half = [block for block in engine.manager.block_pool.blocks[1:] if block.block_hash is None]
    for block in half:
        assert np.isnan(engine.cache.keys[:, block.block_id, 1:]).all(), "slots that nobody wrote"


@settings(max_examples=15)
@given(
    hybrid=st.booleans(),
    block_size=st.integers(1, 5),
    budget=st.integers(1, 12),
    length=st.integers(6, 30),
    data=st.data(),
)
def test_the_smallest_pool_holds_the_longest_request(
    hybrid: bool, block_size: int, budget: int, length: int, data: st.DataObject
) -> None:
    config = small_config(hybrid, max_model_len=length)
    size = EngineSettings(blocks_of_longest_request(config, block_size, budget), block_size, budget, 1)
    max_tokens = data.draw(st.integers(1, length - 1))
    outcome = serve(config, size, [Prompt(list(range(length - max_tokens)), max_tokens)])
    assert outcome.num_preemptions == 0
    assert outcome.num_computed == length - 1


@pytest.mark.parametrize(
    ("request_id", "prompt", "max_tokens", "field"),
    [
        ("old", [1], 1, "request_id"),
        ("new", [], 1, "prompt_token_ids"),
        ("new", [32], 1, "prompt_token_ids"),
        ("new", [-1], 1, "prompt_token_ids"),
        ("new", [1], 0, "max_tokens"),
        ("new", [1] * 40, 9, "max_tokens"),
    ],
)
def test_bad_requests_change_nothing(request_id: str, prompt: list[int], max_tokens: int, field: str) -> None:
    engine = make_engine()
    engine.add_request("old", [1, 2], 1)
    with pytest.raises(ConfigError) as caught:
        engine.add_request(request_id, prompt, max_tokens)
    assert caught.value.field == field
    assert len(engine.scheduler.waiting) == 1
    engine.run()
    assert engine.num_computed_tokens == 2


@pytest.mark.parametrize("request_id", [None, 3, ["r"]])
def test_an_id_is_a_string(request_id: Any) -> None:
    engine = make_engine()
    with pytest.raises(ArgumentError) as caught:
        engine.add_request(request_id, [1], 1)
    assert caught.value.field == "request_id"
    assert not engine.has_unfinished_requests


def test_an_engine_of_something_else() -> None:
    config, settings = small_config(hybrid=False), EngineSettings(12, 4, 16, 4)
    for arguments, field in (
        ((None, settings), "config"),
        ((config, 3), "settings"),
        ((config, settings, 3), ""),
    ):
        with pytest.raises(ArgumentError) as caught:
            Engine(*arguments)  # type: ignore[arg-type]
        assert caught.value.field == (field or "metrics_collector")


def test_wrong_types() -> None:
    with pytest.raises(ArgumentError):
        make_engine().add_request("r", "words", 1)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError):
        EngineSettings(num_blocks=1.5)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError):
        EngineSettings(enable_caching="yes")  # type: ignore[arg-type]
    with pytest.raises(ConfigError):
        EngineSettings(block_size=0)


def test_a_pool_too_small_for_one_request_is_refused() -> None:
    with pytest.raises(ConfigError, match="one request of 48 tokens needs 12 blocks"):
        Engine(small_config(hybrid=False), EngineSettings(11, 4, 16, 4))

"""The pool of a model with windows as vLLM makes it, for a replay of it."""

from __future__ import annotations

import pytest

from blockpool.replay import PlanSettings, ReplaySettings, load_model_shape, plan_capacity, replay
from blockpool.replay.plans.model_memory import model_memory
from blockpool.replay.plans.model_shape import AttentionLayers, ModelShape
from blockpool.replay.plans.shared_pool import SharedPool, shared_pool

MEMORY = 24 * 2**30
RESERVE = 20 * 2**30


def pool_of(shape: ModelShape, **settings: int) -> SharedPool | None:
    plan = PlanSettings(gpu_memory=MEMORY, reserve=RESERVE, **settings)
    memory = model_memory(shape, block_size=16, tensor_parallel=plan.tensor_parallel)
    return shared_pool(shape, memory, plan)


@pytest.mark.parametrize(
    ("model", "attention", "layers", "bytes_per_token"),
    [
        ("gpt-oss-120b", "hybrid:full+sliding:128", 18, 2 * 8 * 64 * 2),
        ("gemma-2-27b", "hybrid:full+sliding:4096", 23, 2 * 16 * 128 * 2),
        ("gemma-3-27b", "hybrid:full+6*sliding:1024", 10, 2 * 16 * 128 * 2),  # 10 and 52 layers
        ("mistral-7b-v0.1", "sliding:4096", 32, 2 * 8 * 128 * 2),
    ],
)
def test_well_known_models(model: str, attention: str, layers: int, bytes_per_token: int) -> None:
    per_block = 16 * layers * bytes_per_token
    expected = SharedPool(attention, (MEMORY - RESERVE) // per_block, per_block)
    assert pool_of(load_model_shape(model)) == expected


@pytest.mark.parametrize("model", ["qwen3-8b", "deepseek-v3", "jamba-v0.1", "qwen3-next-80b-a3b"])
def test_models_without_one(model: str) -> None:
    assert pool_of(load_model_shape(model)) is None


def test_kinds_of_almost_equal_number_make_two_groups() -> None:
    layers = [AttentionLayers(count, 8, 128, window) for count, window in ((10, None), (12, 512), (11, 256))]
    shape = ModelShape(
        name="a", dtype="bf16", query_heads=32, full=(layers[0],), sliding=(layers[1], layers[2])
    )
    pool = pool_of(shape, tensor_parallel=4)
    assert pool is not None
    assert pool.attention == "hybrid:full+sliding:512+sliding:256"
    assert pool.bytes_per_block == 16 * 12 * 2 * 2 * 128 * 2


def test_the_plan_names_a_replay_that_can_be_made() -> None:
    plan = plan_capacity(
        "demo", load_model_shape("gpt-oss-120b"), PlanSettings(gpu_memory=MEMORY, reserve=23 * 2**30)
    )
    pool = plan.shared_pool
    assert pool is not None
    counts = replay("demo", pool.blocks, ReplaySettings(rules="engine", attention=pool.attention)).counts
    planned = plan.fleets[0].point("planned").hit_tokens
    assert planned is not None
    assert 0 < counts.hit_tokens < planned

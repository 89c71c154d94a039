"""The Python API with arguments that cannot be right: a typed error that names the argument, before any work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from blockpool import ArgumentError, BlockPoolError, ConfigError, TraceError
from blockpool.replay import (
    PlanSettings,
    ReplaySettings,
    curve,
    load_model_shape,
    plan_capacity,
    replay,
    replay_many,
    study,
)
from blockpool.trace import TraceReader, generate, write_trace

any_replay: Any = replay
any_many: Any = replay_many
any_curve: Any = curve
any_study: Any = study
any_plan: Any = plan_capacity
any_settings: Any = ReplaySettings
any_plan_settings: Any = PlanSettings
any_generate: Any = generate
any_reader: Any = TraceReader
any_write: Any = write_trace
any_load: Any = load_model_shape


def gpu(**changes: Any) -> Any:
    return any_plan_settings(**{"gpu_memory": 2**36, **changes})


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda: any_replay("demo", "5"), "blocks"),
        (lambda: any_replay("demo", 5.0), "blocks"),
        (lambda: any_replay(None, 5), "trace"),
        (lambda: any_replay(5, 10), "trace"),
        (lambda: any_replay(b"demo", 10), "trace"),
        (lambda: any_replay([1], 10), "trace"),
        (lambda: any_replay("demo", 10, "engine"), "settings"),
        (lambda: any_settings(check_every="1"), "check_every"),
        (lambda: any_settings(sample_rate="x"), "sample_rate"),
        (lambda: any_settings(block_size="16"), "block_size"),
        (lambda: any_settings(rules=5), "rules"),
        (lambda: any_settings(skip_bad="no"), "skip_bad"),
        (lambda: any_settings(sort="no"), "sort"),
        (lambda: any_settings(reuse_uncached_first=1), "reuse_uncached_first"),
        (lambda: any_many("demo", ["8"]), "blocks"),
        (lambda: any_many("demo", "8"), "sizes"),
        (lambda: any_many("demo", 8), "sizes"),
        (lambda: any_many([], [8]), "trace"),
        (lambda: any_many("demo", [8], jobs="2"), "jobs"),
        (lambda: any_generate("chat", "5"), "num_requests"),
        (lambda: any_generate(5, 5), "kind"),
        (lambda: any_generate("chat", 5, seed="0"), "seed"),
        (lambda: any_generate("chat", 5, block_size="16"), "block_size"),
        (lambda: any_reader("demo", block_size="5"), "block_size"),
        (lambda: any_reader(5), "trace"),
        (lambda: any_write([], None, 5, block_size=16), "trace_format"),
        (lambda: any_write([], None, "mooncake", block_size="16"), "block_size"),
        (lambda: any_curve(5), "trace"),
        (lambda: any_curve([1]), "trace"),
        (lambda: any_curve("demo", one_in="2"), "sample"),
        (lambda: any_curve("demo", seed="2"), "seed"),
        (lambda: any_study(None), "trace"),
        (lambda: any_study("demo", blocks=["5"]), "blocks"),
        (lambda: any_study("demo", blocks=5), "blocks"),
        (lambda: any_study("demo", policies="lru"), "policies"),
        (lambda: any_study("demo", verify="1"), "verify"),
        (lambda: any_study("demo", one_in="1"), "sample"),
        (lambda: any_study("demo", jobs="1"), "jobs"),
        (lambda: gpu(gpu_memory="80GiB"), "gpu_memory"),
        (lambda: gpu(kv_dtype=8), "kv_dtype"),
        (lambda: gpu(replicas="2"), "replicas"),
        (lambda: gpu(routing=2), "routing"),
        (lambda: gpu(prefill_rate="fast"), "prefill_rate"),
        (lambda: gpu(seed="0"), "seed"),
        (lambda: any_load(5), "model"),
        (lambda: any_plan("demo", "llama-3-8b", gpu()), "shape"),
        (lambda: any_plan("demo", load_model_shape("llama-3-8b"), 5), "settings"),
        (lambda: any_plan(5, load_model_shape("llama-3-8b"), gpu()), "trace"),
    ],
)
def test_wrong_types(call: Callable[[], object], field: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        call()
    assert caught.value.field == field


@pytest.mark.parametrize("jobs", [0, -3])
def test_jobs_must_be_at_least_one(jobs: int) -> None:
    with pytest.raises(ConfigError, match=f"jobs={jobs}: must be at least 1"):
        replay_many("demo", [8], jobs=jobs)


@pytest.mark.parametrize(
    "call",
    [
        lambda: replay([], 10),
        lambda: curve([]),
        lambda: plan_capacity([], load_model_shape("llama-3-8b"), gpu()),
    ],
)
def test_no_requests_are_an_error_as_an_empty_file_is(call: Callable[[], object]) -> None:
    with pytest.raises(TraceError, match="<requests>: no requests"):
        call()


@pytest.mark.parametrize("call", [lambda: replay("", 10), lambda: TraceReader(""), lambda: study("")])
def test_an_empty_name(call: Callable[[], object]) -> None:
    with pytest.raises(BlockPoolError, match="the name is empty"):
        call()

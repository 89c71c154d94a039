"""The Python API with arguments that cannot be right: a typed error that names the argument, before any work."""

from __future__ import annotations

import math
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
    replay_timed,
    replay_timed_many,
    study,
)
from blockpool.trace import TraceReader, TraceRequest, generate, write_trace

any_replay: Any = replay
any_many: Any = replay_many
any_timed: Any = replay_timed
any_timed_many: Any = replay_timed_many
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


def tokens(**fields: Any) -> TraceRequest:
    made: Any = {"timestamp_ms": 0, "prompt_tokens": 2, "block_size": 4, "token_ids": [1, 2], **fields}
    return TraceRequest(**made)


def ids(**fields: Any) -> TraceRequest:
    made: Any = {"timestamp_ms": 0, "prompt_tokens": 6, "block_size": 4, "block_ids": [1, 2], **fields}
    return TraceRequest(**made)


BAD_REQUESTS = [
    (tokens(timestamp_ms=math.nan), "timestamp_ms=nan: must be 0"),
    (tokens(timestamp_ms=math.inf), "timestamp_ms=inf: must be 0"),
    (tokens(timestamp_ms=-5), "timestamp_ms=-5: must be 0"),
    (tokens(timestamp_ms=10**400), "timestamp_ms=1000"),
    (tokens(timestamp_ms=10**5_000), "timestamp_ms=<int>: must be 0"),
    (tokens(timestamp_ms="5"), "timestamp_ms='5': a number"),
    (tokens(timestamp_ms=True), "timestamp_ms=True: a number"),
    (tokens(prompt_tokens=0, token_ids=[]), "prompt_tokens=0: must be 1"),
    (tokens(prompt_tokens=3), "prompt_tokens=3: but there are 2 token_ids"),
    (tokens(prompt_tokens=2.0), "prompt_tokens=2.0: an integer"),
    (tokens(block_size=0), "block_size=0: must be 1"),
    (tokens(block_size=None), "block_size=None: is needed"),
    (tokens(token_ids=[1, -1]), "token_ids=-1: each must be 0"),
    (tokens(token_ids=[1, 2**32]), f"token_ids={2**32}: each must be 0"),
    (tokens(token_ids=[1, "2"]), "token_ids='2': integers"),
    (tokens(token_ids=(1, 2)), r"token_ids=\(1, 2\): a list"),
    (tokens(token_ids=None), "token_ids=None: either these or block_ids"),
    (tokens(block_ids=[1]), "block_ids=.1.: not beside token_ids"),
    (tokens(output_token_ids=[2**32]), f"output_token_ids={2**32}: each"),
    (tokens(output_tokens=-4), "output_tokens=-4: must be 0"),
    (tokens(lora=5), "lora=5: text"),
    (tokens(salt=""), "salt='': must not be empty"),
    (tokens(tag=["a"]), "tag=.'a'.: text"),
    (tokens(images=[("a", 0, 3)]), "images=3: must be 1 … 2"),
    (tokens(images=[("a", 0, 2), ("b", 1, 1)]), "images=1: must be 2 … 1"),
    (tokens(images=[5]), "images=5: a MultiModalInput"),
    (ids(block_ids=[]), "block_ids=..: at least one"),
    (ids(block_ids=[1, 2**64]), f"block_ids={2**64}: each must be"),
    (ids(block_ids=[1]), "prompt_tokens=6: does not make 1 blocks of 4 tokens"),
    (ids(block_size=None), "block_size=None: either this or block_tokens"),
    (ids(block_tokens=[6]), "block_tokens=.6.: one is needed for each of 2"),
    (ids(block_tokens=[3, 4]), "prompt_tokens=6: but block_tokens sum to 7"),
    (ids(block_tokens=[1, 5]), "block_tokens=.1, 5.: one is above the block_size of 4"),
    (ids(salt="a"), "salt='a': goes with token_ids only"),
]


@pytest.mark.parametrize(("request_", "words"), BAD_REQUESTS)
@pytest.mark.parametrize(
    "play",
    [
        lambda requests: replay(requests, 10),
        lambda requests: replay(requests, 10, ReplaySettings(sort=True)),
        lambda requests: replay_timed(requests, 10),
        curve,
        lambda requests: plan_capacity(requests, load_model_shape("llama-3-8b"), gpu()),
    ],
)
def test_requests_that_cannot_be_right(
    play: Callable[[list[TraceRequest]], object], request_: TraceRequest, words: str
) -> None:
    good = ids() if request_.token_ids is None else tokens()
    with pytest.raises(TraceError, match=words) as caught:
        play([good, request_])
    assert (caught.value.path, caught.value.line) == ("<requests>", 2)


@pytest.mark.parametrize("wrong", [0, "", {}, False])
@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda wrong: any_replay("demo", 10, wrong), "settings"),
        (lambda wrong: any_many("demo", [10], wrong), "settings"),
        (lambda wrong: any_curve("demo", wrong), "settings"),
        (lambda wrong: any_study("demo", wrong), "settings"),
        (lambda wrong: any_plan("demo", load_model_shape("llama-3-8b"), gpu(), wrong), "replay"),
        (lambda wrong: any_timed("demo", 10, wrong), "timed"),
        (lambda wrong: any_timed("demo", 10, None, wrong), "settings"),
        (lambda wrong: any_timed_many("demo", [10], wrong), "timed"),
    ],
)
def test_only_none_stands_for_defaults(call: Callable[[object], object], field: str, wrong: object) -> None:
    with pytest.raises(ArgumentError) as caught:
        call(wrong)
    assert caught.value.field == field


@pytest.mark.parametrize("call", [replay, replay_timed])
def test_true_is_no_number_of_blocks(call: Any) -> None:
    with pytest.raises(ArgumentError, match="blocks=True"):
        call("demo", True)


def test_times_that_go_back_name_the_setting_that_helps() -> None:
    with pytest.raises(TraceError, match=r"; sort=True plays by time$"):
        replay([tokens(timestamp_ms=5), tokens(timestamp_ms=4)], 10)

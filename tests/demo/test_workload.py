"""Prompts of the demo: drawn once and for all, with beginnings in common, and played when they are due."""

from __future__ import annotations

import pytest

pytest.importorskip("numpy", reason="the extra demo is not installed")


from blockpool.demo.comparison import Run, run_prompts, same_bits
from blockpool.demo.engine import Engine, EngineSettings, StepResult
from blockpool.demo.frame import Frame
from blockpool.demo.model_config import ModelConfig
from blockpool.demo.story import Story
from blockpool.demo.workload import (
    MAX_OUTPUT_TOKENS,
    MAX_PROMPT_TOKENS,
    DemoPrompt,
    make_workload,
    play,
)
from blockpool.errors import ConfigError

from .engine_support import small_config


def test_equal_seeds_give_equal_prompts() -> None:
    assert make_workload(30, 5, 256) == make_workload(30, 5, 256)
    assert make_workload(30, 5, 256) != make_workload(30, 6, 256)
    assert make_workload(30, 5, 256)[:10] == make_workload(10, 5, 256)


def test_prompts_are_within_their_bounds_and_begin_alike() -> None:
    prompts = make_workload(200, 1, 256)
    assert [prompt.request_id for prompt in prompts[:2]] == ["a0", "b1"]
    assert prompts[26].request_id == "a26"
    assert prompts == sorted(prompts, key=lambda prompt: prompt.step)
    for prompt in prompts:
        assert 44 <= len(prompt.token_ids) <= MAX_PROMPT_TOKENS
        assert 6 <= prompt.max_tokens <= MAX_OUTPUT_TOKENS
        assert all(0 <= token < 256 for token in prompt.token_ids)
    assert len({tuple(prompt.token_ids[:40]) for prompt in prompts}) == 3
    follow_ups = sum(
        any(prompt.token_ids[: len(other.token_ids)] == other.token_ids for other in prompts[:number])
        for number, prompt in enumerate(prompts)
    )
    assert 40 <= follow_ups <= 80


def test_bad_numbers() -> None:
    with pytest.raises(ConfigError):
        make_workload(0, 0, 256)
    with pytest.raises(ConfigError):
        make_workload(1, -1, 256)
    with pytest.raises(ConfigError):
        make_workload(1, 0, 0)


def small_prompts() -> list[DemoPrompt]:
    return [
        DemoPrompt(0, "a0", list(range(20)), 3),
        DemoPrompt(9, "b1", list(range(25)), 2),
        DemoPrompt(9, "c2", list(range(5, 15)), 4),
    ]


def test_requests_come_when_they_are_due_even_if_the_engine_idles_until_then() -> None:
    engine = Engine(small_config(hybrid=False), EngineSettings(40, 4, 16, 4))
    steps: list[StepResult] = []

    def on_step(number: int, result: StepResult) -> None:
        assert number == len(steps)
        steps.append(result)

    requests = play(engine, small_prompts(), on_step)
    assert [request.request_id for request in requests] == ["a0", "b1", "c2"]
    assert all(request.is_finished for request in requests)
    assert [step.num_tokens for step in steps[:10]] == [16, 4, 1, 1, 0, 0, 0, 0, 0, 5 + 10]


def run(*, caching: bool, seed: int = 0) -> Run:
    config = ModelConfig((None, 6), vocab_size=32, hidden_size=16, max_model_len=48, seed=seed)
    return run_prompts(config, EngineSettings(40, 4, 16, 4, enable_caching=caching), small_prompts())


def test_a_run_is_summed_up() -> None:
    done = run(caching=True)
    assert (done.story.found, done.story.computed, done.story.finished) == (20, 20 + 2 + 5 + 1 + 10 + 3, 3)
    assert done.steps == 13
    assert 0 < done.peak_blocks <= 40
    assert run(caching=False).story.found == 0


def test_runs_are_compared_to_the_last_bit() -> None:
    assert same_bits(run(caching=True), run(caching=False))
    assert not same_bits(run(caching=True), run(caching=True, seed=1))
    changed = run(caching=True)
    logits = changed.requests[1].logits[0]
    logits[3] += logits[3] * 2.0**-23
    assert not same_bits(run(caching=True), changed)


def test_frames_are_shown_as_they_come() -> None:
    frames: list[Frame] = []
    config = small_config(hybrid=False)

    def on_frame(frame: Frame, story: Story) -> None:
        frames.append(frame)
        assert story.computed == sum(each.num_tokens for each in frames)

    run_prompts(config, EngineSettings(40, 4, 16, 4), small_prompts(), on_frame)
    assert [frame.step for frame in frames] == list(range(len(frames)))
    assert all(sum(frame.occupancy) == len(frame.cells) == 40 for frame in frames)

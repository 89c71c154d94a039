"""The same prompts with and without prefix caching: what it saves, and that it changes nothing."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from blockpool.demo.engine import Engine, EngineSettings, StepResult
from blockpool.demo.frame import Frame, take_frame
from blockpool.demo.model_config import ModelConfig
from blockpool.demo.request import EngineRequest
from blockpool.demo.story import Story
from blockpool.demo.watcher import BlockWatcher
from blockpool.demo.workload import DemoPrompt, play


@dataclasses.dataclass(frozen=True, slots=True)
class Run:
    """One run of all prompts.

    Attributes:
        requests: With their outputs and logits.
        steps: Of the engine.
        story: Its totals.
        peak_blocks: Most blocks that were in use at a time.
    """

    requests: list[EngineRequest]
    steps: int
    story: Story
    peak_blocks: int


def run_prompts(
    config: ModelConfig,
    settings: EngineSettings,
    prompts: Sequence[DemoPrompt],
    on_frame: Callable[[Frame, Story], None] = lambda frame, story: None,
) -> Run:
    """Runs prompts on a fresh engine.

    Args:
        config: The model.
        settings: How it is run.
        prompts: In the order of their arrival.
        on_frame: Called after each step with what there is to see, and the totals so far.

    Raises:
        ConfigError: If the pool is too small, or a prompt too long.
    """
    watcher = BlockWatcher()
    engine = Engine(config, settings, watcher)
    story = Story()
    in_use: list[int] = []

    def on_step(number: int, result: StepResult) -> None:
        frame = take_frame(number, engine, result, watcher)
        story.add(frame)
        in_use.append(frame.occupancy.in_use)
        on_frame(frame, story)

    requests = play(engine, prompts, on_step)
    return Run(requests, len(in_use), story, max(in_use))


def same_bits(first: Run, second: Run) -> bool:
    """Whether two runs of the same prompts gave the same tokens and, bit for bit, the same logits."""
    return all(
        one.all_token_ids == other.all_token_ids
        and [logits.tobytes() for logits in one.logits] == [logits.tobytes() for logits in other.logits]
        for one, other in zip(first.requests, second.requests, strict=True)
    )

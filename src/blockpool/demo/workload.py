"""Prompts for the demo: a few that begin alike, and some that go on where an earlier one ended."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

from blockpool.core.arguments import as_count, as_size
from blockpool.demo.engine import Engine, StepResult
from blockpool.demo.request import EngineRequest

MAX_PROMPT_TOKENS = 136
MAX_OUTPUT_TOKENS = 24

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_SYSTEM_PROMPT_TOKENS = (40, 56, 72)
_FOLLOW_UP_CHANCE = 0.3
_MAX_STEPS_BETWEEN = 4


class DemoPrompt(NamedTuple):
    """One request to come.

    Attributes:
        step: When it arrives, counted in steps of the engine from 0.
        request_id: A letter and a number, "a0", "b1", ...
        token_ids: The prompt, at most `MAX_PROMPT_TOKENS`.
        max_tokens: Tokens to generate, at most `MAX_OUTPUT_TOKENS`.
    """

    step: int
    request_id: str
    token_ids: list[int]
    max_tokens: int


def make_workload(num_requests: int, seed: int, vocab_size: int) -> list[DemoPrompt]:
    """Draws prompts, in the order of their arrival; equal arguments give equal ones.

    Each begins with one of three system prompts, or is a follow-up: all of an earlier prompt and some tokens more.

    Args:
        num_requests: At least 1.
        seed: 0 or more.
        vocab_size: Tokens are 0 … vocab_size - 1.

    Raises:
        ArgumentError: For a wrong type.
        ConfigError: For a number out of range.
    """
    source = random.Random(as_count("seed", seed))
    num_tokens = as_size("vocab_size", vocab_size)

    def tokens(count: int) -> list[int]:
        return [source.randrange(num_tokens) for _ in range(count)]

    systems = [tokens(count) for count in _SYSTEM_PROMPT_TOKENS]
    prompts: list[DemoPrompt] = []
    step = 0
    for number in range(as_size("num_requests", num_requests)):
        beginning = source.choice(systems)
        if prompts and source.random() < _FOLLOW_UP_CHANCE:
            beginning = source.choice(prompts).token_ids
        prompt = [*beginning, *tokens(source.randint(4, 32))][:MAX_PROMPT_TOKENS]
        request_id = f"{_LETTERS[number % len(_LETTERS)]}{number}"
        prompts.append(DemoPrompt(step, request_id, prompt, source.randint(6, MAX_OUTPUT_TOKENS)))
        step += source.randint(0, _MAX_STEPS_BETWEEN)
    return prompts


def play(
    engine: Engine,
    prompts: Sequence[DemoPrompt],
    on_step: Callable[[int, StepResult], None] = lambda number, result: None,
) -> list[EngineRequest]:
    """Runs prompts through an engine as they arrive, to the last token.

    Args:
        engine: A fresh one.
        prompts: In the order of their arrival.
        on_step: Called after each step with its number, from 0, and what it did.

    Returns:
        The requests, with their outputs and logits, in the order of the prompts.
    """
    requests: list[EngineRequest] = []
    number = 0
    while len(requests) < len(prompts) or engine.has_unfinished_requests:
        for prompt in prompts[len(requests) :]:
            if prompt.step > number:
                break
            requests.append(engine.add_request(prompt.request_id, prompt.token_ids, prompt.max_tokens))
        on_step(number, engine.step())
        number += 1
    return requests

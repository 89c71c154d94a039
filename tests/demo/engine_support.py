"""Runs the demo's engine under suspicion: invariants after each step, nothing readable in blocks without content."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from blockpool.demo.arithmetic import Floats
from blockpool.demo.engine import Engine, EngineSettings, StepResult
from blockpool.demo.model_config import ModelConfig
from blockpool.demo.request import EngineRequest

WINDOW = 6


def small_config(
    hybrid: bool, max_model_len: int = 48, windows: tuple[int | None, ...] | None = None
) -> ModelConfig:
    if windows is None:
        windows = (None, WINDOW) if hybrid else (None, None)
    return ModelConfig(
        windows=windows,
        vocab_size=32,
        hidden_size=16,
        num_heads=2,
        num_kv_heads=1,
        head_size=4,
        intermediate_size=64,  # a BLAS gives a row of so many inputs other bits than in a batch
        max_model_len=max_model_len,
    )


class Prompt(NamedTuple):
    token_ids: list[int]
    max_tokens: int
    step: int = 0


class Outcome(NamedTuple):
    requests: list[EngineRequest]
    results: list[StepResult]

    @property
    def tokens(self) -> list[list[int]]:
        return [request.output_token_ids for request in self.requests]

    @property
    def bits(self) -> list[bytes]:
        """Every logit of every generated token."""
        return [logits_of(request).tobytes() for request in self.requests]

    @property
    def num_computed(self) -> int:
        return sum(result.num_tokens for result in self.results)

    @property
    def num_found(self) -> int:
        return sum(result.stats.hits + result.stats.preempted_hits for result in self.results)

    @property
    def num_preemptions(self) -> int:
        return sum(request.num_preemptions for request in self.requests)


def logits_of(request: EngineRequest) -> Floats:
    return np.stack(request.logits)


def serve(config: ModelConfig, settings: EngineSettings, prompts: Sequence[Prompt]) -> Outcome:
    """Runs prompts to their end; `step` of each says when it comes."""
    engine = Engine(config, settings)
    pool = engine.manager.block_pool
    requests: list[EngineRequest] = []
    results = []
    coming = sorted(enumerate(prompts), key=lambda pair: pair[1].step)
    while coming or engine.has_unfinished_requests:
        while coming and coming[0][1].step <= len(results):
            number, prompt = coming.pop(0)
            requests.append(engine.add_request(str(number), prompt.token_ids, prompt.max_tokens))
        results.append(engine.step())
        assert len(results) < 2000, "it goes on and on"
        pool.check_invariants()
        engine.cache.poison(
            block.block_id for block in pool.blocks if block.ref_cnt == 0 and block.block_hash is None
        )
    assert pool.get_num_free_blocks() == settings.num_blocks, "a block leaked"
    requests.sort(key=lambda request: int(request.request_id))
    return Outcome(requests, results)


def serve_alone(config: ModelConfig, prompts: Sequence[Prompt]) -> Outcome:
    """Each prompt by itself, in one chunk, with room for all and without caching."""
    outcomes = [
        serve(config, EngineSettings(40, 16, 1000, 1, enable_caching=False), [prompt._replace(step=0)])
        for prompt in prompts
    ]
    return Outcome(
        [request for outcome in outcomes for request in outcome.requests],
        [result for outcome in outcomes for result in outcome.results],
    )

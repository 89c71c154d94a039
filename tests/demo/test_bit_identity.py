"""Outputs and logits are the same bits with and without prefix caching, whatever happens on the way."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import NamedTuple

import pytest

pytest.importorskip("numpy", reason="the extra demo is not installed")

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from blockpool.demo.batch import make_batch
from blockpool.demo.engine import Engine, EngineSettings
from blockpool.demo.kv_groups import blocks_of_longest_request
from blockpool.demo.model_config import ModelConfig

from .engine_support import Outcome, Prompt, logits_of, serve, serve_alone, small_config
from .reference_model import reference_logits

# One group or up to three, with windows shorter and longer than a block.
MIXES = [(None, 6), (None, 1), (9, None), (5,), (None, 7, 3), (2, 8)]

both_kinds = pytest.mark.parametrize("hybrid", [False, True], ids=["full", "hybrid"])


class Workload(NamedTuple):
    config: ModelConfig
    settings: EngineSettings
    prompts: list[Prompt]

    def serve(self, *, caching: bool) -> Outcome:
        size = self.settings
        return serve(
            self.config,
            EngineSettings(
                size.num_blocks,
                size.block_size,
                size.max_num_scheduled_tokens,
                size.max_num_running,
                enable_caching=caching,
            ),
            self.prompts,
        )


@st.composite
def workloads(draw: st.DrawFn, *, hybrid: bool) -> Workload:
    """Prompts that begin alike, on pools down to the smallest that can hold the longest of them."""
    source = random.Random(draw(st.integers(0, 2**32)))
    stem = [source.randrange(32) for _ in range(20)]
    prompts = []
    for _ in range(draw(st.integers(1, 5))):
        shared = draw(st.integers(0, 20))
        own = draw(st.integers(0 if shared else 1, 8))
        tokens = stem[:shared] + [source.randrange(32) for _ in range(own)]
        prompts.append(Prompt(tokens, draw(st.integers(1, 6)), draw(st.integers(0, 9))))
    longest = max(len(prompt.token_ids) + prompt.max_tokens for prompt in prompts)
    block_size, budget = draw(st.integers(1, 5)), draw(st.integers(1, 24))
    # With caching, the manager refuses lengths at which nothing could ever hit.
    windows = draw(st.sampled_from(MIXES)) if hybrid else None
    config = small_config(hybrid, max(longest, block_size + 1), windows)
    least = blocks_of_longest_request(config, block_size, budget)
    num_blocks = least + draw(st.integers(0, 12))
    return Workload(config, EngineSettings(num_blocks, block_size, budget, draw(st.integers(1, 5))), prompts)


@both_kinds
@settings(max_examples=15)
@given(data=st.data())
def test_caching_changes_no_bit(hybrid: bool, data: st.DataObject) -> None:
    workload = data.draw(workloads(hybrid=hybrid))
    with_cache, without = workload.serve(caching=True), workload.serve(caching=False)
    alone = serve_alone(workload.config, workload.prompts)
    assert with_cache.tokens == without.tokens == alone.tokens
    assert with_cache.bits == without.bits == alone.bits
    assert without.num_found == 0
    for outcome in (with_cache, without):
        if outcome.num_preemptions == 0:
            assert outcome.num_computed == alone.num_computed - outcome.num_found


def shared_prompts(count: int, prefix: int, own: int, max_tokens: int) -> list[Prompt]:
    source = random.Random(3)
    stem = [source.randrange(32) for _ in range(prefix)]
    return [
        Prompt(stem + [source.randrange(32) for _ in range(own)], max_tokens, step=2 * number)
        for number in range(count)
    ]


@both_kinds
def test_the_cache_saves_what_is_shared(hybrid: bool) -> None:
    prompts = shared_prompts(count=5, prefix=24, own=5, max_tokens=4)
    config = small_config(hybrid)
    with_cache = serve(config, EngineSettings(80, 4, 16, 4), prompts)
    without = serve(config, EngineSettings(80, 4, 16, 4, enable_caching=False), prompts)
    assert with_cache.bits == without.bits
    assert without.num_computed == 5 * (29 + 3)
    assert with_cache.num_found == 4 * 24
    assert with_cache.num_computed == without.num_computed - with_cache.num_found
    assert [request.num_cached_tokens for request in with_cache.requests] == [0, 24, 24, 24, 24]


@pytest.mark.parametrize(("hybrid", "spare"), [(False, 0), (True, 0), (True, 6)])
def test_preemption_and_eviction_change_no_bit(hybrid: bool, spare: int) -> None:
    """In the smallest pool that will do: requests lose their blocks and start over, contents are recycled."""
    config = small_config(hybrid, max_model_len=40)
    least = blocks_of_longest_request(config, 4, 12)
    prompts = shared_prompts(count=6, prefix=14, own=9, max_tokens=17)
    small = EngineSettings(least + spare, 4, 12, 6)
    outcome = serve(config, small, prompts)
    assert outcome.num_preemptions >= 3
    found_again = sum(result.stats.preempted_hits for result in outcome.results)
    assert found_again == {(False, 0): 60, (True, 0): 0, (True, 6): 92}[hybrid, spare]
    assert outcome.bits == serve_alone(config, prompts).bits
    assert outcome.bits == serve(config, EngineSettings(200, 4, 12, 6), prompts).bits


@both_kinds
def test_blocks_can_be_used_in_the_step_that_fills_them(hybrid: bool) -> None:
    prompt = Prompt([number % 32 for number in range(20)], 3)
    outcome = serve(small_config(hybrid), EngineSettings(60, 4, 100, 2), [prompt, prompt])
    first_step = outcome.results[0].schedule.chunks
    assert [(chunk.start, chunk.stop) for chunk in first_step] == [(0, 20), (16, 20)]
    assert outcome.bits[0] == outcome.bits[1]
    assert outcome.bits == serve_alone(small_config(hybrid), [prompt, prompt]).bits


@both_kinds
def test_logits_and_tokens_are_those_of_the_plain_model(hybrid: bool) -> None:
    """So that what is the same is also right."""
    prompts = shared_prompts(count=3, prefix=20, own=4, max_tokens=10)
    config = small_config(hybrid)
    outcome = serve(config, EngineSettings(40, 4, 7, 3), prompts)
    for request in outcome.requests:
        expected = reference_logits(config, request.all_token_ids)[request.num_prompt_tokens - 1 : -1]
        np.testing.assert_allclose(logits_of(request), expected, rtol=1e-3, atol=1e-4)
        assert request.output_token_ids == expected.argmax(axis=1).tolist()


def test_a_wrong_block_in_a_table_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The poison works: a table that names a block of nobody ends the run, and does not go on with wrong numbers."""
    engine = Engine(small_config(hybrid=False), EngineSettings(40, 4, 100, 2))
    engine.add_request("r", list(range(18)), 5)
    engine.step()
    true_ids = engine.manager.get_block_ids("r")[0]
    (stranger,) = engine.manager.block_pool.get_new_blocks(1)
    wrong = [[*true_ids[:1], stranger.block_id, *true_ids[2:]]]
    monkeypatch.setattr("blockpool.demo.engine.make_batch", _with_tables(wrong))
    with pytest.raises(AssertionError, match="a block was read that its request does not have"):
        engine.step()


def _with_tables(block_ids: list[list[int]]) -> object:
    def replaced(chunks: object, manager: object, block_size: int) -> object:
        stand_in = SimpleNamespace(get_block_ids=lambda request_id: block_ids)
        return make_batch(chunks, stand_in, block_size)  # type: ignore[arg-type]

    return replaced

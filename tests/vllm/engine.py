"""vLLM 0.16's real Scheduler, on either manager, and a model that computes nothing: its tokens follow from a hash.

Needs the whole of vLLM; import it only where that is there.
"""

from __future__ import annotations

import json
import random
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

from vllm.config import (
    CacheConfig,
    DeviceConfig,
    KVEventsConfig,
    ModelConfig,
    ParallelConfig,
    SchedulerConfig,
    SpeculativeConfig,
    VllmConfig,
)
from vllm.sampling_params import SamplingParams
from vllm.v1.core.sched import scheduler as scheduler_module
from vllm.v1.outputs import DraftTokenIds, ModelRunnerOutput
from vllm.v1.request import Request, RequestStatus
from vllm.v1.structured_output import StructuredOutputManager

from benchmarks.manager_sides import Setting, Side
from benchmarks.vllm_engine import MODEL

from .habits import Habits

BLOCK_SIZE = 4
MAX_MODEL_LEN = 128
VOCABULARY = 1000


class TidyManager:
    """Our manager, with the one trace that vLLM's leaves of a refusal: what left the window is freed all the same."""

    def __init__(self, manager: Any) -> None:
        self._manager = manager

    def __getattr__(self, name: str) -> Any:
        return getattr(self._manager, name)

    def allocate_slots(self, request: Any, *arguments: Any, **more: Any) -> Any:
        blocks = self._manager.allocate_slots(request, *arguments, **more)
        if blocks is None:
            self._manager.remove_skipped_blocks(request.request_id, request.num_computed_tokens)
        return blocks


def make_config(habits: Habits, folder: Path) -> Any:
    """vLLM's configuration of everything, for a model of which there is no more than its config.json."""
    (folder / "config.json").write_text(json.dumps(MODEL), encoding="utf-8")
    cache = CacheConfig(block_size=BLOCK_SIZE, swap_space=0, enable_prefix_caching=habits.enable_caching)
    cache.num_gpu_blocks = habits.num_blocks
    usual: dict[str, Any] = {"max_num_seqs": 8, "max_num_batched_tokens": 48, "async_scheduling": False}
    scheduling = SchedulerConfig(
        max_model_len=MAX_MODEL_LEN, is_encoder_decoder=False, **{**usual, **dict(habits.more)}
    )
    model = ModelConfig(str(folder), skip_tokenizer_init=True, max_model_len=MAX_MODEL_LEN)
    speculation = None
    if habits.drafts:
        speculation = SpeculativeConfig(
            method="ngram",
            num_speculative_tokens=habits.drafts,
            prompt_lookup_max=3,
            target_model_config=model,
            target_parallel_config=ParallelConfig(),
        )
    return VllmConfig(
        model_config=model,
        cache_config=cache,
        scheduler_config=scheduling,
        speculative_config=speculation,
        device_config=DeviceConfig(device="cpu"),
        kv_events_config=KVEventsConfig(enable_kv_cache_events=True, publisher="null"),
    )


def make_scheduler(config: Any, habits: Habits, theirs: Side, ours: Side | None) -> Any:
    """vLLM's Scheduler: on its own manager, or on ours, which is made with the very arguments that it passes."""
    setting = Setting(habits.groups, habits.num_blocks, BLOCK_SIZE)
    layout = theirs.config(setting)

    def our_manager(kv_cache_config: Any, **arguments: Any) -> TidyManager:
        assert ours is not None
        assert kv_cache_config is layout
        return TidyManager(ours.classes.KVCacheManager(ours.config(setting), **arguments))

    kept = scheduler_module.KVCacheManager
    if ours is not None:
        scheduler_module.KVCacheManager = our_manager
    try:
        return scheduler_module.Scheduler(
            config, layout, StructuredOutputManager(config), BLOCK_SIZE, log_stats=True
        )
    finally:
        scheduler_module.KVCacheManager = kept


class Engine:
    """A scheduler, its requests, and the model."""

    def __init__(self, scheduler: Any, hasher: Any, drafts: int) -> None:
        self.scheduler = scheduler
        self.hasher = hasher
        self.drafts = drafts
        self.seen: Counter[str] = Counter()

    def add(self, name: str, prompt: list[int], max_tokens: int, priority: int) -> None:
        """A request comes."""
        request = Request(
            request_id=name,
            prompt_token_ids=list(prompt),
            sampling_params=SamplingParams(max_tokens=max_tokens, ignore_eos=True),
            pooling_params=None,
            eos_token_id=None,
            arrival_time=float(len(self.scheduler.requests)),
            priority=priority,
            block_hasher=self.hasher,
        )
        self.scheduler.add_request(request)

    def abort(self, name: str) -> None:
        """A request goes, whether it runs, waits or is gone."""
        self.scheduler.finish_requests(name, RequestStatus.FINISHED_ABORTED)

    def step(self) -> dict[str, Any]:
        """Schedule, compute, take the tokens in; all that the scheduler decided."""
        output = self.scheduler.schedule()
        results = [self._tokens(name, output) for name in output.num_scheduled_tokens]
        names = list(output.num_scheduled_tokens)
        computed = ModelRunnerOutput(
            req_ids=names,
            req_id_to_index={name: index for index, name in enumerate(names)},
            sampled_token_ids=results,
        )
        told = self.scheduler.update_from_output(output, computed)
        if self.drafts:
            known = [name for name in names if name in self.scheduler.requests]
            guesses = [self._guess(name) for name in known]
            self.scheduler.update_draft_token_ids(DraftTokenIds(known, guesses))
        self.seen["hits"] += sum(new.num_computed_tokens for new in output.scheduled_new_reqs)
        self.seen["preempted"] += len(output.preempted_req_ids or ())
        self.seen["drafts"] += sum(map(len, output.scheduled_spec_decode_tokens.values()))
        self.seen["finished"] += len(output.finished_req_ids)
        return self._shown(output, told)

    def _tokens(self, name: str, output: Any) -> list[int]:
        """What the model says: nothing until a prompt is whole; then the accepted drafts and a token."""
        request = self.scheduler.requests[name]
        if request.num_computed_tokens < request.num_tokens:
            return []
        drafts = output.scheduled_spec_decode_tokens.get(name, [])
        luck = zlib.crc32(f"{name} {request.num_tokens}".encode())
        return [*drafts[: luck % (len(drafts) + 1)], luck % VOCABULARY]

    def _guess(self, name: str) -> list[int]:
        luck = zlib.crc32(f"guess {name} {self.scheduler.requests[name].num_tokens}".encode())
        return [(luck + index) % VOCABULARY for index in range(luck % (self.drafts + 1))]

    def _shown(self, output: Any, told: Any) -> dict[str, Any]:
        """The output of `schedule()`, and where the cache stands after the step."""
        cached = output.scheduled_cached_reqs
        pool = self.scheduler.kv_cache_manager.block_pool
        finished = [
            (one.request_id, one.new_token_ids, str(one.finish_reason), one.num_cached_tokens)
            for outputs in told.values()
            for one in outputs.outputs
        ]
        return {
            "new": [
                (new.req_id, new.block_ids, new.num_computed_tokens) for new in output.scheduled_new_reqs
            ],
            "cached": (cached.req_ids, cached.new_block_ids, cached.num_computed_tokens),
            "resumed": sorted(cached.resumed_req_ids),
            "tokens": output.num_scheduled_tokens,
            "drafts": output.scheduled_spec_decode_tokens,
            "common": output.num_common_prefix_blocks,
            "finished": sorted(output.finished_req_ids),
            "preempted": sorted(output.preempted_req_ids or ()),
            "told": finished,
            "waiting": [request.request_id for request in self.scheduler.waiting],
            "free": [block.block_id for block in pool.free_block_queue.get_all_free_blocks()],
            "usage": round(self.scheduler.kv_cache_manager.usage, 12),
        }


def play(engines: list[Engine], seed: int, num_requests: int) -> None:
    """The same requests at the same steps to all engines, until all are served; every step must be the same."""
    source = random.Random(seed)
    prompts = [[source.randrange(VOCABULARY) for _ in range(90)] for _ in range(3)]
    num_made = 0
    while num_made < num_requests or engines[0].scheduler.has_unfinished_requests():
        if num_made < num_requests and source.random() < 0.6:
            prompt = source.choice(prompts)[: source.randint(1, 90)]
            prompt += [source.randrange(VOCABULARY) for _ in range(source.randint(0, 8))]
            numbers = source.randint(1, 30), source.randrange(3)
            for engine in engines:
                engine.add(f"r{num_made}", prompt, *numbers)
            num_made += 1
        if source.random() < 0.03:
            for engine in engines:
                engine.abort(f"r{max(num_made - 3, 0)}")
        if source.random() < 0.01:
            answers = [engine.scheduler.reset_prefix_cache(reset_running_requests=True) for engine in engines]
            assert len(set(answers)) == 1
        first, *others = [engine.step() for engine in engines]
        for other in others:
            different = {name: (value, other[name]) for name, value in first.items() if value != other[name]}
            assert different == {}

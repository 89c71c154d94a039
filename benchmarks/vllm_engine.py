"""vLLM's real scheduler, of either supported version, without a model behind it: what its tests and measurements share.

Needs the whole of vLLM, which is imported only when something is made.
"""

from __future__ import annotations

import inspect
import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

VOCABULARY = 32_000
MODEL = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_attention_heads": 4,
    "num_hidden_layers": 1,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 1 << 20,
    "torch_dtype": "float16",
}


def with_known(function: Any, **arguments: Any) -> Any:
    """Calls it with those of the arguments that it takes: the versions of vLLM differ."""
    known = inspect.signature(function).parameters
    return function(**{name: value for name, value in arguments.items() if name in known})


@dataclass(frozen=True)
class EngineSetting:
    """What a scheduler is made for.

    Attributes:
        num_blocks: Of the pool.
        block_size: Tokens per block.
        max_model_len: Tokens of the longest request.
        max_num_batched_tokens: Per step.
        max_num_seqs: Requests that run at a time.
        windows: One KV cache group for each: None for full attention, else the sliding window.
        algorithm: Of the block hashes.
        events: Whether KV cache events are on.
    """

    num_blocks: int
    block_size: int
    max_model_len: int
    max_num_batched_tokens: int
    max_num_seqs: int
    windows: tuple[int | None, ...] = (None,)
    algorithm: str = "sha256"
    events: bool = False


def make_scheduler(setting: EngineSetting) -> Any:
    """The `Scheduler` of vLLM, prefix caching on."""
    from vllm.v1.core.sched.scheduler import Scheduler
    from vllm.v1.structured_output import StructuredOutputManager

    config = _config(setting)
    return with_known(
        Scheduler,
        vllm_config=config,
        kv_cache_config=_layout(setting),
        structured_output_manager=StructuredOutputManager(config),
        block_size=setting.block_size,
        log_stats=True,
    )


def _config(setting: EngineSetting) -> Any:
    from vllm.config import (
        CacheConfig,
        DeviceConfig,
        KVEventsConfig,
        ModelConfig,
        SchedulerConfig,
        VllmConfig,
    )

    cache = CacheConfig(block_size=setting.block_size, enable_prefix_caching=True)
    cache.num_gpu_blocks = setting.num_blocks
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(MODEL), encoding="utf-8")
        return VllmConfig(
            model_config=ModelConfig(folder, skip_tokenizer_init=True, max_model_len=setting.max_model_len),
            cache_config=cache,
            scheduler_config=SchedulerConfig(
                max_model_len=setting.max_model_len,
                is_encoder_decoder=False,
                max_num_seqs=setting.max_num_seqs,
                max_num_batched_tokens=setting.max_num_batched_tokens,
                async_scheduling=False,
            ),
            device_config=DeviceConfig(device="cpu"),
            kv_events_config=KVEventsConfig(enable_kv_cache_events=setting.events, publisher="null"),
        )


def _layout(setting: EngineSetting) -> Any:
    import torch
    from vllm.v1.kv_cache_interface import (
        FullAttentionSpec,
        KVCacheConfig,
        KVCacheGroupSpec,
        SlidingWindowSpec,
    )

    groups = []
    for number, window in enumerate(setting.windows):
        shape: dict[str, Any] = {
            "block_size": setting.block_size,
            "num_kv_heads": 1,
            "head_size": 1,
            "dtype": torch.float16,
        }
        spec = (
            with_known(FullAttentionSpec, **shape)
            if window is None
            else with_known(SlidingWindowSpec, **shape, sliding_window=window)
        )
        groups.append(KVCacheGroupSpec([f"layer{number}"], spec))
    return KVCacheConfig(num_blocks=setting.num_blocks, kv_cache_tensors=[], kv_cache_groups=groups)


def make_hasher(setting: EngineSetting) -> Any:
    """The function that hashes the blocks of a request, from the hands of vLLM; its root is drawn."""
    from vllm.utils.hashing import get_hash_fn_by_name
    from vllm.v1.core import kv_cache_utils

    kv_cache_utils.init_none_hash(get_hash_fn_by_name(setting.algorithm))
    return make_hasher_anew(setting)


def make_hasher_anew(setting: EngineSetting) -> Any:
    """Another such function, of the same root, which has hashed nothing yet."""
    from vllm.utils.hashing import get_hash_fn_by_name
    from vllm.v1.core import kv_cache_utils

    hash_function = get_hash_fn_by_name(setting.algorithm)
    return kv_cache_utils.get_request_block_hasher(setting.block_size, hash_function)


def make_request(name: str, prompt: list[int], max_tokens: int, hasher: Any, **more: Any) -> Any:
    """A request as the engine makes it: its full blocks are hashed at once."""
    from vllm.sampling_params import SamplingParams
    from vllm.v1.request import Request

    return with_known(
        Request,
        request_id=name,
        prompt_token_ids=prompt,
        sampling_params=SamplingParams(max_tokens=max_tokens, ignore_eos=True),
        pooling_params=None,
        eos_token_id=None,
        block_hasher=hasher,
        **more,
    )


def take_in(scheduler: Any, output: Any, next_token: Callable[[Any], int]) -> Any:
    """Tells the scheduler what a model would have answered.

    Args:
        output: Of `schedule()`.
        next_token: The token for a request that has computed all it has.
    """
    from vllm.v1.outputs import ModelRunnerOutput

    names: Sequence[str] = list(output.num_scheduled_tokens)
    sampled = []
    for name in names:
        request = scheduler.requests[name]
        done = request.num_computed_tokens >= request.num_tokens
        sampled.append([next_token(request)] if done else [])
    computed = ModelRunnerOutput(
        req_ids=names,
        req_id_to_index={name: index for index, name in enumerate(names)},
        sampled_token_ids=sampled,
    )
    return scheduler.update_from_output(output, computed)

"""The demo's engine: prompts in, tokens out, a step at a time."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from blockpool.core.arguments import as_bool, as_count, as_list, as_size
from blockpool.core.hasher import BlockHasher
from blockpool.core.types import MetricsCollector
from blockpool.demo.batch import make_batch
from blockpool.demo.kv_groups import (
    blocks_of_longest_request,
    group_windows,
    layer_places,
    make_kv_cache_config,
)
from blockpool.demo.model import Model, sample_greedily
from blockpool.demo.model_config import ModelConfig
from blockpool.demo.paged_attention import PagedKVCache
from blockpool.demo.request import EngineRequest
from blockpool.demo.scheduler import Schedule, Scheduler
from blockpool.errors import ArgumentError, ConfigError
from blockpool.kv_cache import KVCacheManager, PrefixCacheStats


@dataclasses.dataclass(frozen=True, slots=True)
class EngineSettings:
    """How the engine runs its model.

    Attributes:
        num_blocks: Usable blocks; the null block comes on top.
        block_size: Tokens per block.
        max_num_scheduled_tokens: Tokens per step; longer prompts are cut into chunks.
        max_num_running: Requests that run at a time.
        enable_caching: Whether prompts find what earlier ones left.

    Raises:
        ArgumentError: For an argument of the wrong type.
        ConfigError: For a number below 1.
    """

    num_blocks: int = 64
    block_size: int = 8
    max_num_scheduled_tokens: int = 32
    max_num_running: int = 6
    enable_caching: bool = True

    def __post_init__(self) -> None:
        for field in ("num_blocks", "block_size", "max_num_scheduled_tokens", "max_num_running"):
            as_size(field, getattr(self, field))
        as_bool("enable_caching", self.enable_caching)


@dataclasses.dataclass(frozen=True, slots=True)
class StepResult:
    """What a step did.

    Attributes:
        schedule: The tokens that were computed, and who was preempted for them.
        finished: Requests that are done.
        stats: What the requests that were admitted found in the cache.
    """

    schedule: Schedule
    finished: list[EngineRequest]
    stats: PrefixCacheStats

    @property
    def num_tokens(self) -> int:
        """Tokens computed."""
        return sum(chunk.stop - chunk.start for chunk in self.schedule.chunks)


class Engine:
    """Model, cache, manager and scheduler put together.

    Args:
        config: The model.
        settings: How it is run.
        collector: Is told what happens to blocks, for whoever wants to watch.

    Attributes:
        manager: The KV cache manager.
        scheduler: What waits and what runs.
        cache: The keys and values.
        windows: Of each KV cache group, or None: it sees all.
        num_computed_tokens: Tokens computed since the start, those that were computed again included.

    Raises:
        ArgumentError: For an argument of the wrong type.
        ConfigError: If the pool is too small for one request of the model's greatest length.
    """

    def __init__(
        self, config: ModelConfig, settings: EngineSettings, collector: MetricsCollector | None = None
    ) -> None:
        if not isinstance(config, ModelConfig):
            raise ArgumentError("config", config, "a ModelConfig is needed")
        if not isinstance(settings, EngineSettings):
            raise ArgumentError("settings", settings, "EngineSettings are needed")
        needed = blocks_of_longest_request(config, settings.block_size, settings.max_num_scheduled_tokens)
        if settings.num_blocks < needed:
            reason = f"one request of {config.max_model_len} tokens needs {needed} blocks"
            raise ConfigError("num_blocks", settings.num_blocks, reason)
        self.config = config
        self.settings = settings
        self.model = Model(config)
        self.windows = group_windows(config.windows)
        num_blocks = settings.num_blocks + 1
        num_tensors = 1 + max(place.tensor for place in layer_places(config.windows))
        self.cache = PagedKVCache(
            num_tensors, num_blocks, settings.block_size, config.num_kv_heads, config.head_size
        )
        self.manager = KVCacheManager(
            make_kv_cache_config(config, num_blocks, settings.block_size),
            max_model_len=config.max_model_len,
            hash_block_size=settings.block_size,
            enable_caching=settings.enable_caching,
            log_stats=True,
            metrics_collector=collector,
        )
        self.scheduler = Scheduler(self.manager, settings.max_num_scheduled_tokens, settings.max_num_running)
        self.num_computed_tokens = 0
        self._hasher = BlockHasher("blake2b_raw", settings.block_size, seed="blockpool demo")
        self._request_ids: set[str] = set()

    def add_request(self, request_id: str, prompt_token_ids: Sequence[int], max_tokens: int) -> EngineRequest:
        """Takes a request in; it waits until `step` admits it.

        Args:
            request_id: Unlike all before it.
            prompt_token_ids: At least one, each 0 … vocab_size - 1.
            max_tokens: Tokens to generate, at least 1; prompt and output together at most `max_model_len`.

        Raises:
            ArgumentError: For a wrong type.
            ConfigError: For an empty or too long prompt, a token out of range, or an id that was there before.
        """
        if not isinstance(request_id, str):
            raise ArgumentError("request_id", request_id, "a string is needed")
        if request_id in self._request_ids:
            raise ConfigError("request_id", request_id, "was given before")
        prompt = [
            as_count("prompt_token_ids", token) for token in as_list("prompt_token_ids", prompt_token_ids)
        ]
        if not prompt:
            raise ConfigError("prompt_token_ids", prompt_token_ids, "there must be at least one token")
        if max(prompt) >= self.config.vocab_size:
            reason = f"tokens are 0 to {self.config.vocab_size - 1}"
            raise ConfigError("prompt_token_ids", max(prompt), reason)
        if len(prompt) + as_size("max_tokens", max_tokens) > self.config.max_model_len:
            reason = f"prompt and output have at most {self.config.max_model_len} tokens"
            raise ConfigError("max_tokens", max_tokens, reason)
        request = EngineRequest(request_id, prompt, max_tokens, self._hasher)
        self._request_ids.add(request_id)
        self.scheduler.add(request)
        return request

    @property
    def has_unfinished_requests(self) -> bool:
        """Whether anything waits or runs."""
        return bool(self.scheduler.waiting or self.scheduler.running)

    def step(self) -> StepResult:
        """Computes the next tokens of all running requests. Without any, it does nothing."""
        schedule = self.scheduler.schedule()
        sampled = []
        if schedule.chunks:
            # Whoever reads what a block's last owner left in it shall notice.
            self.cache.poison(schedule.new_block_ids)
            batch = make_batch(schedule.chunks, self.manager, self.settings.block_size)
            logits = self.model.forward(batch, self.cache)
            sampled = list(zip(sample_greedily(logits), logits, strict=True))
        finished = self.scheduler.update(schedule, sampled)
        stats = self.manager.make_prefix_cache_stats() or PrefixCacheStats()
        result = StepResult(schedule, finished, stats)
        self.num_computed_tokens += result.num_tokens
        return result

    def run(self) -> None:
        """Steps until all requests are done."""
        while self.has_unfinished_requests:
            self.step()

"""A CPU engine on KVCacheManager: the same outputs with prefix caching as without, for less work.

Needs NumPy: pip install '.[demo]'. Run it: python examples/tiny_engine.py. Its scheduler, the part to take over into an
engine of your own, is src/blockpool/demo/scheduler.py.
"""

from __future__ import annotations

import random

from blockpool import BlockHasher, KVCacheManager
from blockpool.demo.batch import make_batch
from blockpool.demo.kv_groups import make_kv_cache_config
from blockpool.demo.model import Model, sample_greedily
from blockpool.demo.model_config import FULL_ATTENTION, HYBRID_ATTENTION, ModelConfig
from blockpool.demo.paged_attention import PagedKVCache
from blockpool.demo.request import EngineRequest
from blockpool.demo.scheduler import Scheduler

BLOCK_SIZE = 8
NUM_BLOCKS = 32  # few: requests are preempted and cached blocks recycled on the way


def make_prompts() -> list[list[int]]:
    """Twelve prompts of one application: a system prompt, one of three documents, a question."""
    source = random.Random(0)

    def tokens(count: int) -> list[int]:
        return [source.randrange(256) for _ in range(count)]

    system, documents = tokens(24), [tokens(40) for _ in range(3)]
    return [system + source.choice(documents) + tokens(source.randint(3, 20)) for _ in range(12)]


def generate(config: ModelConfig, *, enable_caching: bool) -> tuple[list[EngineRequest], int]:
    """Answers all prompts with 16 tokens each; returns the requests and how many tokens were computed."""
    model = Model(config)
    manager = KVCacheManager(
        make_kv_cache_config(config, NUM_BLOCKS, BLOCK_SIZE), config.max_model_len, BLOCK_SIZE, enable_caching
    )
    cache = PagedKVCache(len(config.windows), NUM_BLOCKS, BLOCK_SIZE, config.num_kv_heads, config.head_size)
    scheduler = Scheduler(manager, max_num_scheduled_tokens=32, max_num_running=4)
    hasher = BlockHasher("blake2b_raw", BLOCK_SIZE, seed="tiny engine")
    requests = [EngineRequest(f"r{n}", prompt, 16, hasher) for n, prompt in enumerate(make_prompts())]
    for request in requests:
        scheduler.add(request)
    num_computed = 0
    while scheduler.waiting or scheduler.running:
        step = scheduler.schedule()
        cache.poison(step.new_block_ids)  # NaN in what others left: a wrong block could not go unnoticed
        logits = model.forward(make_batch(step.chunks, manager, BLOCK_SIZE), cache)
        scheduler.update(step, list(zip(sample_greedily(logits), logits, strict=True)))
        num_computed += sum(chunk.stop - chunk.start for chunk in step.chunks)
    assert manager.usage == 0
    return requests, num_computed


for name, windows in (("full attention", FULL_ATTENTION), ("full + sliding window", HYBRID_ATTENTION)):
    config = ModelConfig(windows)
    requests, num_computed = generate(config, enable_caching=True)
    plain_requests, num_plain = generate(config, enable_caching=False)
    for request, plain in zip(requests, plain_requests, strict=True):
        assert request.output_token_ids == plain.output_token_ids
        assert [each.tobytes() for each in request.logits] == [each.tobytes() for each in plain.logits]
    assert num_computed < num_plain
    preemptions = sum(request.num_preemptions for request in requests)
    print(
        f"{name}: {num_computed:,} tokens computed with caching ({preemptions} preemptions), {num_plain:,} without"
    )
print("All outputs and logits are the same, bit for bit.")

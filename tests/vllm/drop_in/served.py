"""vLLM's real engine on the CPU, a small model with made-up weights: what it answers, and how much of it was cached.

    python -m tests.vllm.drop_in.served {own,ours,check}

It prints one line of JSON.
"""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from blockpool.events import EventSubscriber, IndexView, SourceAddress
from blockpool.events.wire_events import RemovedEvent

from .pool_check import check_pool

BLOCK_SIZE = 32  # the CPU's attention wants multiples of it
VOCABULARY = 1000
NUM_BLOCKS = 72
MAX_MODEL_LEN = 1024
PATIENCE = 20.0
MODEL = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "num_hidden_layers": 2,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 2048,
    "torch_dtype": "float32",
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def make_engine(folder: str, where: SourceAddress) -> Any:
    """The engine, in this process. It publishes its KV cache events."""
    from vllm import LLM
    from vllm.config import KVEventsConfig

    (Path(folder) / "config.json").write_text(json.dumps(MODEL), encoding="utf-8")
    return LLM(
        folder,
        load_format="dummy",
        skip_tokenizer_init=True,
        enable_prefix_caching=True,
        block_size=BLOCK_SIZE,
        max_model_len=MAX_MODEL_LEN,
        max_num_seqs=16,
        max_num_batched_tokens=2048,
        num_gpu_blocks_override=NUM_BLOCKS,
        enforce_eager=True,
        seed=0,
        disable_log_stats=False,
        kv_events_config=KVEventsConfig(
            enable_kv_cache_events=True,
            publisher="zmq",
            endpoint=where.endpoint,
            replay_endpoint=where.replay_endpoint,
        ),
    )


def batches() -> list[list[dict[str, Any]]]:
    """Prompts by turns: shared prefixes; more than the pool holds, so that it evicts and preempts; salted ones."""
    source = random.Random(0)

    def tokens(count: int) -> list[int]:
        return [source.randrange(3, VOCABULARY) for _ in range(count)]

    shared = tokens(400)
    first = [{"prompt_token_ids": shared[:length] + tokens(40)} for length in (400, 400, 200, 64, 0)]
    crowd = [{"prompt_token_ids": shared[:160] + tokens(120)} for _ in range(14)]
    salted = [{"prompt_token_ids": shared[:320], "cache_salt": salt} for salt in ("pepper", "mint", "pepper")]
    again = [{"prompt_token_ids": shared[:400]}, *[{"prompt_token_ids": tokens(500)} for _ in range(4)]]
    return [first, crowd, salted, again, first]


def serve(engine: Any) -> dict[str, Any]:
    """Everything that a client can see, and what the scheduler counted."""
    from vllm import SamplingParams

    greedy = SamplingParams(max_tokens=70, temperature=0.0, ignore_eos=True, detokenize=False)
    answers = []
    for number, prompts in enumerate(batches()):
        if number == 4:
            answers.append([engine.reset_prefix_cache()])
        for prompt in prompts[:2] if number == 2 else []:  # one after the other: the second finds the first
            answers.append(_told(engine.generate([prompt], greedy, use_tqdm=False)))
        answers.append(_told(engine.generate(prompts, greedy, use_tqdm=False)))
    metrics = {one.name: getattr(one, "value", None) for one in engine.get_metrics()}
    counted = ("vllm:prefix_cache_queries", "vllm:prefix_cache_hits", "vllm:num_preemptions")
    return {"answers": answers, "counted": {name: metrics.get(name) for name in counted}}


def _told(outputs: list[Any]) -> list[Any]:
    return [[list(one.outputs[0].token_ids), one.num_cached_tokens] for one in outputs]


def follow(subscriber: EventSubscriber, expected: dict[int, int]) -> dict[str, Any]:
    """What our subscriber makes of vLLM's events, once it knows what the pool knows, or after a while."""
    view = IndexView()
    num_events = num_removed = 0
    end = time.monotonic() + PATIENCE
    counts: dict[int | bytes, int] = {}
    while time.monotonic() < end and counts != expected:
        for source, batch in subscriber.poll(0.2):
            view.apply(source, batch)
            num_events += len(batch.events)
            num_removed += sum(isinstance(event, RemovedEvent) for event in batch.events)
            counts = dict(view.counts(source))
    return {
        "events": num_events,
        "removed": num_removed,
        "followed": counts == expected,
        "hashes": len(counts),
    }


def indexed(pool: Any) -> dict[int, int]:
    """How many blocks the pool has under each hash, as events name them."""
    digests = [one.block_hash[:-4] for one in pool.blocks if one.block_hash is not None]
    return dict(Counter(int.from_bytes(digest[-8:], "big") for digest in digests))


def main() -> None:
    """Be one process of the test."""
    which = sys.argv[1]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever vLLM prints goes elsewhere
    os.environ.update(VLLM_ENABLE_V1_MULTIPROCESSING="0", VLLM_CPU_KVCACHE_SPACE="1", PYTHONHASHSEED="0")
    if which != "own":  # vLLM itself calls the plugin
        os.environ["BLOCKPOOL_VLLM"] = "check" if which == "check" else "1"
    with tempfile.TemporaryDirectory() as folder:
        where = SourceAddress(f"ipc://{folder}/events", f"ipc://{folder}/replay")
        engine = make_engine(folder, where)
        with EventSubscriber(where) as subscriber:
            subscriber.poll(1.0)
            pool = engine.llm_engine.engine_core.engine_core.scheduler.kv_cache_manager.block_pool
            report = serve(engine)
            check_pool(pool)
            report["pool"] = f"{type(pool).__module__}.{type(pool).__name__}"
            report["mismatch"] = getattr(getattr(pool, "comparison", None), "mismatch", None)
            report.update(follow(subscriber, indexed(pool)))
        answers.write(json.dumps(report) + "\n")
        answers.flush()
    os._exit(0)  # whatever the engine left running


if __name__ == "__main__":
    main()

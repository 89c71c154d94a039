"""Random requests through vLLM's real scheduler, in a process of its own: what happened, as a digest per step.

    python -m tests.vllm.drop_in.traffic {own,ours,check} SEED NUM_REQUESTS [NAME ...]

It prints one line of JSON, with an entry for each of the `SETTINGS` named, or for all. With and without the drop-in the
`steps` must be the same.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import random
import sys
import zlib
from collections import Counter
from dataclasses import replace
from typing import Any

from benchmarks.vllm_engine import EngineSetting, make_hasher, make_request, make_scheduler, take_in

from .pool_check import check_pool

VOCABULARY = 1000
PROMPT = 90
SMALL = EngineSetting(
    num_blocks=60, block_size=4, max_model_len=128, max_num_batched_tokens=48, max_num_seqs=8
)
SETTINGS = {
    "full": SMALL,
    "full, events": replace(SMALL, events=True),
    "full, large": replace(SMALL, num_blocks=400, max_num_batched_tokens=256, max_num_seqs=32),
    "full, cbor": replace(SMALL, algorithm="sha256_cbor"),
    "sliding": replace(SMALL, windows=(16,)),
    "full and sliding": replace(SMALL, num_blocks=100, windows=(None, 16)),
    "full and sliding, events": replace(SMALL, num_blocks=100, windows=(None, 16), events=True),
}


class Traffic:
    """A scheduler and the requests that are sent to it."""

    def __init__(self, setting: EngineSetting, seed: int) -> None:
        os.environ["PYTHONHASHSEED"] = "0"  # the root of the block hashes: events show them
        self.setting = setting
        self.source = random.Random(seed)
        self.scheduler = make_scheduler(setting)
        self.hasher = make_hasher(setting)
        self.pool = self.scheduler.kv_cache_manager.block_pool
        self.prompts = [[self.source.randrange(VOCABULARY) for _ in range(PROMPT)] for _ in range(3)]
        self.num_made = 0
        self.seen: Counter[str] = Counter()
        self.digest = hashlib.sha256()
        self.trail: list[str] = []

    def play(self, num_requests: int) -> None:
        """Sends so many requests, and goes on until all are served."""
        while self.num_made < num_requests or self.scheduler.has_unfinished_requests():
            if self.num_made < num_requests and self.source.random() < 0.6:
                self.add()
            if self.source.random() < 0.03:
                self.abort(f"r{max(self.num_made - 3, 0)}")
            if self.source.random() < 0.01:
                self.seen["resets"] += self.scheduler.reset_prefix_cache(reset_running_requests=True)
            self.step()

    def add(self) -> None:
        """A request: the start of a known prompt, some tokens of its own; a few with an adapter or a salt."""
        from vllm.lora.request import LoRARequest

        source = self.source
        prompt = source.choice(self.prompts)[: source.randint(1, PROMPT)]
        prompt = prompt + [source.randrange(VOCABULARY) for _ in range(source.randint(0, 8))]
        lora = LoRARequest("adapter", 1, "nowhere") if source.random() < 0.1 else None
        salt = source.choice(("pepper", "mint")) if source.random() < 0.1 else None
        request = make_request(
            f"r{self.num_made}",
            prompt,
            source.randint(1, 30),
            self.hasher,
            arrival_time=float(self.num_made),
            lora_request=lora,
            cache_salt=salt,
        )
        self.num_made += 1
        self.scheduler.add_request(request)

    def abort(self, name: str) -> None:
        """A request goes, whether it runs, waits or is gone."""
        from vllm.v1.request import RequestStatus

        self.scheduler.finish_requests(name, RequestStatus.FINISHED_ABORTED)

    def step(self) -> None:
        """Schedule, compute, take the tokens in; note what was decided, and where the pool stands."""
        output = self.scheduler.schedule()
        events = self.pool.take_events()
        told = take_in(self.scheduler, output, _next_token)
        check_pool(self.pool)
        cached = output.scheduled_cached_reqs
        shown = (
            [(new.req_id, new.block_ids, new.num_computed_tokens) for new in output.scheduled_new_reqs],
            (
                cached.req_ids,
                cached.new_block_ids,
                cached.num_computed_tokens,
                sorted(cached.resumed_req_ids),
            ),
            output.num_scheduled_tokens,
            output.num_common_prefix_blocks,
            sorted(output.finished_req_ids),
            sorted(output.preempted_req_ids or ()),
            [getattr(output, name, None) for name in ("new_block_ids_to_zero", "kv_cache_block_copies")],
            [
                (
                    one.request_id,
                    one.new_token_ids,
                    str(one.finish_reason),
                    getattr(one, "num_cached_tokens", None),
                )
                for outputs in told.values()
                for one in outputs.outputs
            ],
            [request.request_id for request in self.scheduler.waiting],
            [block.block_id for block in self.pool.free_block_queue.get_all_free_blocks()],
            [block.block_hash for block in self.pool.blocks],
            events,
        )
        self.digest.update(repr(shown).encode())
        self.trail.append(self.digest.hexdigest()[:8])
        self.seen["hits"] += sum(new.num_computed_tokens for new in output.scheduled_new_reqs)
        self.seen["preempted"] += len(output.preempted_req_ids or ())
        self.seen["finished"] += len(output.finished_req_ids)
        self.seen["events"] += len(events)


MISMATCHES: list[str] = []
"""What was logged of differing results, of the pool or of the block hashes."""


class Listener(logging.Handler):
    """Notes them."""

    def emit(self, record: logging.LogRecord) -> None:
        """Takes one."""
        MISMATCHES.append(record.getMessage())


def _next_token(request: Any) -> int:
    return zlib.crc32(f"{request.request_id} {request.num_tokens}".encode()) % VOCABULARY


def report(traffic: Traffic) -> dict[str, Any]:
    """What is printed of one setting."""
    pool = traffic.pool
    comparison = getattr(pool, "comparison", None)
    return {
        "pool": f"{type(pool).__module__}.{type(pool).__name__}",
        "steps": traffic.trail,
        "seen": dict(traffic.seen),
        "compared": comparison.num_compared if comparison else 0,
        "mismatches": list(MISMATCHES),
    }


def main() -> None:
    """Be one process of the test."""
    which, seed, num_requests, *names = sys.argv[1:]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever vLLM prints goes elsewhere
    import vllm  # noqa: F401 - it sets itself up

    if which != "own":
        from blockpool.integrations.vllm import register

        os.environ["BLOCKPOOL_VLLM"] = "check" if which == "check" else "1"
        register()
        logging.getLogger("vllm.blockpool").addHandler(Listener(logging.ERROR))
    reports = {}
    for name in names or SETTINGS:
        traffic = Traffic(SETTINGS[name], int(seed))
        traffic.play(int(num_requests))
        reports[name] = report(traffic)
    answers.write(json.dumps(reports) + "\n")


if __name__ == "__main__":
    main()

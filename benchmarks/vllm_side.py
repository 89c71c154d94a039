"""One side of the measurement in vLLM's own scheduler: a process that measures a round whenever it is told to.

    python -m benchmarks.vllm_side {own,ours} {PROMPT_TOKENS,memory,process}

It prints a line when it is ready. Then it reads "first", "anew" or "decode" and prints the seconds of one round, or
"parts" and prints those of four parts of "first", until its input ends. Asked for memory, it prints that and ends. The
model's forward pass is left out: tokens come from nowhere. `vllm_scheduler` runs both sides by turns.
"""

from __future__ import annotations

import gc
import os
import resource
import sys
from pathlib import Path
from typing import Any

from benchmarks.measure import clock
from benchmarks.vllm_engine import (
    VOCABULARY,
    EngineSetting,
    make_hasher,
    make_hasher_anew,
    make_request,
    make_scheduler,
    take_in,
)

BLOCK_SIZE = 16
CACHED = 0.9
DECODING = 256
DECODE_STEPS = 32
DECODE_PROMPT = 200
PROMPTS_PER_ROUND = 5
MEMORY_BLOCKS = 1_000_000
PROCESS_PROMPT = 131_072


class Side:
    """vLLM's scheduler, and requests for it."""

    def __init__(self, num_tokens: int, num_blocks: int | None = None) -> None:
        self.setting = setting = EngineSetting(
            num_blocks=num_blocks or 4 * num_tokens // BLOCK_SIZE + 20 * DECODING,
            block_size=BLOCK_SIZE,
            max_model_len=num_tokens + 4096,
            max_num_batched_tokens=num_tokens + 4096,
            max_num_seqs=DECODING + 8,
        )
        self.scheduler = make_scheduler(setting)
        self.hasher = make_hasher(setting)
        self.num_tokens = num_tokens
        num_shared = int(num_tokens * CACHED) // BLOCK_SIZE * BLOCK_SIZE
        self.shared = [token % VOCABULARY for token in range(num_shared)]
        self.num_made = 0

    def tokens(self, num_tokens: int, shared: bool) -> list[int]:
        """A prompt that nobody has had, but for its first part if that is shared."""
        self.num_made += 1
        prompt = self.shared[:] if shared else []
        start = self.num_made * 7919
        return prompt + [(start + 31 * index) % VOCABULARY for index in range(num_tokens - len(prompt))]

    def request(self, prompt: list[int], max_tokens: int) -> Any:
        """A request as the engine makes it, its blocks hashed."""
        return make_request(
            f"r{self.num_made}", prompt, max_tokens, self.hasher, arrival_time=float(self.num_made)
        )

    def take_in(self, output: Any) -> None:
        """What the model would have answered."""
        take_in(self.scheduler, output, lambda request: 7)

    def anew(self) -> float:
        """As `first`, but nothing is remembered of what was hashed before."""
        return self.first(anew=True)

    def first(self, anew: bool = False) -> float:
        """Seconds from a request to its first schedule, 90 % of it cached; mean of some."""
        spent = 0.0
        for _ in range(PROMPTS_PER_ROUND):
            if anew:
                self.hasher = make_hasher_anew(self.setting)
            prompt = self.tokens(self.num_tokens, shared=True)
            gc.collect()
            gc.disable()
            start = clock()
            request = self.request(prompt, 1)
            self.scheduler.add_request(request)
            output = self.scheduler.schedule()
            spent += clock() - start
            gc.enable()
            assert output.num_scheduled_tokens[request.request_id] == self.num_tokens - len(self.shared)
            self.take_in(output)
            self.scheduler.schedule()
            assert not self.scheduler.requests
        return spent / PROMPTS_PER_ROUND

    def parts(self) -> str:
        """Where the time of `first` goes: seconds for hashing, the look-up, the allocation, and all else."""
        manager = self.scheduler.kv_cache_manager
        spent = {"update_block_hashes": 0.0, "get_computed_blocks": 0.0, "allocate_slots": 0.0}

        def timed(owner: Any, name: str) -> None:
            method = getattr(owner, name)

            def call(*arguments: Any, **more: Any) -> Any:
                start = clock()
                try:
                    return method(*arguments, **more)
                finally:
                    spent[name] += clock() - start

            setattr(owner, name, call)

        from vllm.v1.request import Request

        own = Request.update_block_hashes
        timed(Request, "update_block_hashes")
        timed(manager, "get_computed_blocks")
        timed(manager, "allocate_slots")
        whole = self.first()
        Request.update_block_hashes = own
        del manager.get_computed_blocks, manager.allocate_slots
        each = [seconds / PROMPTS_PER_ROUND for seconds in spent.values()]
        return " ".join(str(seconds) for seconds in (*each, whole - sum(each)))

    def warm(self) -> None:
        """The shared part is computed, and the pool filled, so that every block given out evicts another."""
        pool = self.scheduler.kv_cache_manager.block_pool
        evicted = 0
        while evicted < pool.num_gpu_blocks + self.num_tokens // BLOCK_SIZE:
            self.scheduler.add_request(self.request(self.tokens(self.num_tokens, shared=True), 1))
            while self.scheduler.requests:
                self.take_in(self.scheduler.schedule())
            self.scheduler.schedule()
            evicted += self.num_tokens // BLOCK_SIZE - len(self.shared) // BLOCK_SIZE

    def decode(self) -> float:
        """Seconds per step of requests that all decode; mean of some steps."""
        from vllm.v1.request import RequestStatus

        for _ in range(DECODING):
            self.scheduler.add_request(self.request(self.tokens(DECODE_PROMPT, shared=False), 1000))
        while any(
            one.num_computed_tokens < one.num_prompt_tokens for one in self.scheduler.requests.values()
        ):
            self.take_in(self.scheduler.schedule())
        gc.collect()
        gc.disable()
        start = clock()
        for _ in range(DECODE_STEPS):
            output = self.scheduler.schedule()
            self.take_in(output)
        spent = clock() - start
        gc.enable()
        assert len(output.num_scheduled_tokens) == DECODING
        self.scheduler.finish_requests(list(self.scheduler.requests), RequestStatus.FINISHED_ABORTED)
        self.scheduler.schedule()
        return spent / DECODE_STEPS


def memory(num_blocks: int) -> float:
    """Bytes per block that a pool adds to this process."""
    from vllm.v1.core.block_pool import BlockPool

    gc.collect()
    before = resident()
    pool = BlockPool(num_gpu_blocks=num_blocks, enable_caching=True, hash_block_size=BLOCK_SIZE)
    after = resident()
    del pool
    return (after - before) / num_blocks


def process_memory(num_blocks: int) -> float:
    """Bytes per block that a scheduler adds to this process, its pool included, once every block was used."""
    gc.collect()
    before = resident()
    side = Side(PROCESS_PROMPT, num_blocks)
    for _ in range(num_blocks * BLOCK_SIZE // PROCESS_PROMPT + 1):
        side.scheduler.add_request(side.request(side.tokens(PROCESS_PROMPT, shared=False), 1))
        while side.scheduler.requests:
            side.take_in(side.scheduler.schedule())
        side.scheduler.schedule()
    gc.collect()
    assert side.scheduler.kv_cache_manager.block_pool.blocks[-1].block_hash is not None
    return (resident() - before) / num_blocks


MEMORY = {"memory": memory, "process": process_memory}


def resident() -> int:
    """Bytes of this process that are in memory."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()


def main() -> None:
    """Be one side."""
    which, what = sys.argv[1:]
    import vllm.version

    replaced = "none"
    if which == "ours":
        os.environ["BLOCKPOOL_VLLM"] = "1"
        from blockpool.core.build import COMPILED
        from blockpool.integrations.vllm import register

        register()
        replaced = "compiled" if COMPILED else "interpreted"
        from vllm.v1.core.block_pool import BlockPool

        assert BlockPool.__module__.startswith("blockpool."), "nothing was replaced"
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever vLLM prints goes elsewhere
    if what in MEMORY:
        answers.write(f"{MEMORY[what](MEMORY_BLOCKS)}\n")
        return
    side = Side(int(what))
    side.warm()
    gc.collect()
    gc.freeze()  # what stands is of no interest to the collections between the rounds
    answers.write(f"ready {vllm.version.__version__} {replaced}\n")
    for line in sys.stdin:
        answers.write(f"{getattr(side, line.strip())()}\n")


if __name__ == "__main__":
    main()

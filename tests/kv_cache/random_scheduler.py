"""A scheduler at random on a KVCacheManager of either side; it writes a diary.

The same scenario and seed make the same calls as long as the answers are the same, so that two managers are
compared by comparing their two diaries. Only the names that both sides share are used.
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from benchmarks.manager_sides import ManagedRequest, Side

from .diary import COUNTS, Diary, Entry, Scenario


class PlainRequests:
    """Makes requests and lets them grow. Their hashes are chained by a rule of no engine: any will do."""

    def __init__(self, hash_block_size: int) -> None:
        self.hash_block_size = hash_block_size
        self.roots: dict[str, bytes] = {}

    def make(self, request_id: str, token_ids: list[int], lora_id: int, salt: str | None) -> Any:
        """A request that has its prompt; `lora_id` 0 means none."""
        adapter = SimpleNamespace(name="adapter", adapter_id=lora_id) if lora_id else None
        request = ManagedRequest(request_id, [], [], lora_request=adapter)
        self.roots[request_id] = f"{lora_id}/{salt}".encode()
        self.append(request, token_ids)
        return request

    def append(self, request: Any, token_ids: list[int]) -> None:
        """Tokens join a request, and the hashes of the blocks that they fill."""
        request.all_token_ids.extend(token_ids)
        size = self.hash_block_size
        while (len(request.block_hashes) + 1) * size <= len(request.all_token_ids):
            start = len(request.block_hashes) * size
            parent = request.block_hashes[-1] if request.block_hashes else self.roots[request.request_id]
            text = repr(request.all_token_ids[start : start + size]).encode()
            request.block_hashes.append(hashlib.sha256(parent + text).digest())


def play(side: Side, scenario: Scenario, seed: int, steps: int, requests: Any = None) -> Diary:
    """Run the scenario on a new manager of that side, with plain requests unless others are given."""
    requests = requests or PlainRequests(scenario.setting.hash_block_size)
    scheduler = _Scheduler(side.manager(scenario.setting), scenario, seed, requests)
    for _ in range(steps):
        scheduler.step()
    scheduler.finish_all()
    return scheduler.diary


class _Scheduler:
    """Decides at random, from nothing but the seed and the answers."""

    def __init__(self, manager: Any, scenario: Scenario, seed: int, requests: Any) -> None:
        self.manager = manager
        self.scenario = scenario
        self.requests = requests
        self.random = random.Random(f"{scenario.name}/{seed}")
        self.diary = Diary()
        self.waiting: list[Any] = []
        self.loading: list[Any] = []
        self.running: list[Any] = []
        self.admitted = 0
        self.prompts = [self._tokens(scenario.prompt_tokens) for _ in range(3)]

    def _tokens(self, count: int) -> list[int]:
        return [self.random.randrange(1000) for _ in range(count)]

    # --- what a step does ---------------------------------------------------------------------

    def step(self) -> None:
        """One of a scheduler's deeds."""
        deeds = [self.admit, self.admit, self.advance, self.advance, self.advance, self.advance, self.finish]
        deeds += [self.look]
        if self.scenario.external:
            deeds.append(self.loaded)
        self.random.choice(deeds)()

    def admit(self) -> None:
        """Look a waiting or a new request up and allocate its first slots."""
        if len(self.running) >= 6:
            return
        request = self._next_request()
        computed, hits = request.num_computed_tokens, 0
        blocks = None
        if not computed:
            blocks, hits = self._look_up(request)
            self._tally(self.diary.looked_up, request, hits)
        external, later = self._external_tokens(request, computed + hits)
        left = request.num_tokens - computed - hits - external
        num_new = 0 if later else self._chunk(request, computed + hits + external, left)
        if num_new == 0 and not later:
            self.waiting.append(request)
            return
        more = {"num_encoder_tokens": self._encoder_tokens()} if self.scenario.encoder_tokens else {}
        known = {} if computed else {"num_new_computed_tokens": hits, "new_computed_blocks": blocks}
        allocated = self._allocate(
            request,
            num_new,
            num_lookahead_tokens=0 if later else self.scenario.num_lookahead_tokens,
            num_external_computed_tokens=external,
            delay_cache_blocks=later,
            **known,
            **more,
        )
        if not allocated:
            self.waiting.append(request)
            return
        self.diary.hit_tokens += hits
        if not computed:
            self._tally(self.diary.admitted, request, hits)
        request.num_computed_tokens = computed + hits + external + num_new
        (self.loading if later else self.running).append(request)

    def advance(self) -> None:
        """The next chunk of a prefill, or the next token of a decode; preempt the youngest when it does not fit."""
        if not self.running:
            return
        request = self.random.choice(self.running)
        longest = self.scenario.setting.max_model_len + self.scenario.overrun
        if request.num_tokens >= longest - self.scenario.draft_tokens - 1:
            self._end(request)
            return
        drafts = 0
        if request.num_computed_tokens >= request.num_tokens:
            self.requests.append(request, self._tokens(1))
            most = self.scenario.draft_tokens
            drafts = most if self.scenario.steady_drafts else self.random.randint(0, most)
        left = request.num_tokens - request.num_computed_tokens
        num_new = self._chunk(request, request.num_computed_tokens, left) + drafts
        if num_new == 0:
            return
        lookahead = self.scenario.num_lookahead_tokens
        while not self._allocate(request, num_new, num_lookahead_tokens=lookahead):
            victim = self.running.pop()
            self._preempt(victim)
            if victim is request:
                return
        accepted = self.random.randint(0, drafts)
        if accepted:
            self.requests.append(request, self._tokens(accepted))
        request.num_computed_tokens += num_new - drafts + accepted

    def finish(self) -> None:
        """A request ends, or one goes that never came."""
        if not self.running or self.random.random() < 0.1:
            self._free(self.waiting.pop() if self.waiting else self._new_request())
            return
        self._end(self.random.choice(self.running))

    def _end(self, request: Any) -> None:
        self.running.remove(request)
        if self.random.random() < 0.3:
            computed = min(request.num_computed_tokens, request.num_tokens)
            self._call("remove_skipped_blocks", request.request_id, computed)
        self._free(request)
        self.diary.finished += 1

    def look(self) -> None:
        """Whatever asks or tidies."""
        choice = self.random.randrange(4)
        if choice == 0 and self.running:
            self._call("get_num_common_prefix_blocks", self.random.choice(self.running).request_id)
        elif choice == 1 and self.scenario.evict:
            doomed = set(self.random.sample(range(1, self.scenario.setting.num_blocks), 2))
            self._call("evict_blocks", doomed)
        elif choice == 2 and self.scenario.reset and self.random.random() < 0.3:
            while self.running and self.random.random() < 0.8:
                self._preempt(self.running.pop())
            self._call("reset_prefix_cache")
        elif choice == 3:
            self.read_stats()

    def read_stats(self) -> None:
        """The manager's counts are taken, and added up: they are handed over once."""
        stats = self.manager.make_prefix_cache_stats()
        if stats is not None:
            self.diary.counted.update({name: getattr(stats, name) for name in COUNTS})

    def loaded(self) -> None:
        """What a connector was asked for has come: its blocks may be indexed, and the request goes on."""
        if not self.loading:
            return
        request = self.loading.pop(self.random.randrange(len(self.loading)))
        if self.random.random() < 0.2:  # it did not come
            self._free(request)
            request.num_computed_tokens = 0
        else:
            computed = min(request.num_computed_tokens, request.num_tokens - 1)
            request.num_computed_tokens = computed
            self._call("cache_blocks", request, computed)
        self.waiting.append(request)

    def finish_all(self) -> None:
        """Every request goes."""
        for request in (*self.running, *self.loading):
            self._free(request)
        self.read_stats()

    # --- its parts ----------------------------------------------------------------------------

    def _next_request(self) -> Any:
        """One that waits, more often than not, or a new one; so none that no longer fits keeps the others out."""
        if self.waiting and self.random.random() < 0.7:
            return self.waiting.pop(self.random.randrange(len(self.waiting)))
        return self._new_request()

    def _new_request(self) -> Any:
        prompt = self.random.choice(self.prompts)
        shared = self.random.randint(0, len(prompt))
        token_ids = (prompt[:shared] + self._tokens(self.random.randint(1, 12)))[: len(prompt)]
        if self.random.random() < 0.3:
            token_ids = prompt[: max(1, shared)]
        self.admitted += 1
        lora_id = self.random.choice([0, 0, 3])
        salt = self.random.choice([None, None, None, "salt"])
        request = self.requests.make(f"request-{self.admitted}", token_ids, lora_id, salt)
        request.skip_reading_prefix_cache = self.random.random() < 0.05
        return request

    def _look_up(self, request: Any) -> tuple[Any, int]:
        blocks, hits = self.manager.get_computed_blocks(request)
        self._note(("get_computed_blocks", request.request_id), (blocks.get_block_ids(), hits))
        return blocks, hits

    def _tally(self, tally: Counter[str], request: Any, hits: int) -> None:
        """Count as the statistics of either side would, those of requests that must not hit excepted."""
        if self.scenario.setting.enable_caching and not request.skip_reading_prefix_cache:
            names = COUNTS[3:] if request.num_preemptions else COUNTS[:3]
            tally.update(dict(zip(names, (1, request.num_tokens, hits), strict=True)))

    def _external_tokens(self, request: Any, known: int) -> tuple[int, bool]:
        """How much a connector has beyond what is known, in whole blocks, and whether it comes later."""
        if not self.scenario.external or request.num_computed_tokens or self.random.random() < 0.5:
            return 0, False
        if known and len(self.scenario.setting.groups) > 1:
            return 0, False  # vLLM may give the hits of a later group away: see test_manager_differences.py
        size = max(group.block_size for group in self.scenario.setting.groups)
        most = (request.num_tokens - 1 - known) // size
        count = self.random.randint(0, max(0, most)) * size
        return count, count > 0 and self.random.random() < 0.5

    def _chunk(self, request: Any, computed: int, left: int) -> int:
        """How many of the tokens that are left are computed now."""
        num_new = left if self.random.random() < 0.5 else self.random.randint(1, max(1, left))
        num_new = min(num_new, left)
        size = self.scenario.align
        if size and computed < request.num_tokens - 1:
            last = request.num_tokens - request.num_tokens % size
            if self.scenario.setting.use_eagle:
                last = max(last - size, 0)
            if computed + num_new < last:
                return num_new // size * size
            if computed < last < computed + num_new:
                return last - computed
        return num_new

    def _encoder_tokens(self) -> int:
        return self.random.randint(1, self.scenario.encoder_tokens)

    def _allocate(self, request: Any, num_new_tokens: int, **more: Any) -> bool:
        blocks = self.manager.allocate_slots(request, num_new_tokens, **more)
        shown = {name: value for name, value in more.items() if value and name != "new_computed_blocks"}
        answer = None if blocks is None else blocks.get_block_ids()
        if blocks is None:
            # vLLM has freed by now what attention no longer needs; ours leaves no trace until it is asked to.
            self.manager.remove_skipped_blocks(request.request_id, request.num_computed_tokens)
        self._note(("allocate_slots", request.request_id, num_new_tokens, shown), answer)
        self.diary.refused += blocks is None
        return blocks is not None

    def _preempt(self, request: Any) -> None:
        self._free(request)
        request.num_computed_tokens = 0
        request.num_preemptions += 1
        self.waiting.append(request)
        self.diary.preempted += 1

    def _free(self, request: Any) -> None:
        self.manager.free(request)
        self._note(("free", request.request_id), None)

    def _call(self, method: str, *arguments: Any) -> None:
        answer = getattr(self.manager, method)(*arguments)
        self._note((method, *map(_shown, arguments)), answer)

    def _note(self, call: tuple[Any, ...], answer: Any) -> None:
        state = self._state()
        self.diary.events += len(state[-1])
        self.diary.entries.append(Entry(call, answer, state))

    def _state(self) -> tuple[Any, ...]:
        """All that shows of a manager. The null block's count is left out: vLLM's drifts."""
        pool = self.manager.block_pool
        queue = pool.free_block_queue.get_all_free_blocks()
        return (
            [block.block_id for block in queue],
            [block.ref_cnt for block in pool.blocks[1 + self.scenario.held :]],
            {block.block_id: block.block_hash.hex()[-16:] for block in pool.blocks if block.block_hash},
            {
                request.request_id: self.manager.get_block_ids(request.request_id)
                for request in (*self.running, *self.loading)
            },
            round(self.manager.usage, 12),
            list(self._events()),
        )

    def _events(self) -> Iterator[tuple[Any, ...]]:
        """Events but those of vLLM that store nothing, which ours does not send."""
        for event in self.manager.take_events():
            hashes = getattr(event, "block_hashes", [None])
            if self.scenario.exact_events and hashes:
                yield _plain(event)
            else:
                yield from ((type(event).__name__, one) for one in hashes)


def _shown(argument: Any) -> Any:
    """An argument of a call as a diary shows it, the same in every run."""
    return sorted(argument) if isinstance(argument, set) else getattr(argument, "request_id", argument)


def _plain(event: Any) -> tuple[Any, ...]:
    """An event of either side, field by field."""
    names = ("block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium", "lora_name")
    return (type(event).__name__, *(getattr(event, name, None) for name in names))

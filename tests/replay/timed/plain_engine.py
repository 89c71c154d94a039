"""A continuous-batching engine in the plainest possible form: one step at a time, everything by searching."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(eq=False)
class Slot:
    """A block: the whole prefix that it holds, or None; when it was indexed; who holds it."""

    prefix: object = None
    indexed: int = 0
    holders: int = 0


@dataclass(eq=False)
class PlainRequest:
    """A request. `named` of its tokens are known to the cache: all of `tokens`, or the prompt only."""

    number: int
    arrival: int
    prompt: int
    outputs: int
    tokens: list[int]
    block_ends: list[int]
    computed: int = 0
    had: int = 0
    generated: int = 0
    prefilling: bool = True
    admissions: int = 0
    blocks: list[Slot] = field(default_factory=list)


@dataclass
class PlainEngine:
    """Engine or trace rules. Times in nanoseconds."""

    capacity: int
    engine_rules: bool
    max_running: int
    max_batched_tokens: int
    prefill_ns: Callable[[int], int]
    decode_ns: int

    def __post_init__(self) -> None:
        self.slots = [Slot() for _ in range(self.capacity)]
        self.free = list(self.slots)  # next to be recycled first
        self.indexed = self.evictions = self.steps = self.now = 0
        self.waiting: list[PlainRequest] = []
        self.running: list[PlainRequest] = []
        self.refused: list[int] = []
        self.hits = self.hit_tokens = self.prompt_tokens = 0
        self.preemptions = self.resumed = self.resumed_tokens = self.resumed_hit_tokens = self.recomputed = 0
        self.queueing: list[int] = []
        self.first_token: list[int] = []
        self.states: list[tuple[int, int, int, int, int]] = []  # duration, running, in use, idle, blank

    def play(self, requests: list[PlainRequest]) -> None:
        coming = list(requests)
        self.now = coming[0].arrival
        while coming or self.waiting or self.running:
            if not self.waiting and not self.running and coming[0].arrival > self.now:
                self.pass_time(coming[0].arrival - self.now)
            while coming and coming[0].arrival <= self.now:
                request = coming.pop(0)
                if self.blocks_for(request, self.computed_at_end(request)) > self.capacity:
                    self.refused.append(request.number)
                else:
                    self.waiting.append(request)
            if self.waiting or self.running:
                self.step()

    def computed_at_end(self, request: PlainRequest) -> int:
        return request.prompt + max(request.outputs, 1) - 1

    def step(self) -> None:
        self.steps += 1
        left = self.max_batched_tokens
        scheduled: list[tuple[PlainRequest, int]] = []
        preempted = False
        position = 0
        while position < len(self.running):
            request = self.running[position]
            count = min(request.prompt + request.generated - request.computed, left)
            while not self.grow(request, request.computed + count, []):
                preempted = True
                victim = self.running.pop()
                self.preempt(victim)
                if victim is request:
                    break
            else:
                scheduled.append((request, count))
                left -= count
            position += 1
        while not preempted and self.waiting and len(self.running) < self.max_running and left:
            request = self.waiting[0]
            found = self.look_up(request)
            start = min(request.block_ends[len(found) - 1], self.limit(request)) if found else 0
            count = min(request.prompt + request.generated - start, left)
            if not self.grow(request, start + count, found):
                break
            self.note_admission(request, found, start)
            self.running.append(self.waiting.pop(0))
            request.computed, request.prefilling = start, True
            scheduled.append((request, count))
            left -= count
        prefill = 0
        for request, count in scheduled:
            if request.prefilling:
                prefill += count
                self.recomputed += max(0, min(request.computed + count, request.had) - request.computed)
        decodes = any(not request.prefilling for request, _ in scheduled)
        self.pass_time(self.prefill_ns(prefill) + (self.decode_ns if decodes else 0))
        for request, count in scheduled:
            self.finish_step(request, count)

    def finish_step(self, request: PlainRequest, count: int) -> None:
        request.computed += count
        request.had = max(request.had, request.computed)
        if request.computed < request.prompt + request.generated:
            return
        request.prefilling = False
        request.generated += 1
        if request.generated == 1:
            self.first_token.append(self.now - request.arrival)
        if request.generated >= request.outputs:
            self.running.remove(request)
            self.give_back(request)

    def note_admission(self, request: PlainRequest, found: list[Slot], start: int) -> None:
        request.admissions += 1
        if request.admissions > 1:
            self.resumed += 1
            self.resumed_tokens += request.prompt + request.generated
            self.resumed_hit_tokens += start
            return
        self.queueing.append(self.now - request.arrival)
        self.prompt_tokens += request.prompt
        self.hits += len(found)
        self.hit_tokens += start

    def preempt(self, request: PlainRequest) -> None:
        self.preemptions += 1
        self.give_back(request)
        request.computed = 0
        self.waiting.insert(0, request)

    def limit(self, request: PlainRequest) -> int:
        """Tokens that take blocks."""
        return 10**9 if self.engine_rules else request.prompt

    def blocks_for(self, request: PlainRequest, tokens: int) -> int:
        starts = [0, *request.block_ends]
        return sum(start < min(tokens, self.limit(request)) for start in starts)

    def prefixes(self, request: PlainRequest, tokens: int) -> list[object]:
        """Of the blocks that are full with so many tokens, as far as their tokens have names."""
        if not self.engine_rules and tokens >= request.prompt:
            ends = [end for end in request.block_ends if end < request.prompt] + [request.prompt]
        else:
            ends = [end for end in request.block_ends if end <= min(tokens, len(request.tokens))]
        return [
            (tuple(request.block_ends[: place + 1]), tuple(request.tokens[:end]))
            for place, end in enumerate(ends)
        ]

    def look_up(self, request: PlainRequest) -> list[Slot]:
        known = request.prompt + request.generated
        found: list[Slot] = []
        for prefix in self.prefixes(request, known - 1 if self.engine_rules else known):
            copies = [slot for slot in self.slots if slot.prefix == prefix]
            if not copies:
                break
            found.append(min(copies, key=lambda slot: slot.indexed))
        return found

    def grow(self, request: PlainRequest, tokens: int, found: list[Slot]) -> bool:
        wanted = self.blocks_for(request, tokens) - len(request.blocks) - len(found)
        if wanted > len([slot for slot in self.free if slot not in found]):
            return False
        for slot in found:
            slot.holders += 1
            if slot in self.free:
                self.free.remove(slot)
        for _ in range(wanted):
            slot = self.free.pop(0)
            self.evictions += slot.prefix is not None
            slot.prefix, slot.holders = None, 1
            found = [*found, slot]
        request.blocks += found
        for slot, prefix in zip(request.blocks, self.prefixes(request, tokens), strict=False):
            if slot.prefix is None:
                self.indexed += 1
                slot.prefix, slot.indexed = prefix, self.indexed
        return True

    def give_back(self, request: PlainRequest) -> None:
        for slot in reversed(request.blocks):
            slot.holders -= 1
            if not slot.holders:
                self.free.append(slot)
        request.blocks = []

    def pass_time(self, duration: int) -> None:
        idle = sum(slot.prefix is not None for slot in self.free)
        in_use = self.capacity - len(self.free)
        self.states.append((duration, len(self.running), in_use, idle, len(self.free) - idle))
        self.now += duration

"""Miss reasons in the plainest possible form: all history is kept, everything is found by searching it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from blockpool.trace import TraceRequest


class Block(NamedTuple):
    """A block to be indexed: all that it stands for, the block before it, and its own tokens (None: a trace of ids)."""

    identity: Any
    parent: Any
    tokens: tuple[int, ...] | None


class Verdict(NamedTuple):
    """Why one block missed."""

    reason: str
    kinds: str = ""
    evicted_by: int | None = None
    evicted_at: float | None = None
    too_few: int | None = None


@dataclass(eq=False)
class Slot:
    """A block of a pool."""

    identity: Any = None
    filled: int = 0


@dataclass
class ModelPool:
    """An LRU pool as a list, next to be recycled first."""

    capacity: int
    reuse_uncached_first: bool
    fills: int = 0
    evicted: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.queue = [Slot() for _ in range(self.capacity)]

    def has(self, identity: Any) -> bool:
        return any(slot.identity == identity for slot in self.queue)

    def hits(self, identities: Sequence[Any], most: int) -> int:
        count = 0
        while count < min(most, len(identities)) and self.has(identities[count]):
            count += 1
        return count

    def play(self, identities: Sequence[Any], most: int, num_blocks: int) -> None:
        held = []
        for identity in identities[: self.hits(identities, most)]:
            held.append(min((s for s in self.queue if s.identity == identity), key=lambda slot: slot.filled))
        for slot in held:
            self.queue.remove(slot)
        self.evicted = []
        for position in range(len(held), num_blocks):
            slot = self.queue.pop(0)
            if slot.identity is not None:
                self.evicted.append(slot.identity)
            slot.identity = identities[position] if position < len(identities) else None
            self.fills += 1
            slot.filled = self.fills
            held.append(slot)
        held.reverse()
        if self.reuse_uncached_first:
            self.queue[:0] = [slot for slot in held if slot.identity is None]
            held = [slot for slot in held if slot.identity is not None]
        self.queue.extend(held)


class MissModel:
    """Plays requests on a pool, and on larger ones as they are asked for, and says why each block missed."""

    def __init__(self, capacity: int, rules: str, *, reuse_uncached_first: bool) -> None:
        self.engine = rules == "engine"
        self.reuse_uncached_first = reuse_uncached_first
        self.capacity = capacity
        self.played: list[tuple[list[int], int, int]] = []
        self.pools = {capacity: ModelPool(capacity, reuse_uncached_first)}
        self.names: dict[Any, int] = {}
        self.history: list[Block] = []  # every block that was ever indexed
        self.evictions: list[tuple[Any, int, float]] = []
        self.before: dict[Any, Any] = {}
        self.chains = True
        self.number = -1
        self.seconds = 0.0

    def play(self, request: TraceRequest) -> tuple[list[Verdict], int | None]:
        """One verdict per missed block, and the first token that differs."""
        self.number += 1
        if request.timestamp_ms is None:
            self.seconds += 1.0
        else:
            self.seconds = request.timestamp_ms / 1000
        blocks, num_blocks = self.blocks_of(request)
        if num_blocks > self.capacity:
            verdict = Verdict("no room", too_few=num_blocks - self.capacity)
            return [verdict] * request.num_prompt_blocks, None
        names = self.named(blocks)
        most = request.num_prompt_blocks - self.engine
        hits = self.pools[self.capacity].hits(names, most)
        fork = self.fork(request, blocks, hits)
        verdicts = [
            self.verdict(request, blocks, index, most, fork[0])
            for index in range(hits, request.num_prompt_blocks)
        ]
        self.tell_too_few(verdicts, blocks, hits, most)
        self.played.append((names, most, num_blocks))
        for pool in self.pools.values():
            pool.play(names, most, num_blocks)
        self.evictions += [(name, self.number, self.seconds) for name in self.pools[self.capacity].evicted]
        for block in blocks:
            if self.before.setdefault(block.identity, block.parent) != block.parent:
                self.chains = False
        self.history += blocks
        return verdicts, fork[1] if any(verdict.reason == "differs" for verdict in verdicts) else None

    def named(self, blocks: list[Block]) -> list[int]:
        return [self.names.setdefault(block.identity, len(self.names)) for block in blocks]

    def pool_of(self, capacity: int) -> ModelPool:
        if capacity not in self.pools:
            pool = self.pools[capacity] = ModelPool(capacity, self.reuse_uncached_first)
            for played in self.played:
                pool.play(*played)
        return self.pools[capacity]

    def blocks_of(self, request: TraceRequest) -> tuple[list[Block], int]:
        if request.block_ids is not None:
            ids = request.block_ids
            full = request.block_size or max(request.block_tokens or [])
            last = request.tokens_in_first(len(ids)) - request.tokens_in_first(len(ids) - 1)
            keyed = ids[:-1] if self.engine and last < full else ids
            return [Block(b, a, None) for a, b in zip([None, *keyed], keyed, strict=False)], len(ids)
        size = request.block_size
        tokens = list(request.token_ids or [])
        if self.engine:
            tokens += (request.output_token_ids or [])[:-1]
        num_blocks = -(-len(tokens) // size)
        keyed = len(tokens) // size if self.engine else num_blocks
        blocks: list[Block] = []
        parent: Any = (request.lora, request.salt)
        for end in range(size, keyed * size + 1, size):
            identity = (request.lora, request.salt, self.images_before(request, end), tuple(tokens[:end]))
            blocks.append(Block(identity, parent, tuple(tokens[end - size : end])))
            parent = identity
        return blocks, num_blocks

    @staticmethod
    def images_before(request: TraceRequest, end: int) -> tuple[tuple[int, str, int], ...]:
        """Every image that a block of the prefix holds a part of, with its place."""
        return tuple(
            (block, name, start)
            for block in range(0, end, request.block_size)
            for name, start, length in request.images or []
            if start < block + request.block_size and start + length > block
        )

    def known(self, identity: Any) -> bool:
        return any(block.identity == identity for block in self.history)

    def fork(self, request: TraceRequest, blocks: list[Block], hits: int) -> tuple[str, int | None]:
        prefix = hits
        while prefix < min(len(blocks), request.num_prompt_blocks) and self.known(blocks[prefix].identity):
            prefix += 1
        if prefix >= min(len(blocks), request.num_prompt_blocks):
            return "never seen", None
        before = request.tokens_in_first(prefix)
        mine = blocks[prefix]
        if mine.tokens is None:
            followed = any(block.parent == mine.parent for block in self.history)
            return ("differs", before) if prefix and followed else ("never seen", None)
        children = [block.tokens for block in self.history if block.parent == mine.parent]
        shared = [common(child, mine.tokens) for child in children]
        best = max(shared, default=0)
        going_on = [child for child, part in zip(children, shared, strict=True) if part == best < len(child)]
        if best == len(mine.tokens):
            # Only a partial block can begin another; with the same tokens it is the key that differs.
            return ("never seen" if mine.tokens in children else "partial block"), None
        return ("differs", before + best) if going_on and before + best else ("never seen", None)

    def verdict(
        self, request: TraceRequest, blocks: list[Block], index: int, most: int, rest: str
    ) -> Verdict:
        prompt_end = request.tokens_in_first(index + 1)
        if self.engine and index == request.num_prompt_blocks - 1:
            if index >= len(blocks) or (request.block_ids is None and prompt_end % request.block_size):
                return Verdict("partial block")
            if self.known(blocks[index].identity):
                return Verdict("last-token rule")
        identity = blocks[index].identity
        [name] = self.named([blocks[index]])
        if self.pools[self.capacity].has(name):
            return Verdict("behind a miss")
        if self.known(identity):
            _, number, seconds = [entry for entry in self.evictions if entry[0] == name][-1]
            return Verdict("evicted", "", number, seconds)
        kinds = self.other_kinds(identity) if request.token_ids is not None else ""
        return Verdict("other key", kinds) if kinds else Verdict(rest)

    def tell_too_few(self, verdicts: list[Verdict], blocks: list[Block], hits: int, most: int) -> None:
        """Adds to evicted blocks how many blocks too few there are, unless ids follow other ids than before."""
        places = [place for place, verdict in enumerate(verdicts) if verdict.reason == "evicted"]
        before = blocks[: hits + places[-1] + 1] if places else []
        if self.chains and all(self.before.get(b.identity, b.parent) == b.parent for b in before):
            for place in places:
                too_few = self.too_few(blocks, hits + place, most)
                verdicts[place] = verdicts[place]._replace(too_few=too_few)

    def too_few(self, blocks: list[Block], index: int, most: int) -> int:
        """How many blocks more the smallest pool has that finds the block."""
        names = self.named(blocks)
        too_few = 1
        while self.pool_of(self.capacity + too_few).hits(names, most) <= index:
            too_few += 1
            assert too_few < 1000, "no pool finds it"
        return too_few

    def other_kinds(self, identity: Any) -> str:
        lora, salt, images, tokens = identity
        best: list[str] = []
        candidates = [block.identity for block in self.history if block.identity[3] == tokens]
        candidates.sort(key=lambda other: other[:3] != (None, None, ()))
        for other in candidates:
            kinds = [
                kind
                for kind, mine, theirs in zip(
                    ("lora", "salt", "image"), (lora, salt, images), other[:3], strict=True
                )
                if mine != theirs
            ]
            if not best or len(kinds) < len(best):
                best = kinds
        return " + ".join(best)


def common(first: Sequence[int], second: Sequence[int]) -> int:
    count = 0
    while count < min(len(first), len(second)) and first[count] == second[count]:
        count += 1
    return count

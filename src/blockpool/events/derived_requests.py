"""`DerivedRequests`: the prompts that a recording shows being computed, as requests of a trace.

What a recording cannot say is not made up. Hits leave no events, so a prompt that was found whole is not there, and how
often a prefix was found shows only in what was computed behind it. Prompt and output are one, both end at the edge of a
block, and what was never full is missing.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import Any, BinaryIO, Final, final

from blockpool.events.received import Source
from blockpool.events.recording_format import RecordedBatch
from blockpool.events.wire_events import ClearedEvent, RemovedEvent, StoredEvent
from blockpool.trace.formats import MAX_TIMESTAMP_MS, TOKEN_IDS
from blockpool.trace.request import TraceRequest
from blockpool.trace.writer import write_trace

SAME_REQUEST_SECONDS: Final = 5.0
_MAX_TOKEN: Final = 0xFFFFFFFF


@dataclass(slots=True)
class _Block:
    """A known block. Without `tokens` it cannot be part of a request."""

    parent: int | None
    tokens: array[int] | None
    copies: int = 0


@dataclass(slots=True)
class _Prompt:
    """What is taken for one request."""

    first: float
    last: float
    tokens: array[int]
    lora: str | None
    session: str | None


@final
class DerivedRequests:
    """One request for each chain of blocks that was stored, with everything before it in the prompt.

    A chain that grows on at its end within `SAME_REQUEST_SECONDS` is the same request: a prompt that is computed in
    pieces, or its output. Memory: 4 bytes for each token of every request.

    Attributes:
        num_copies: Runs of which every block was there already: computed twice, or another KV cache group.
        num_without_beginning: Runs whose prompt begins with blocks that are not known.
        num_unreadable: Runs with extra keys (images, salts), or without tokens of their own.
        block_sizes: Tokens per block, all that were met.
    """

    def __init__(self) -> None:
        self.num_copies = 0
        self.num_without_beginning = 0
        self.num_unreadable = 0
        self.block_sizes: set[int] = set()
        self._prompts: list[_Prompt] = []
        self._blocks: dict[Source, dict[int, _Block]] = {}
        self._growing: dict[tuple[Source, int], _Prompt] = {}

    def add(self, batch: RecordedBatch) -> None:
        """Takes the next batch of the recording."""
        source = batch.source
        if batch.reset:
            self._forget(source)
        blocks = self._blocks.setdefault(source, {})
        now = batch.at if batch.ts is None else batch.ts
        for event in batch.events:
            if isinstance(event, StoredEvent):
                is_new = any(block_hash not in blocks for block_hash in event.block_hashes)
                _store(blocks, event)
                if batch.origin == "snapshot":
                    continue
                if is_new:
                    self._derive(source, blocks, event, now)
                else:
                    self.num_copies += 1
            elif isinstance(event, RemovedEvent):
                for block_hash in event.block_hashes:
                    block = blocks.get(block_hash)
                    if block is not None:
                        block.copies -= 1
                        if not block.copies:
                            del blocks[block_hash]
            elif isinstance(event, ClearedEvent):
                self._forget(source)
                blocks = self._blocks.setdefault(source, {})

    def requests(self) -> list[TraceRequest]:
        """All of them, in order of time, which begins at 0."""
        prompts = sorted(self._prompts, key=lambda prompt: prompt.first)
        start = prompts[0].first if prompts else 0.0
        return [
            TraceRequest(
                timestamp_ms=min(round((prompt.first - start) * 1000, 3), MAX_TIMESTAMP_MS),
                prompt_tokens=len(prompt.tokens),
                block_size=None,
                token_ids=prompt.tokens.tolist(),
                lora=prompt.lora,
                session_id=prompt.session,
            )
            for prompt in prompts
        ]

    def write(self, file: BinaryIO) -> None:
        """Writes them as a trace of token ids."""
        write_trace(self.requests(), file, TOKEN_IDS, block_size=1)

    def counts(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "requests": len(self._prompts),
            "copies": self.num_copies,
            "without_beginning": self.num_without_beginning,
            "unreadable": self.num_unreadable,
            "block_sizes": sorted(self.block_sizes),
        }

    def words(self, name: str) -> str:
        """What was written, for people."""
        sizes = ", ".join(map(str, sorted(self.block_sizes)))
        blocks = f", in blocks of {sizes} tokens" if sizes else ""
        return (
            f"{len(self._prompts):,} requests in {name}{blocks}; left out: "
            f"{self.num_copies:,} copies, {self.num_without_beginning:,} without their beginning, "
            f"{self.num_unreadable:,} unreadable\n"
            "prompts that were found whole are not in it: its hit rate is too low for the traffic"
        )

    def _derive(self, source: Source, blocks: dict[int, _Block], event: StoredEvent, now: float) -> None:
        own = [blocks[block_hash].tokens for block_hash in event.block_hashes]
        if None in own:
            self.num_unreadable += 1
            return
        self.block_sizes.add(event.block_size)
        parent = event.parent_block_hash
        prompt = None if parent is None else self._growing.pop((source, parent), None)
        if prompt is None or now - prompt.last > SAME_REQUEST_SECONDS:
            before = _tokens_before(blocks, parent)
            if before is None:
                self.num_without_beginning += 1
                return
            lora = event.lora_name or None  # a trace has no adapter without a name
            if lora is None and event.lora_id is not None:
                lora = f"adapter {event.lora_id}"
            prompt = _Prompt(now, now, before, lora, event.session_id)
            self._prompts.append(prompt)
        for tokens in own:
            prompt.tokens.extend(tokens or ())
        prompt.last = max(prompt.last, now)
        self._growing[source, event.block_hashes[-1]] = prompt

    def _forget(self, source: Source) -> None:
        self._blocks.pop(source, None)
        self._growing = {key: prompt for key, prompt in self._growing.items() if key[0] != source}


def _store(blocks: dict[int, _Block], event: StoredEvent) -> None:
    """One copy more of each block of the run."""
    size = event.block_size
    parent = event.parent_block_hash
    readable = (
        size > 0
        and len(event.token_ids) == size * len(event.block_hashes)
        and not _has_more_keys(event)
        and all(0 <= token <= _MAX_TOKEN for token in event.token_ids)
    )
    for place, block_hash in enumerate(event.block_hashes):
        block = blocks.get(block_hash)
        if block is None:
            tokens = array("I", event.token_ids[place * size : (place + 1) * size]) if readable else None
            block = blocks[block_hash] = _Block(parent, tokens)
        block.copies += 1
        parent = block_hash


def _has_more_keys(event: StoredEvent) -> bool:
    """Whether anything but tokens and the adapter went into the hashes; vLLM 0.32 tags it, 0.16 does not."""
    adapter = ([event.lora_name], [["lora", event.lora_name]])
    return any(keys and keys not in adapter for keys in event.extra_keys or ())


def _tokens_before(blocks: dict[int, _Block], parent: int | None) -> array[int] | None:
    """All tokens up to the end of that block; None if they are not known."""
    chain: list[array[int]] = []
    while parent is not None:
        block = blocks.get(parent)
        if block is None or block.tokens is None or len(chain) > len(blocks):
            return None
        chain.append(block.tokens)
        parent = block.parent
    tokens = array("I")
    for part in reversed(chain):
        tokens.extend(part)
    return tokens

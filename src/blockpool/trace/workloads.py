"""Three kinds of session, as LLM servers see them; the generator interleaves many of each.

A session is an iterator of steps. The numbers (lengths in tokens, gaps in milliseconds) are of the size that
published traces show; docs/traces.md lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from blockpool.trace.draws import Draws

MAX_PROMPT_TOKENS = 16_384  # where a session ends, as at the edge of a context window

SYSTEM_PROMPTS = 12
AGENT_KINDS = 4
DOCUMENTS = 60

_SHARED_STREAMS = 2**63  # streams from here on belong to shared texts, those below to sessions


class Step(NamedTuple):
    """One request of a session: when it comes after the one before it, what it asks, what is answered."""

    gap_ms: int
    prompt: list[int]
    output: list[int]


class SharedTexts:
    """Texts that many sessions begin with. Each depends on the seed, its kind and its number only."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._texts: dict[tuple[int, int], list[int]] = {}

    def system_prompt(self, number: int) -> list[int]:
        """The system prompt of a chat application, 100 … 2,000 tokens."""
        return self._text(0, number, 500, 100, 2_000)

    def agent_preamble(self, number: int) -> list[int]:
        """Instructions and tool descriptions of an agent, 800 … 4,000 tokens."""
        return self._text(1, number, 1_800, 800, 4_000)

    def document(self, number: int) -> list[int]:
        """A document, 300 … 8,000 tokens."""
        return self._text(2, number, 2_000, 300, 8_000)

    def document_instructions(self) -> list[int]:
        """What every question over documents begins with, 60 … 200 tokens."""
        return self._text(3, 0, 100, 60, 200)

    def _text(self, kind: int, number: int, mean: int, low: int, high: int) -> list[int]:
        text = self._texts.get((kind, number))
        if text is None:
            draws = Draws(self._seed, _SHARED_STREAMS + (kind << 32) + number)
            text = self._texts[kind, number] = draws.tokens(draws.length(mean, low, high))
        return text


def chat_session(draws: Draws, shared: SharedTexts) -> Iterator[Step]:
    """A conversation under a shared system prompt: each turn repeats all earlier ones and their answers."""
    context = shared.system_prompt(draws.popular(SYSTEM_PROMPTS))
    gap_ms = 0
    for _ in range(draws.length(5, 1, 30)):
        prompt = context + draws.tokens(draws.length(80, 5, 1_500))
        output = draws.tokens(draws.length(200, 10, 1_000))
        yield Step(gap_ms, prompt, output)
        context = prompt + output
        gap_ms = draws.length(20_000, 2_000, 300_000)
        if len(context) > MAX_PROMPT_TOKENS:
            return


def agent_session(draws: Draws, shared: SharedTexts) -> Iterator[Step]:
    """A task in steps: each prompt is the one before it, the action generated, and what the tool said."""
    prompt = shared.agent_preamble(draws.popular(AGENT_KINDS)) + draws.tokens(draws.length(150, 20, 1_000))
    gap_ms = 0
    for _ in range(draws.length(8, 2, 40)):
        output = draws.tokens(draws.length(90, 20, 600))
        yield Step(gap_ms, prompt, output)
        prompt = prompt + output + draws.tokens(draws.length(350, 10, 4_000))
        gap_ms = draws.length(3_000, 300, 60_000)
        if len(prompt) > MAX_PROMPT_TOKENS:
            return


def document_session(draws: Draws, shared: SharedTexts) -> Iterator[Step]:
    """One or a few separate questions over a document that others ask about too."""
    document = shared.document_instructions() + shared.document(draws.popular(DOCUMENTS))
    gap_ms = 0
    for _ in range(draws.length(2, 1, 6)):
        prompt = document + draws.tokens(draws.length(40, 8, 300))
        yield Step(gap_ms, prompt, draws.tokens(draws.length(150, 10, 800)))
        gap_ms = draws.length(30_000, 3_000, 300_000)


Session = Callable[[Draws, SharedTexts], Iterator[Step]]

# Sessions of each kind and how many times in ten a session of the workload is of that kind.
WORKLOADS: dict[str, tuple[tuple[str, Session, int], ...]] = {
    "chat": (("chat", chat_session, 10),),
    "agent": (("agent", agent_session, 10),),
    "documents": (("documents", document_session, 10),),
    "mix": (("chat", chat_session, 5), ("agent", agent_session, 2), ("documents", document_session, 3)),
}

"""What `--attention` says: the KV cache groups of a model, in a few characters.

| text | groups |
|---|---|
| `full` | one of full attention |
| `sliding:4096` | one of a sliding window of 4,096 tokens |
| `chunked:8192` | one of local attention in chunks of 8,192 tokens |
| `mamba`, `mamba:align` | one of recurrent states, kept at the end of every block, or of every step |
| `hybrid:full+5*sliding:1024` | several that share a pool, here one of full attention and five of windows |
"""

from __future__ import annotations

import re
from typing import NamedTuple

from blockpool.errors import ArgumentError, ConfigError

FULL = "full"
SLIDING = "sliding"
CHUNKED = "chunked"
MAMBA = "mamba"
ALIGNED_MAMBA = "mamba:align"
HYBRID = "hybrid:"

MAX_TOKENS = 1_000_000_000
MAX_GROUPS = 64

_PART = re.compile(
    r"(?:([0-9]{1,9})\*)?(?:(full|mamba:align|mamba)|(sliding|chunked):([0-9]{1,10}))", re.ASCII
)
_FORMS = (
    "must be full, sliding:WINDOW, chunked:SIZE, mamba, mamba:align, or hybrid: and several of them joined by +, "
    "as in hybrid:full+5*sliding:1024"
)


class AttentionPart(NamedTuple):
    """Equal KV cache groups.

    Attributes:
        kind: One of the constants of this module.
        tokens: The window or the chunk, 1 … `MAX_TOKENS`; 0 for other kinds.
        num_groups: How many of them, at least 1.
    """

    kind: str
    tokens: int
    num_groups: int


def parse_attention(text: str) -> tuple[AttentionPart, ...]:
    """Reads a description, at least one part. Equal parts of a hybrid are one part.

    Raises:
        ArgumentError: It is no string.
        ConfigError: It is not of the forms above; a window of 0 or above `MAX_TOKENS`; over `MAX_GROUPS` groups.
    """
    if not isinstance(text, str):
        raise ArgumentError("attention", text, "a description such as 'sliding:4096' is needed")
    is_hybrid = text.startswith(HYBRID)
    num_groups: dict[tuple[str, int], int] = {}
    for part in text.removeprefix(HYBRID).split("+") if is_hybrid else [text]:
        match = _PART.fullmatch(part)
        if match is None or (match[1] is not None and not is_hybrid):
            raise ConfigError("attention", text, _FORMS)
        kind, tokens = match[2] or match[3], int(match[4] or 0)
        if match[3] and not 1 <= tokens <= MAX_TOKENS:
            raise ConfigError("attention", text, f"{kind} takes 1 … {MAX_TOKENS:,} tokens")
        count = int(match[1] or 1)
        if count < 1:
            raise ConfigError("attention", text, "a group that is there 0 times")
        num_groups[kind, tokens] = num_groups.get((kind, tokens), 0) + count
    total = sum(num_groups.values())
    if total > MAX_GROUPS:
        raise ConfigError("attention", text, f"has {total:,} groups, and {MAX_GROUPS} are the most")
    if is_hybrid and total < 2:
        raise ConfigError("attention", text, "a hybrid has several groups")
    return tuple(AttentionPart(kind, tokens, count) for (kind, tokens), count in num_groups.items())

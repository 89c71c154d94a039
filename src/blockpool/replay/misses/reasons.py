"""The reasons for which a prompt block is not found, and the runs of blocks of one request that have them."""

from __future__ import annotations

from typing import Final, NamedTuple

NEVER_SEEN: Final = "never seen"
DIFFERS: Final = "differs"
EVICTED: Final = "evicted"
OTHER_KEY: Final = "other key"
PARTIAL_BLOCK: Final = "partial block"
LAST_TOKEN: Final = "last-token rule"  # noqa: S105 - no password
BEHIND_A_MISS: Final = "behind a miss"
NO_ROOM: Final = "no room"

REASONS: Final = (
    NEVER_SEEN,
    DIFFERS,
    EVICTED,
    OTHER_KEY,
    PARTIAL_BLOCK,
    LAST_TOKEN,
    BEHIND_A_MISS,
    NO_ROOM,
)
"""All of them, in the order in which they are reported; docs/explain.md says what each means."""


class MissRun(NamedTuple):
    """Neighbouring blocks of one prompt that missed for one reason.

    Attributes:
        reason: One of `REASONS`.
        first: Index of the first of them, from 0.
        stop: Index after the last.
        kinds: With "other key", what differs: "lora", "salt", "image", or several joined by " + "; else "".
    """

    reason: str
    first: int
    stop: int
    kinds: str = ""


class Eviction(NamedTuple):
    """When a block lost its last copy in the pool.

    Attributes:
        request: Number of the request that began last: where they do not overlap, the one that was given its room.
        seconds: The time then, by the clock of the replay; requests where the trace has no times.
    """

    request: int
    seconds: float


class RequestMisses(NamedTuple):
    """What one request missed.

    Attributes:
        runs: In the order of the prompt, without gaps from the first miss to the end of the prompt.
        differs_at: Index of the first prompt token that differs from the nearest known continuation, or None.
        evictions: Of each block that is `EVICTED`, in the order of the prompt.
    """

    runs: tuple[MissRun, ...]
    differs_at: int | None
    evictions: tuple[Eviction, ...]

"""`BlockAccess`: what the scheduler of a timed replay asks of whoever keeps the blocks."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from blockpool.core.pool import BlockPool
from blockpool.replay.timed.timed_request import TimedRequest


class Found(NamedTuple):
    """What a look-up found.

    Attributes:
        num_blocks: Leading blocks of the request that need not be computed.
        blocks: Them, for whoever found them.
    """

    num_blocks: int
    blocks: Any


class BlockAccess(Protocol):
    """Looks up, allocates and frees for requests; what becomes full is indexed as it is allocated, as vLLM does.

    Tells what happens to blocks to whoever explains misses or draws a block map.
    """

    @property
    def pool(self) -> BlockPool:
        """The pool that all is taken from."""
        ...

    def num_blocks(self, request: TimedRequest) -> int:
        """Blocks with which a request can run to its end when it is alone. It is refused where there are fewer."""
        ...

    def look_up(self, request: TimedRequest) -> Found:
        """What the cache has of a request that holds no blocks. Changes nothing."""
        ...

    def is_resident(self, key: Any) -> bool:
        """Whether the pool has any block under a key."""
        ...

    def has_room(self, request: TimedRequest, num_tokens: int, found: Found) -> bool:
        """Whether `admit` would find enough blocks."""
        ...

    def admit(self, request: TimedRequest, num_tokens: int, found: Found) -> None:
        """Gives a request that holds no blocks those for its first tokens. Only with `has_room`.

        Args:
            request: The request.
            num_tokens: Computed when the step is done, those in `found` included.
            found: What `look_up` has just found.
        """
        ...

    def grow(self, request: TimedRequest, num_tokens: int) -> bool:
        """Makes the blocks of a running request cover its first tokens, all computed when the step is done.

        Returns:
            False: there are not enough blocks, and nothing has changed.
        """
        ...

    def free(self, request: TimedRequest) -> None:
        """Gives all blocks of a request back, tail first."""
        ...

    def next_event(self, request: TimedRequest, token: int) -> int:
        """The next token of a decoding request at which more happens than being computed; see `TimedRequest`.

        Args:
            request: It runs.
            token: The one computed last, below `total_tokens`.
        """
        ...

    def next_change(self, request: TimedRequest) -> int:
        """The next token of a prefilling request at which more happens than being computed, or may happen."""
        ...

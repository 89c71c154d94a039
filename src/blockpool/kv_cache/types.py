"""`KVCacheRequest`: what the managers read of an engine's own request object."""

from __future__ import annotations

from typing import Protocol

from blockpool.core.types import Request


class KVCacheRequest(Request, Protocol):
    """The attributes that `KVCacheManager` reads, named as in vLLM; it writes none of them."""

    @property
    def num_tokens(self) -> int:
        """Prompt and output so far, without unverified draft tokens."""
        ...

    @property
    def num_computed_tokens(self) -> int:
        """Tokens whose KV is there, or is being computed by a step that has been scheduled. 0 after a preemption."""
        ...

    @property
    def num_preemptions(self) -> int:
        """How often it lost its blocks; the statistics count it apart once it did. Read only with `log_stats`."""
        ...

    @property
    def skip_reading_prefix_cache(self) -> bool:
        """Whether it must compute its whole prompt, for the logits of the prompt, say. It is indexed all the same."""
        ...

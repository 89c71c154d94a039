"""What the managers take from a scheduler: the protocol of a request, and argument types.

As in `core/types`, the compiler is told that `BLOCKPOOL_COMPILING` is true: whatever comes is then checked by the
managers' own checks. This module itself is not compiled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from blockpool.core.types import Request

if TYPE_CHECKING:
    from blockpool.core.block import KVCacheBlock
    from blockpool.kv_cache.blocks import KVCacheBlocks

BLOCKPOOL_COMPILING = False


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


if not BLOCKPOOL_COMPILING:
    RequestArg: TypeAlias = KVCacheRequest
    BlocksArg: TypeAlias = "KVCacheBlocks"
    BlockGroupsArg: TypeAlias = "tuple[Sequence[KVCacheBlock], ...]"
else:
    RequestArg = Any
    BlocksArg = Any
    BlockGroupsArg = Any

"""What the core takes from its callers: argument types and the protocols of engine objects.

The compiler is told that `BLOCKPOOL_COMPILING` is true (setup.py). The arguments below are then plain objects to it, so
that a wrong one reaches the core's own check and its typed error, and not the compiler's TypeError; to everybody else
they are what they say. This module itself is not compiled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NewType, Protocol, TypeAlias

if TYPE_CHECKING:
    from blockpool.core.block import KVCacheBlock

BLOCKPOOL_COMPILING = False
if not BLOCKPOOL_COMPILING:
    BoolArg: TypeAlias = bool
    IntArg: TypeAlias = int
    FloatArg: TypeAlias = float
    BytesArg: TypeAlias = bytes
    StrArg: TypeAlias = str
    BlockArg: TypeAlias = "KVCacheBlock"
    KeysArg: TypeAlias = tuple[object, ...]
else:
    BoolArg = object
    IntArg = object
    FloatArg = object
    BytesArg = object
    StrArg = object
    BlockArg = object
    KeysArg = object

BlockHash = NewType("BlockHash", bytes)
"""Digest of one block's content and of everything before it."""

BlockHashWithGroupId = NewType("BlockHashWithGroupId", bytes)
"""A `BlockHash` followed by its KV cache group id in 4 bytes, big endian: the key of the prefix index."""


class LoRARequest(Protocol):
    """The adapter of a request, as events name it."""

    @property
    def adapter_id(self) -> int: ...

    @property
    def name(self) -> str: ...


class Request(Protocol):
    """What the pool reads of an engine's own request object."""

    @property
    def request_id(self) -> str:
        """Names the request for the engine; the pool carries it for nobody and does not read it."""
        ...

    @property
    def block_hashes(self) -> Sequence[bytes]:
        """One hash per full block of `hash_block_size` tokens."""
        ...

    @property
    def all_token_ids(self) -> Sequence[int]:
        """Prompt and output so far. Read only when events are on."""
        ...

    @property
    def lora_request(self) -> Any:
        """None or a `LoRARequest`. Read only when events are on."""
        ...


class MetricsCollector(Protocol):
    """The hooks that the pool calls. They must not call the pool; what they raise is logged."""

    def on_block_allocated(self, block: KVCacheBlock) -> None: ...

    def on_block_accessed(self, block: KVCacheBlock) -> None: ...

    def on_block_evicted(self, block: KVCacheBlock) -> None: ...

    def reset(self) -> None: ...

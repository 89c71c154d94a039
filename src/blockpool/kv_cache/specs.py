"""What the layers of a model keep per token: one frozen, checked spec per attention type."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Final, TypeVar

from blockpool.core.arguments import as_choice, as_count, as_optional_text, as_size
from blockpool.errors import ArgumentError, ConfigError
from blockpool.kv_cache.dtypes import DType, element_bytes

FP8_DS_MLA_BYTES: Final = 656
"""Bytes per token of the layout "fp8_ds_mla" (vLLM 0.16): quantised latents, their scales, and unquantised RoPE."""
MAMBA_CACHE_MODES: Final = ("none", "all", "align")

AnySpec = TypeVar("AnySpec", bound="KVCacheSpec")


@dataclass(frozen=True, slots=True)
class KVCacheSpec:
    """What one layer keeps, as far as the managers need to know. All layers of a group have equal specs.

    Args:
        block_size: Tokens per block, at least 1.

    Raises:
        ArgumentError: For a field of the wrong type.
        ConfigError: For a number or name out of range.
    """

    block_size: int

    def __post_init__(self) -> None:
        _set(self, "block_size", as_size("block_size", self.block_size))

    @property
    def page_size_bytes(self) -> int:
        """Bytes that one block of one layer takes."""
        raise NotImplementedError

    def copy_with_new_block_size(self: AnySpec, block_size: int) -> AnySpec:
        """The same spec with blocks of another size."""
        return replace(self, block_size=block_size)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionSpec(KVCacheSpec):
    """Keys and values per token and head.

    Args:
        num_kv_heads: Heads whose keys and values are kept, at least 1.
        head_size: Elements per head of a key, at least 1.
        dtype: Name or bytes of an element, as in `DTYPE_BYTES`; an array library's type object will do.
        page_size_padded: Bytes that a block really takes, not below what it needs; None for no padding.
    """

    num_kv_heads: int
    head_size: int
    dtype: DType
    page_size_padded: int | None = None

    def __post_init__(self) -> None:
        KVCacheSpec.__post_init__(self)
        _set(self, "num_kv_heads", as_size("num_kv_heads", self.num_kv_heads))
        _set(self, "head_size", as_size("head_size", self.head_size))
        element_bytes("dtype", self.dtype)
        _set(self, "page_size_padded", _padding(self.page_size_padded, self.real_page_size_bytes))

    @property
    def page_size_bytes(self) -> int:
        """Bytes that one block of one layer takes, with its padding."""
        padded = self.page_size_padded
        return self.real_page_size_bytes if padded is None else padded

    @property
    def real_page_size_bytes(self) -> int:
        """Bytes that one block of one layer needs."""
        per_head = 2 * self.head_size * element_bytes("dtype", self.dtype)
        return self.block_size * self.num_kv_heads * per_head


@dataclass(frozen=True, slots=True, kw_only=True)
class FullAttentionSpec(AttentionSpec):
    """Every token attends to all before it.

    Args:
        head_size_v: Elements per head of a value, if not `head_size`.
        sliding_window: The window of layers that are kept like full attention though they look less far. Not used here.
        attention_chunk_size: Likewise, their chunk. Not used here; not together with a window.
    """

    head_size_v: int | None = None
    sliding_window: int | None = None
    attention_chunk_size: int | None = None

    def __post_init__(self) -> None:
        if self.head_size_v is None:
            _set(self, "head_size_v", as_size("head_size", self.head_size))
        else:
            _set(self, "head_size_v", as_size("head_size_v", self.head_size_v))
        for field in ("sliding_window", "attention_chunk_size"):
            if getattr(self, field) is not None:
                _set(self, field, as_size(field, getattr(self, field)))
        if self.sliding_window is not None and self.attention_chunk_size is not None:
            raise ConfigError("attention_chunk_size", self.attention_chunk_size, "there is a window already")
        AttentionSpec.__post_init__(self)

    @property
    def real_page_size_bytes(self) -> int:
        """Bytes that one block of one layer needs."""
        elements = self.head_size + (self.head_size if self.head_size_v is None else self.head_size_v)
        return self.block_size * self.num_kv_heads * elements * element_bytes("dtype", self.dtype)


@dataclass(frozen=True, slots=True, kw_only=True)
class MLAAttentionSpec(FullAttentionSpec):
    """Multi-head latent attention: one latent per token, no values beside it. Managed as full attention.

    Args:
        cache_dtype_str: "fp8_ds_mla" for that layout; else the size follows from heads, head size and dtype.
    """

    cache_dtype_str: str | None = None

    def __post_init__(self) -> None:
        as_optional_text("cache_dtype_str", self.cache_dtype_str)
        FullAttentionSpec.__post_init__(self)

    @property
    def real_page_size_bytes(self) -> int:
        """Bytes that one block of one layer needs."""
        if self.cache_dtype_str == "fp8_ds_mla":
            return self.block_size * FP8_DS_MLA_BYTES
        return self.block_size * self.num_kv_heads * self.head_size * element_bytes("dtype", self.dtype)


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkFullAttentionSpec(FullAttentionSpec):
    """Full attention with attention sinks that all requests share.

    Args:
        sink_len: Tokens of the sink, a positive multiple of `block_size`.
    """

    sink_len: int

    def __post_init__(self) -> None:
        FullAttentionSpec.__post_init__(self)
        _set(self, "sink_len", as_size("sink_len", self.sink_len))
        if self.sink_len % self.block_size != 0:
            raise ConfigError(
                "sink_len", self.sink_len, f"must be a multiple of block_size={self.block_size}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class SlidingWindowSpec(AttentionSpec):
    """Every token attends to itself and the `sliding_window` - 1 tokens before it.

    Args:
        sliding_window: Tokens in the window, at least 1.
    """

    sliding_window: int

    def __post_init__(self) -> None:
        AttentionSpec.__post_init__(self)
        _set(self, "sliding_window", as_size("sliding_window", self.sliding_window))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkedLocalAttentionSpec(AttentionSpec):
    """Every token attends to those before it in its own chunk.

    Args:
        attention_chunk_size: Tokens per chunk, at least 1.
    """

    attention_chunk_size: int

    def __post_init__(self) -> None:
        AttentionSpec.__post_init__(self)
        _set(self, "attention_chunk_size", as_size("attention_chunk_size", self.attention_chunk_size))


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossAttentionSpec(AttentionSpec):
    """The tokens attend to what an encoder made of the request's input: a fixed number of blocks, never shared."""


@dataclass(frozen=True, slots=True)
class MambaSpec(KVCacheSpec):
    """One state per request, whatever its length; a block holds a state.

    Args:
        shapes: Shape of each tensor of the state.
        dtypes: Element type of each.
        page_size_padded: Bytes that a block really takes, not below what it needs; None for no padding.
        mamba_type: Name of the architecture. Not used here.
        mamba_cache_mode: "all": the engine keeps the state at every block's end. "align": at the end of every step,
            which ends at a block's end; few blocks per request. "none": the running state alone.
        num_speculative_blocks: Blocks beside it for the states of draft tokens, 0 or more.
    """

    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[DType, ...]
    page_size_padded: int | None = None
    mamba_type: str = "mamba2"
    mamba_cache_mode: str = "none"
    num_speculative_blocks: int = 0

    def __post_init__(self) -> None:
        KVCacheSpec.__post_init__(self)
        try:
            shapes = tuple(tuple(as_size("shapes", side) for side in shape) for shape in self.shapes)
            dtypes = tuple(self.dtypes)
        except TypeError as error:
            if isinstance(error, ConfigError):
                raise
            raise ArgumentError(
                "shapes", self.shapes, "tuples of sizes, and a dtype for each, are needed"
            ) from None
        if not shapes or len(shapes) != len(dtypes):
            raise ConfigError(
                "dtypes", dtypes, f"one is needed for each of {len(shapes)} shapes, at least one"
            )
        _set(self, "shapes", shapes)
        _set(self, "dtypes", dtypes)
        if not isinstance(self.mamba_type, str):
            raise ArgumentError("mamba_type", self.mamba_type, "a name is needed")
        as_choice("mamba_cache_mode", self.mamba_cache_mode, MAMBA_CACHE_MODES)
        count = as_count("num_speculative_blocks", self.num_speculative_blocks)
        _set(self, "num_speculative_blocks", count)
        _set(self, "page_size_padded", _padding(self.page_size_padded, self.real_page_size_bytes))

    @property
    def page_size_bytes(self) -> int:
        """Bytes that the state of one layer takes, with its padding."""
        padded = self.page_size_padded
        return self.real_page_size_bytes if padded is None else padded

    @property
    def real_page_size_bytes(self) -> int:
        """Bytes that the state of one layer needs."""
        pairs = zip(self.shapes, self.dtypes, strict=True)
        return sum(prod(shape) * element_bytes("dtypes", dtype) for shape, dtype in pairs)


def _set(spec: KVCacheSpec, field: str, value: object) -> None:
    object.__setattr__(spec, field, value)


def _padding(padded: int | None, needed: int) -> int | None:
    if padded is None:
        return None
    size = as_size("page_size_padded", padded)
    if size < needed:
        raise ConfigError("page_size_padded", size, f"a block needs {needed} bytes")
    return size

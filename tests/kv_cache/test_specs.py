"""Specs and configurations: bytes per block, and what they refuse."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from blockpool import ArgumentError, ConfigError
from blockpool.kv_cache import (
    ChunkedLocalAttentionSpec,
    CrossAttentionSpec,
    FullAttentionSpec,
    KVCacheConfig,
    KVCacheGroupSpec,
    MambaSpec,
    MLAAttentionSpec,
    SinkFullAttentionSpec,
    SlidingWindowSpec,
)

from .support import chunked, cross, full, mamba, mla, sink, window

LLAMA: dict[str, Any] = {"block_size": 16, "num_kv_heads": 8, "head_size": 128, "dtype": "bfloat16"}


class SizedType:
    """Like an array library's type object."""

    itemsize = 4


@pytest.mark.parametrize(
    ("spec", "page_size"),
    [
        (FullAttentionSpec(**LLAMA), 2 * 16 * 8 * 128 * 2),
        (FullAttentionSpec(**{**LLAMA, "dtype": "fp8"}), 2 * 16 * 8 * 128),
        (FullAttentionSpec(**{**LLAMA, "dtype": 4}), 2 * 16 * 8 * 128 * 4),
        (FullAttentionSpec(**{**LLAMA, "dtype": SizedType()}), 2 * 16 * 8 * 128 * 4),
        (FullAttentionSpec(**{**LLAMA, "dtype": "torch.float16"}), 2 * 16 * 8 * 128 * 2),
        (FullAttentionSpec(**LLAMA, head_size_v=64), 16 * 8 * (128 + 64) * 2),
        (FullAttentionSpec(**LLAMA, page_size_padded=100_000), 100_000),
        (SlidingWindowSpec(**LLAMA, sliding_window=4096), 65_536),
        (ChunkedLocalAttentionSpec(**LLAMA, attention_chunk_size=8192), 65_536),
        (CrossAttentionSpec(**LLAMA), 65_536),
        (SinkFullAttentionSpec(**LLAMA, sink_len=32), 65_536),
        # DeepSeek-V3's latent: 512 + 64 elements per token, for all heads together.
        (MLAAttentionSpec(block_size=64, num_kv_heads=1, head_size=576, dtype="bfloat16"), 64 * 576 * 2),
        (
            MLAAttentionSpec(
                block_size=64, num_kv_heads=1, head_size=576, dtype="uint8", cache_dtype_str="fp8_ds_mla"
            ),
            64 * 656,
        ),
        (MambaSpec(512, shapes=((4, 8), (3,)), dtypes=("float32", "bfloat16")), 4 * 8 * 4 + 3 * 2),
        (MambaSpec(512, shapes=((4, 8),), dtypes=("float32",), page_size_padded=200), 200),
    ],
)
def test_page_size(spec: Any, page_size: int) -> None:
    assert spec.page_size_bytes == page_size


@pytest.mark.parametrize(
    ("make", "field", "error"),
    [
        (lambda: full(0), "block_size", ConfigError),
        (lambda: MLAAttentionSpec(**LLAMA, cache_dtype_str=[]), "cache_dtype_str", ArgumentError),  # type: ignore[arg-type]
        (lambda: MambaSpec(4, ((1,),), ("int8",), mamba_type=[]), "mamba_type", ArgumentError),  # type: ignore[arg-type]
        (lambda: full("16"), "block_size", ArgumentError),  # type: ignore[arg-type]
        (lambda: FullAttentionSpec(**{**LLAMA, "num_kv_heads": 0}), "num_kv_heads", ConfigError),
        (lambda: FullAttentionSpec(**{**LLAMA, "head_size": -1}), "head_size", ConfigError),
        (lambda: FullAttentionSpec(**{**LLAMA, "dtype": "float12"}), "dtype", ConfigError),
        (lambda: FullAttentionSpec(**{**LLAMA, "dtype": 0}), "dtype", ConfigError),
        (lambda: FullAttentionSpec(**{**LLAMA, "dtype": 2.0}), "dtype", ArgumentError),
        (lambda: FullAttentionSpec(**LLAMA, page_size_padded=65_535), "page_size_padded", ConfigError),
        (lambda: FullAttentionSpec(**LLAMA, head_size_v=0), "head_size_v", ConfigError),
        (
            lambda: FullAttentionSpec(**LLAMA, sliding_window=1, attention_chunk_size=1),
            "attention_chunk_size",
            ConfigError,
        ),
        (lambda: window(2, 0), "sliding_window", ConfigError),
        (lambda: chunked(2, 0), "attention_chunk_size", ConfigError),
        (lambda: sink(4, 6), "sink_len", ConfigError),
        (lambda: sink(4, 0), "sink_len", ConfigError),
        (lambda: mamba(4, "some"), "mamba_cache_mode", ConfigError),
        (lambda: mamba(4, "align", -1), "num_speculative_blocks", ConfigError),
        (lambda: MambaSpec(4, shapes=((1,),), dtypes=("int8", "int8")), "dtypes", ConfigError),
        (lambda: MambaSpec(4, shapes=(), dtypes=()), "dtypes", ConfigError),
        (lambda: MambaSpec(4, shapes=(3,), dtypes=("int8",)), "shapes", ArgumentError),  # type: ignore[arg-type]
        (lambda: MambaSpec(4, shapes=((0,),), dtypes=("int8",)), "shapes", ConfigError),
        (lambda: MambaSpec(4, shapes=((1,),), dtypes=("what",)), "dtypes", ConfigError),
        (lambda: KVCacheConfig(0, []), "num_blocks", ConfigError),
        (lambda: KVCacheConfig(1, [full(2)]), "kv_cache_groups", ArgumentError),  # type: ignore[list-item]
        (lambda: KVCacheGroupSpec("layer", full(2)), "layer_names", ArgumentError),
        (lambda: KVCacheGroupSpec([1], full(2)), "layer_names", ArgumentError),  # type: ignore[list-item]
        (lambda: KVCacheGroupSpec([], object()), "kv_cache_spec", ArgumentError),  # type: ignore[arg-type]
    ],
)
def test_refused(make: Callable[[], object], field: str, error: type[ConfigError]) -> None:
    with pytest.raises(error) as caught:
        make()
    assert type(caught.value) is error
    assert caught.value.field == field


def test_small_integers_of_an_array_library_become_plain_ones() -> None:
    """A sum of theirs would overflow."""
    numpy = pytest.importorskip("numpy", reason="the extra demo is not installed")
    heads = {"num_kv_heads": 1, "dtype": "bfloat16"}
    plain = FullAttentionSpec(block_size=4, head_size=200, **heads)
    small = FullAttentionSpec(block_size=4, head_size=numpy.uint8(200), **heads)
    assert small.page_size_bytes == plain.page_size_bytes == 3200
    padded = FullAttentionSpec(block_size=4, head_size=2, page_size_padded=numpy.int32(64), **heads)
    assert type(padded.page_size_padded) is int


def test_an_array_is_no_type_though_it_tells_a_size() -> None:
    numpy = pytest.importorskip("numpy", reason="the extra demo is not installed")
    assert FullAttentionSpec(**{**LLAMA, "dtype": numpy.dtype("float16")}).page_size_bytes == 65_536
    with pytest.raises(ArgumentError):
        FullAttentionSpec(**{**LLAMA, "dtype": numpy.zeros(3, "float16")})


def test_specs_are_values() -> None:
    assert full(16) == full(16)
    assert full(16) != full(32)
    assert full(16) != mla(16), "the type counts"
    assert len({full(16), full(16), cross(16)}) == 2
    assert window(16, 8).copy_with_new_block_size(32) == window(32, 8)
    assert mamba(16, "align", 2).copy_with_new_block_size(8) == mamba(8, "align", 2)
    with pytest.raises(dataclasses.FrozenInstanceError):
        full(16).block_size = 8  # type: ignore[misc]


def test_a_config_keeps_its_own_copies() -> None:
    groups = [KVCacheGroupSpec(["a", "b"], full(16))]
    config = KVCacheConfig(10, groups)
    groups.clear()
    assert config.kv_cache_groups == (KVCacheGroupSpec(("a", "b"), full(16)),)

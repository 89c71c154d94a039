"""How many bytes the values of a KV cache take.

| name | bytes | note |
|---|---|---|
| `fp32` | 4 | |
| `bf16`, `fp16` | 2 | |
| `fp8`, `int8` | 1 | one scale per tensor or head, too small to count |
| `fp4`, `int4` | 1/2 | scales not counted |
| `nvfp4` | 9 per 16 values | 4 bits each and one 8-bit scale per 16 |
| `q8_0`, `q4_0` | 34 and 18 per 32 values | llama.cpp's: 8 or 4 bits each and one 16-bit scale per 32 |
"""

from __future__ import annotations

from blockpool.core.arguments import as_choice

AUTO_DTYPE = "auto"

# How many values are packed together, and into how many bytes.
_PACKINGS = {
    "bf16": (1, 2),
    "fp16": (1, 2),
    "fp32": (1, 4),
    "fp8": (1, 1),
    "int8": (1, 1),
    "fp4": (2, 1),
    "int4": (2, 1),
    "nvfp4": (16, 9),
    "q8_0": (32, 34),
    "q4_0": (32, 18),
}
KV_DTYPES = (AUTO_DTYPE, *_PACKINGS)

# What config.json writes, and what it is called here.
_TORCH_NAMES = {"bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float32": "fp32", "float": "fp32"}
TORCH_DTYPES = tuple(_TORCH_NAMES)


def bytes_of_row(num_values: int, dtype: str) -> int:
    """Bytes of a row of values, one head's key for example; a pack that is not full counts whole.

    Args:
        num_values: 0 or more.
        dtype: One of `KV_DTYPES`, but not "auto".
    """
    pack_values, pack_bytes = _PACKINGS[dtype]
    return -(-num_values // pack_values) * pack_bytes


def dtype_of_torch(name: str) -> str:
    """What torch's "bfloat16" is called here; takes only `TORCH_DTYPES`."""
    return _TORCH_NAMES[name.removeprefix("torch.")]


def check_kv_dtype(dtype: str) -> None:
    """Raises ConfigError unless it is one of `KV_DTYPES`."""
    as_choice("kv_dtype", dtype, KV_DTYPES)

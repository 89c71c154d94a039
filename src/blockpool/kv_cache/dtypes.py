"""Bytes per element of the types that KV caches hold, by name. No array library is needed."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, Protocol, TypeAlias

from blockpool.core.arguments import as_size
from blockpool.errors import ArgumentError, ConfigError

DTYPE_BYTES: Final = {
    "float64": 8,
    "float32": 4,
    "float": 4,
    "float16": 2,
    "half": 2,
    "bfloat16": 2,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
    "fp8": 1,
    "fp8_e4m3": 1,
    "fp8_e5m2": 1,
    "int8": 1,
    "uint8": 1,
    "int16": 2,
    "int32": 4,
    "int64": 8,
}
"""Bytes per element by name."""


class SizedType(Protocol):
    """An array library's own type object: NumPy's and PyTorch's both tell their size."""

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        ...


DType: TypeAlias = str | int | SizedType
"""An element type: a name of `DTYPE_BYTES`, its size in bytes, or an array library's type object."""


def element_bytes(field: str, dtype: object) -> int:
    """Bytes per element.

    Raises:
        ArgumentError: If it is neither a name nor a size nor a sized type.
        ConfigError: For an unknown name, or a size below 1.
    """
    if isinstance(dtype, str):
        size = DTYPE_BYTES.get(dtype.removeprefix("torch."))
        if size is None:
            raise ConfigError(
                field, dtype, "must be one of " + ", ".join(DTYPE_BYTES) + ", or bytes per element"
            )
        return size
    if isinstance(dtype, int):
        return as_size(field, dtype)
    itemsize = getattr(dtype, "itemsize", None)
    if not isinstance(itemsize, int) or not isinstance(dtype, Hashable):  # an array has a size, too
        raise ArgumentError(field, dtype, "a name, a size in bytes or a type with an itemsize is needed")
    return as_size(field, itemsize)

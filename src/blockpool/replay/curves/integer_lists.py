"""Long lists of 64-bit integers: `vec[i64]` of mypyc in a compiled build, `array` in an interpreted one.

A `vec` is twelve times as fast as a list where it is compiled, and three times as slow where it is not.
"""

from __future__ import annotations

from typing import TypeAlias

# What the compiler and the type checker are told (see blockpool.core.types) must be true at run time, too.
BLOCKPOOL_COMPILING = not __file__.endswith((".py", ".pyc"))
if BLOCKPOOL_COMPILING:
    from librt.vecs import append, vec
    from mypy_extensions import i64

    IntegerList: TypeAlias = "vec[i64]"

    def filled(length: i64, value: i64) -> vec[i64]:
        """So many equal numbers."""
        numbers = vec[i64](capacity=length)
        index: i64 = 0
        while index < length:
            numbers = append(numbers, value)
            index += 1
        return numbers

else:
    from array import array

    IntegerList: TypeAlias = "array[int]"

    def filled(length: int, value: int) -> array[int]:
        """So many equal numbers."""
        return array("q", [value]) * length

    def append(numbers: array[int], value: int) -> array[int]:
        """The list with one more number; the old one must not be used any more."""
        numbers.append(value)
        return numbers

"""`HashMixer`: turns block hashes into numbers that nobody can foresee."""

from __future__ import annotations

from typing import Final, final

from librt.strings import read_i64_le
from mypy_extensions import i64

SEED_BYTES: Final = 32
MIXED_BITS: Final = 62
POSITIVE: Final = 0x3FFFFFFFFFFFFFFF
"""All `MIXED_BITS`: no more, because larger constants are no machine words to the compiler."""


@final
class HashMixer:
    """Mixes block hashes with random numbers.

    The last four words of 8 bytes of a hash are multiplied by random odd numbers and added, the sum is folded and
    multiplied once more. Whoever chooses hashes without knowing the numbers cannot make many of them meet, so long as
    these words differ: and they do, because the last fine hash of a coarse one chains over all before it. Without the
    last step, hashes that are counted up stand in lumps for some of the numbers.

    Args:
        seed: `SEED_BYTES` random bytes.
    """

    __slots__ = ("_factor_0", "_factor_1", "_factor_2", "_factor_3")

    def __init__(self, seed: bytes) -> None:
        self._factor_0: i64 = read_i64_le(seed, 0) | 1
        self._factor_1: i64 = read_i64_le(seed, 8) | 1
        self._factor_2: i64 = read_i64_le(seed, 16) | 1
        self._factor_3: i64 = read_i64_le(seed, 24) | 1

    def mix(self, block_hash: bytes) -> i64:
        """`MIXED_BITS` bits, the upper ones as good as random. The same whether numbers wrap at 64 bits or not."""
        length: i64 = len(block_hash)
        start: i64 = 0
        if length > 32:
            start = length - 32
        elif length < 16:
            block_hash += bytes(16)
        mixed = (
            read_i64_le(block_hash, start) * self._factor_0
            + read_i64_le(block_hash, start + 8) * self._factor_1
        )
        if length > 16:
            block_hash = block_hash if length >= 32 else block_hash + bytes(16)
            mixed += (
                read_i64_le(block_hash, start + 16) * self._factor_2
                + read_i64_le(block_hash, start + 24) * self._factor_3
            )
        mixed = (mixed >> 2) & POSITIVE
        return ((mixed ^ (mixed >> 31)) * self._factor_0) & POSITIVE

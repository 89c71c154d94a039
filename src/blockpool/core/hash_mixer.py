"""`HashMixer`: turns block hashes into numbers that nobody can foresee."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from librt.strings import read_i64_le
from mypy_extensions import i64

from blockpool.core.arguments import as_bytes
from blockpool.errors import ArgumentError, ConfigError

SEED_BYTES: Final = 32
MIXED_BITS: Final = 62
POSITIVE: Final = 0x3FFFFFFFFFFFFFFF
"""All `MIXED_BITS`: no more, because larger constants are no machine words to the compiler."""


@final
class HashMixer:
    """Mixes block hashes with random numbers.

    The first four words of 8 bytes of a hash are multiplied by random odd numbers and added, the sum is folded and
    multiplied once more. Whoever chooses hashes without knowing the numbers cannot make many of them meet, so long as
    these words differ. Without the last step, hashes that are counted up stand in lumps for some of the numbers.

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
        if length < 16:
            block_hash += bytes(16)
        mixed = read_i64_le(block_hash, 0) * self._factor_0 + read_i64_le(block_hash, 8) * self._factor_1
        if length > 16:
            block_hash = block_hash if length >= 32 else block_hash + bytes(16)
            mixed += (
                read_i64_le(block_hash, 16) * self._factor_2 + read_i64_le(block_hash, 24) * self._factor_3
            )
        mixed = (mixed >> 2) & POSITIVE
        return ((mixed ^ (mixed >> 31)) * self._factor_0) & POSITIVE


def as_seed(random_bytes: Callable[[int], object]) -> bytes:
    """Asks for a seed.

    Raises:
        ArgumentError: If that cannot be called, or returns no bytes.
        ConfigError: If it returns too few.
    """
    if not callable(random_bytes):
        raise ArgumentError("random_bytes", random_bytes, "a function is needed")
    seed = as_bytes("random_bytes", random_bytes(SEED_BYTES))
    if len(seed) < SEED_BYTES:
        raise ConfigError("random_bytes", len(seed), f"it must return {SEED_BYTES} bytes")
    return seed

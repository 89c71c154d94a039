"""`KeySampler`: every R-th block of a trace, chosen by hash (SHARDS, Waldspurger et al., 2015). Compiled with mypyc."""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

# Of each product, the lower bits are used: they are the same whether numbers wrap at 64 bits (compiled) or not.
_POSITIVE: Final = 0x3FFFFFFFFFFFFFFF  # 62 bits; larger constants are no machine words to the compiler
_FACTOR_1: Final = 0x3F58476D1CE4E5B9
_FACTOR_2: Final = 0x14D049BB133111EB
_STEP: Final = 0x1E3779B97F4A7C15
_NUMBER_BITS: Final = 32


def _mixed(number: i64) -> i64:
    """62 bits, each of which depends on all of a number of 62 bits (the finaliser of SplitMix64, cut to these)."""
    number = ((number ^ (number >> 30)) * _FACTOR_1) & _POSITIVE
    number = ((number ^ (number >> 27)) * _FACTOR_2) & _POSITIVE
    return number ^ (number >> 31)


@final
class KeySampler:
    """Chooses blocks by their keys: always the same ones, wherever they occur.

    Blocks are chosen one by one and not by chains: a few roots carry most of a trace, so that all would depend on
    whether these were chosen.
    """

    def __init__(self, one_in: i64, seed: i64) -> None:
        """Nothing chosen yet.

        Args:
            one_in: R, 1 … 1,048,576: one of R keys is chosen, on average.
            seed: Another one chooses other blocks.
        """
        start = _mixed(seed & _POSITIVE)
        self._offset: i64 = _mixed((start + _STEP) & _POSITIVE)
        self._factor: i64 = _mixed((start ^ _STEP) & _POSITIVE) | 1
        self._below: i64 = (1 << _NUMBER_BITS) // one_in
        self._one_in: i64 = one_in
        self._nameless: i64 = 0

    def choose(self, keys: list[object]) -> list[int]:
        """Indices of the chosen keys, which are integers or bytes. O(len(keys))."""
        below, offset, factor = self._below, self._offset, self._factor
        chosen: list[int] = []
        for index, key in enumerate(keys):
            if isinstance(key, int):
                number: i64 = key & _POSITIVE
            else:
                assert isinstance(key, bytes)
                number = int.from_bytes(key[:8], "big") & _POSITIVE
            # The seed moves and stretches what is mixed: after a mere exclusive or, ids without gaps would be the same
            # set of numbers for many seeds.
            number = _mixed((number * factor + offset) & _POSITIVE)
            if number >> (62 - _NUMBER_BITS) < below:
                chosen.append(index)
        return chosen

    def choose_nameless(self, count: i64) -> i64:
        """How many of some blocks without a key to take: each R-th of all. O(1)."""
        self._nameless += count
        taken = self._nameless // self._one_in
        self._nameless -= taken * self._one_in
        return taken

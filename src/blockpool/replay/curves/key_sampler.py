"""`KeySampler`: every R-th block of a trace, chosen by hash (SHARDS, Waldspurger et al., 2015). Compiled with mypyc."""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

_LOW_BITS: Final = 0xFFFFFFFF
_MIX: Final = 0x45D9F3B
_MAX_RATE: Final = 1 << 20


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
        self._seed: i64 = seed & _LOW_BITS
        self._below: i64 = (_LOW_BITS + 1) // one_in
        self._one_in: i64 = one_in
        self._nameless: i64 = 0

    def choose(self, keys: list[object]) -> list[int]:
        """Indices of the chosen keys, which are integers or bytes. O(len(keys))."""
        below, seed = self._below, self._seed
        chosen: list[int] = []
        for index, key in enumerate(keys):
            if isinstance(key, int):
                folded: i64 = (key ^ (key >> 32)) & _LOW_BITS
            else:
                assert isinstance(key, bytes)
                folded = int.from_bytes(key[:4], "big")
            folded ^= seed
            # Products stay below 2^63, so that both builds choose the same.
            folded = ((folded ^ (folded >> 16)) * _MIX) & _LOW_BITS
            folded = ((folded ^ (folded >> 16)) * _MIX) & _LOW_BITS
            if folded ^ (folded >> 16) < below:
                chosen.append(index)
        return chosen

    def choose_nameless(self, count: i64) -> i64:
        """How many of some blocks without a key to take: each R-th of all. O(1)."""
        self._nameless += count
        taken = self._nameless // self._one_in
        self._nameless -= taken * self._one_in
        return taken

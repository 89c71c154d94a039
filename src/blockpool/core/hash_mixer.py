"""`HashMixer`: turns block hashes into numbers that nobody can foresee."""

from __future__ import annotations

from typing import Final, cast, final

from librt.strings import read_i64_le
from librt.vecs import vec
from mypy_extensions import i64

SEED_BYTES: Final = 32
MIXED_BITS: Final = 62
POSITIVE: Final = 0x3FFFFFFFFFFFFFFF
"""All `MIXED_BITS`: no more, because larger constants are no machine words to the compiler."""

PIECE: Final = 64
PIECE_MASK: Final = 63


@final
class HashMixer:
    """Mixes block hashes with random numbers.

    The last word of 8 bytes of a hash is multiplied by a random odd number; the product is folded and multiplied once
    more, lest hashes that are counted up stand in lumps. That is all that digests need. Whoever chooses hashes can make
    many that share this word. Then the index sees too long a search and has the mixer become `strong`, once and for
    all: the last four words are multiplied by four random numbers and added. Now those who do not know the numbers
    cannot make many hashes meet, so long as these words differ: and they do, because the last fine hash of a coarse one
    chains over all before it.

    Runs are mixed in pieces, and the slots where the searches for them start are read while the next ones are mixed:
    these reads wait neither for each other nor for a branch that depends on one. So what is in no near cache comes all
    at once, and not one by one.

    Args:
        seed: `SEED_BYTES` random bytes.

    Attributes:
        strong: Whether four words are mixed. Who sets it must mix again whatever was mixed before.
        piece: The mixed hashes of the last piece, each at its position modulo `PIECE`.
    """

    __slots__ = ("_factor_0", "_factor_1", "_factor_2", "_factor_3", "_seen", "piece", "strong")

    def __init__(self, seed: bytes) -> None:
        self._factor_0: i64 = read_i64_le(seed, 0) | 1
        self._factor_1: i64 = read_i64_le(seed, 8) | 1
        self._factor_2: i64 = read_i64_le(seed, 16) | 1
        self._factor_3: i64 = read_i64_le(seed, 24) | 1
        self.strong: bool = False
        self.piece: vec[i64] = vec[i64]([0] * PIECE)
        # What the reads ahead gave: without it the C compiler would leave them out.
        self._seen: i64 = 0

    def mix(self, block_hash: bytes) -> i64:
        """`MIXED_BITS` bits, the upper ones as good as random. The same whether numbers wrap at 64 bits or not."""
        length: i64 = len(block_hash)
        if self.strong or length < 8:
            return self._mix_all(block_hash)
        mixed = (read_i64_le(block_hash, length - 8) * self._factor_0 >> 2) & POSITIVE
        return ((mixed ^ (mixed >> 31)) * self._factor_0) & POSITIVE

    def _mix_all(self, block_hash: bytes) -> i64:
        """`mix` of four words."""
        length: i64 = len(block_hash)
        start: i64 = 0
        if length > 32:
            start = length - 32
        elif length < 16:
            block_hash = block_hash + bytes(16)
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

    def mix_run(self, block_hashes: list[object], start: i64, stop: i64, table: vec[i64], shift: i64) -> i64:
        """Mixes `block_hashes[start:stop]`, at most `PIECE`, and reads the slots of that table where searches start.

        Returns:
            Where it ended: at `stop`, at the end of the list, or before what is no hash.
        """
        hashes = cast("list[bytes]", block_hashes)
        piece = self.piece
        factor = self._factor_0
        weak = not self.strong
        seen: i64 = 0
        stop = smaller_of(stop, len(hashes))
        position = start
        try:
            while position < stop:
                block_hash = hashes[position]
                length: i64 = len(block_hash)
                if weak and length >= 8:  # `mix` written out
                    mixed = (read_i64_le(block_hash, length - 8) * factor >> 2) & POSITIVE
                    mixed = ((mixed ^ (mixed >> 31)) * factor) & POSITIVE
                else:
                    mixed = self.mix(block_hash)
                piece[position & PIECE_MASK] = mixed
                seen ^= table[mixed >> shift]
                position += 1
        except TypeError:  # how both builds tell what is no hash
            pass
        self._seen = seen
        return position


def smaller_of(a: i64, b: i64) -> i64:
    """The smaller one, without objects."""
    return a if a < b else b

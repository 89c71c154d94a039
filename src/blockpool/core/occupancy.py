"""`Occupancy`: where the blocks of a pool are."""

from __future__ import annotations

from typing import NamedTuple


class Occupancy(NamedTuple):
    """Where the blocks of a pool are; the sum is `num_gpu_blocks` - 1.

    Attributes:
        in_use: Held by at least one request.
        cached_idle: In the free queue, with content that a look-up can find.
        blank: In the free queue, with nothing to find.
    """

    in_use: int
    cached_idle: int
    blank: int

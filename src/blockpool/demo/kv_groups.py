"""Which layers share a KV cache group, and where each keeps its keys and values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class LayerPlace(NamedTuple):
    """Where a layer keeps its keys and values.

    Attributes:
        group: Its KV cache group: the layers that see equally far, and so need the same blocks.
        tensor: Its place among the layers of its group; layers of other groups share this tensor, in other blocks.
    """

    group: int
    tensor: int


def group_windows(windows: Sequence[int | None]) -> list[int | None]:
    """The window of each KV cache group, in the order of the groups' first layers."""
    return list(dict.fromkeys(windows))


def layer_places(windows: Sequence[int | None]) -> list[LayerPlace]:
    """The place of each layer."""
    groups = group_windows(windows)
    sizes = [0] * len(groups)
    places = []
    for window in windows:
        group = groups.index(window)
        places.append(LayerPlace(group, sizes[group]))
        sizes[group] += 1
    return places

"""`KnownBlocks`: every block that was ever indexed, what stood behind it, and when it was evicted."""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, insort
from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from blockpool.replay.misses.reasons import Eviction

_TOKEN_BYTES = 4
_NEVER = -1


class Fork(Enum):
    """How the nearest known continuation of a prefix goes on, seen from a block that is not known there."""

    NOTHING_KNOWN = "nothing is known behind the prefix, or what is known ends where the block goes on"
    DIFFERENT_TOKEN = "its next token is another one"  # noqa: S105 - no password
    LONGER_BLOCK = "it begins with the whole block and goes on within the same block"
    SAME_TOKENS = "it has the same tokens and another key"


class Continuation(NamedTuple):
    """Where a block leaves what is known: after how many of its tokens, and how."""

    common_tokens: int
    fork: Fork


class KnownBlocks:
    """Blocks by their key, as nodes with numbers from 0 on.

    Of the children of a node their tokens are kept, where the trace has tokens, in sorted order: the child that shares
    the longest run of tokens with a block is then one of the two between which the block would stand. What stands
    before a first block, and has no key, is a negative number of the caller's choice.

    Memory: O(distinct blocks), keys included: about 150 bytes each for block ids; with tokens 300, and 4 per token.
    """

    def __init__(self) -> None:
        self._nodes: dict[object, int] = {}
        self._evicted_by = array("q")
        self._evicted_seconds = array("d")
        self._has_child = bytearray()
        # By parent: the packed tokens of its only child, or of all, sorted.
        self._child_tokens: dict[int, bytes | list[bytes]] = {}

    def find(self, key: object) -> int | None:
        """The node of a block; None if it was never indexed. O(1)."""
        return self._nodes.get(key)

    def add(self, key: object) -> int:
        """Makes a node for a block that has none. Amortised O(1)."""
        node = len(self._nodes)
        self._nodes[key] = node
        self._evicted_by.append(_NEVER)
        self._evicted_seconds.append(0.0)
        self._has_child.append(0)
        return node

    def connect(self, parent: int) -> None:
        """Notes that a known block has a child. O(1)."""
        self._has_child[parent] = 1

    def has_child(self, parent: int) -> bool:
        """Whether any block was connected to this one. O(1)."""
        return bool(self._has_child[parent])

    def add_child_tokens(self, parent: int, tokens: Sequence[int]) -> None:
        """Keeps the tokens of a new child. O(log n) and a move of the c children of its parent."""
        packed = _packed(tokens)
        others = self._child_tokens.get(parent)
        if others is None:
            self._child_tokens[parent] = packed
        elif isinstance(others, bytes):
            self._child_tokens[parent] = sorted((others, packed))
        else:
            insort(others, packed)

    def nearest(self, parent: int, tokens: Sequence[int]) -> Continuation:
        """Compares a block that is not known behind `parent` with the known children there. O(log c · tokens)."""
        children = self._child_tokens.get(parent)
        if children is None:
            return Continuation(0, Fork.NOTHING_KNOWN)
        if isinstance(children, bytes):
            children = [children]
        block = _packed(tokens)
        place = bisect_left(children, block)
        if place < len(children) and children[place].startswith(block):
            same = children[place] == block
            return Continuation(len(tokens), Fork.SAME_TOKENS if same else Fork.LONGER_BLOCK)
        best = Continuation(0, Fork.NOTHING_KNOWN)
        for child in children[max(0, place - 1) : place + 1]:
            common = _common_tokens(child, block)
            ends = common * _TOKEN_BYTES == len(child)
            if common > best.common_tokens or (common == best.common_tokens and not ends):
                best = Continuation(common, Fork.NOTHING_KNOWN if ends else Fork.DIFFERENT_TOKEN)
        return best

    def note_eviction(self, key: object, eviction: Eviction) -> None:
        """Notes that a block lost a copy in the pool; of several evictions the last counts. O(1)."""
        node = self._nodes.get(key)
        if node is not None:
            self._evicted_by[node] = eviction.request
            self._evicted_seconds[node] = eviction.seconds

    def eviction(self, node: int) -> Eviction | None:
        """When a block was last evicted; None if it never was. O(1)."""
        if self._evicted_by[node] == _NEVER:
            return None
        return Eviction(self._evicted_by[node], self._evicted_seconds[node])


def _packed(tokens: Sequence[int]) -> bytes:
    """Tokens as bytes that sort as they do."""
    packed = array("I", tokens)
    if sys.byteorder == "little":
        packed.byteswap()
    return packed.tobytes()


def _common_tokens(first: bytes, second: bytes) -> int:
    """Tokens at the start that are the same, by halving."""
    low, high = 0, min(len(first), len(second)) // _TOKEN_BYTES
    while low < high:
        middle = (low + high + 1) // 2
        if first[: middle * _TOKEN_BYTES] == second[: middle * _TOKEN_BYTES]:
            low = middle
        else:
            high = middle - 1
    return low

"""`PrefixTree`: which known blocks continue which, and where most chains part: the shared prefixes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, final


class SharedPrefix(NamedTuple):
    """A block that several known blocks continue.

    Attributes:
        block_hash: Of the block; it stands for everything up to its end.
        blocks: From the start of the prompt to it.
        tokens: In them.
        whole: Whether all of them are known, up to the start of the prompt; else there are more.
        chains: Different ends that known chains through it have.
        below: Known blocks that come after it, on whatever chain.
    """

    block_hash: int
    blocks: int
    tokens: int
    whole: bool
    chains: int
    below: int


class _Node:
    __slots__ = ("block_size", "copies", "parent")

    def __init__(self, parent: int | None, block_size: int) -> None:
        self.parent = parent
        self.block_size = block_size
        self.copies = 0


@final
class PrefixTree:
    """All blocks known of anywhere, by hash, with their parents. A block is there as long as a copy of it is."""

    def __init__(self) -> None:
        self._nodes: dict[int, _Node] = {}

    def __len__(self) -> int:
        """Different blocks."""
        return len(self._nodes)

    def store(self, block_hashes: Iterable[int], parent: int | None, block_size: int) -> None:
        """One copy more of each of these, which stand one after the other in a prompt. O(hashes)."""
        nodes = self._nodes
        for block_hash in block_hashes:
            node = nodes.get(block_hash)
            if node is None:
                node = nodes[block_hash] = _Node(parent, block_size)
            node.copies += 1
            parent = block_hash

    def drop(self, block_hash: int, copies: int) -> None:
        """So many copies less; at most as many as there are. O(1)."""
        node = self._nodes[block_hash]
        node.copies -= copies
        if node.copies <= 0:
            del self._nodes[block_hash]

    def hottest(self, limit: int) -> list[SharedPrefix]:
        """Blocks that at least two known blocks continue: those with most chains first, then with most blocks below.

        O(blocks).
        """
        nodes = self._nodes
        children: dict[int, int] = {}
        for node in nodes.values():
            if node.parent is not None and node.parent in nodes:
                children[node.parent] = children.get(node.parent, 0) + 1
        shared = [block_hash for block_hash, count in children.items() if count > 1]
        chains, below = self._summed(dict(children))
        shared.sort(key=lambda each: (chains.get(each, 0), below.get(each, 0), each), reverse=True)
        return [self._described(each, chains.get(each, 0), below.get(each, 0)) for each in shared[:limit]]

    def _summed(self, pending: dict[int, int]) -> tuple[dict[int, int], dict[int, int]]:
        """Chains and blocks below of every block, from the ends upwards; blocks in a circle, which is a lie, have none.

        Args:
            pending: How many known blocks continue each; used up.
        """
        nodes = self._nodes
        chains: dict[int, int] = {}
        below: dict[int, int] = {}
        done = [block_hash for block_hash in nodes if block_hash not in pending]
        for block_hash in done:
            chains[block_hash], below[block_hash] = 1, 0
        while done:
            block_hash = done.pop()
            parent = nodes[block_hash].parent
            if parent is None or parent not in nodes:
                continue
            chains[parent] = chains.get(parent, 0) + chains[block_hash]
            below[parent] = below.get(parent, 0) + below[block_hash] + 1
            pending[parent] -= 1
            if not pending[parent]:
                done.append(parent)
        return chains, below

    def _described(self, block_hash: int, chains: int, below: int) -> SharedPrefix:
        blocks = tokens = 0
        at: int | None = block_hash
        met: set[int] = set()
        while at is not None and at in self._nodes and at not in met:
            met.add(at)
            blocks += 1
            tokens += self._nodes[at].block_size
            at = self._nodes[at].parent
        return SharedPrefix(block_hash, blocks, tokens, at is None, chains, below)

"""What makes a block's key besides its tokens, and under which other LoRA, salts and images these are known."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from blockpool.core.extra_keys import block_extra_keys
from blockpool.trace.request import TraceRequest

_NO_IMAGES = 0


class Scope(NamedTuple):
    """What a block's key depends on besides tokens.

    Attributes:
        lora: Name of the adapter.
        salt: Cache salt.
        images: Number of the run of images from the start of the prompt to the end of the block; 0 for none.
    """

    lora: str | None
    salt: str | None
    images: int


PLAIN_SCOPE = Scope(None, None, _NO_IMAGES)

_KINDS = ("lora", "salt", "image")
_SCANNED = 8
"""So many scopes of the same tokens are compared one by one; most blocks have fewer, and more are indexed."""


class _ScopeIndex:
    """Many scopes of the same tokens: by every part of theirs, which was known first."""

    __slots__ = ("_first", "_num_scopes")

    def __init__(self, scopes: Iterable[Scope]) -> None:
        self._num_scopes = 0
        self._first: dict[Scope | tuple[object, ...], tuple[int, Scope]] = {}
        for scope in scopes:
            self.append(scope)

    def append(self, scope: Scope) -> None:
        """Adds one that is not there yet. O(1)."""
        entry = (self._num_scopes, scope)
        self._num_scopes += 1
        for part in _parts(scope):
            self._first.setdefault(part, entry)

    def nearest(self, scope: Scope) -> list[Scope]:
        """The first of those that differ from one, which is not there, in as few kinds as possible. O(1)."""
        parts = _parts(scope)
        for alike in (parts[:3], parts[3:6], parts[6:]):  # two kinds alike, one, none
            found = [self._first[part] for part in alike if part in self._first]
            if found:
                return [min(found)[1]]
        return []


def _parts(scope: Scope) -> tuple[tuple[object, ...], ...]:
    """Pairs of two kinds, single kinds, and nothing."""
    lora, salt, images = scope
    return (
        (0, lora, salt),
        (1, lora, images),
        (2, salt, images),
        (0, lora),
        (1, salt),
        (2, images),
        (),
    )


def has_extra_keys(request: TraceRequest) -> bool:
    """Whether the keys of a request depend on more than its tokens."""
    if request.token_ids is None:
        return False
    return request.lora is not None or request.salt is not None or bool(request.images)


def without_extra_keys(request: TraceRequest) -> TraceRequest:
    """The same tokens and nothing else."""
    return replace(request, lora=None, salt=None, images=None)


class KeyScopes:
    """Under which scopes the tokens of blocks are known, by the key that they have without any.

    Only blocks of requests that have extra keys are kept: the others have that key themselves.
    Memory: O(distinct blocks with extra keys).
    """

    def __init__(self) -> None:
        self._scopes: dict[object, list[Scope] | _ScopeIndex] = {}
        self._image_runs: dict[tuple[object, ...], int] = {}
        self._roots: dict[tuple[str | None, str | None], int] = {}

    def root(self, request: TraceRequest) -> int:
        """A negative number for each pair of LoRA and salt: the node before the first block."""
        return self._roots.setdefault((request.lora, request.salt), -1 - len(self._roots))

    def scopes_of(self, request: TraceRequest, num_blocks: int) -> list[Scope]:
        """The scope of each of the first blocks. O(num_blocks)."""
        if not request.images:
            return [Scope(request.lora, request.salt, _NO_IMAGES)] * num_blocks
        assert request.block_size is not None
        scopes = []
        run = _NO_IMAGES
        for index, keys in enumerate(
            block_extra_keys(num_blocks, request.block_size, mm_inputs=request.images)
        ):
            if keys:
                run = self._image_runs.setdefault((run, index, keys), len(self._image_runs) + 1)
            scopes.append(Scope(request.lora, request.salt, run))
        return scopes

    def add(self, plain_key: object, scope: Scope) -> None:
        """Notes a block that was indexed for the first time under this scope. Amortised O(1)."""
        scopes = self._scopes.setdefault(plain_key, [])
        if isinstance(scopes, list) and len(scopes) == _SCANNED:
            scopes = self._scopes[plain_key] = _ScopeIndex(scopes)
        scopes.append(scope)

    def differing_kinds(self, plain_key: object, scope: Scope, *, known_plain: bool) -> str:
        """How the nearest scope under which these tokens are known differs: in as few kinds as possible.

        Of several such scopes the one without any extra key counts first, then the one that was known first.

        Args:
            plain_key: Key of the block without extra keys.
            scope: Under which the block is not known.
            known_plain: Whether it is known under `plain_key` itself.

        Returns:
            "lora", "salt", "image", or several joined by " + "; "" when the tokens are not known here at all.
            O(1), however many scopes there are.
        """
        best: tuple[str, ...] = ()
        others = self._scopes.get(plain_key, [])
        if isinstance(others, _ScopeIndex):
            others = others.nearest(scope)
        for other in (PLAIN_SCOPE, *others) if known_plain else others:
            kinds = tuple(kind for kind, one, two in zip(_KINDS, scope, other, strict=True) if one != two)
            if not best or len(kinds) < len(best):
                best = kinds
            if len(best) == 1:
                break
        return " + ".join(best)

"""What makes a block's key besides its tokens, and under which other LoRA, salts and images these are known."""

from __future__ import annotations

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

_FIELDS = (("lora", 0), ("salt", 1), ("image", 2))


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
        self._scopes: dict[object, list[Scope]] = {}
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
        self._scopes.setdefault(plain_key, []).append(scope)

    def differing_kinds(self, plain_key: object, scope: Scope, *, known_plain: bool) -> str:
        """How the nearest scope under which these tokens are known differs: in as few kinds as possible.

        Of several such scopes the one without any extra key counts first, then the one that was known first.

        Args:
            plain_key: Key of the block without extra keys.
            scope: Under which the block is not known.
            known_plain: Whether it is known under `plain_key` itself.

        Returns:
            "lora", "salt", "image", or several joined by " + "; "" when the tokens are not known here at all.
            O(scopes of the tokens), most often less.
        """
        best: tuple[str, ...] = ()
        others = self._scopes.get(plain_key, ())
        for other in (PLAIN_SCOPE, *others) if known_plain else others:
            kinds = tuple(kind for kind, field in _FIELDS if scope[field] != other[field])
            if not best or len(kinds) < len(best):
                best = kinds
            if len(best) == 1:
                break
        return " + ".join(best)

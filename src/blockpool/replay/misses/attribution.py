"""`MissAttribution`: says of every prompt block that missed why it did. Knows no pool: others tell it what happens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from blockpool.replay.keys import KeyMaker, num_full_blocks
from blockpool.replay.misses.key_scopes import (
    PLAIN_SCOPE,
    KeyScopes,
    Scope,
    has_extra_keys,
    without_extra_keys,
)
from blockpool.replay.misses.known_blocks import Fork, KnownBlocks
from blockpool.replay.misses.reasons import (
    BEHIND_A_MISS,
    DIFFERS,
    EVICTED,
    LAST_TOKEN,
    NEVER_SEEN,
    NO_ROOM,
    OTHER_KEY,
    PARTIAL_BLOCK,
    Eviction,
    MissRun,
    RequestMisses,
)
from blockpool.replay.rules import RequestPlan, plan_request
from blockpool.trace.request import TraceRequest


class MissAttribution:
    """Keeps which blocks have ever been indexed, and tells by it why others are not found.

    For each request call `explain` when its look-up is done and before it takes blocks, then `note_eviction` for every
    block that loses its key, then `note_indexed`, for all of its blocks or for some at a time, as they are indexed.
    Of a refused request call `explain_refused` only. Requests may overlap; the order of the calls is what counts.

    Memory: O(distinct blocks), see `KnownBlocks`.
    """

    def __init__(self, rules: str, key_maker: KeyMaker) -> None:
        """Nothing is known.

        Args:
            rules: "trace" or "engine".
            key_maker: The one that makes the keys of the plans.
        """
        self._rules = rules
        self._key_maker = key_maker
        self._known = KnownBlocks()
        self._scopes = KeyScopes()

    def note_eviction(self, key: Any, eviction: Eviction) -> None:
        """A block lost its key. O(1)."""
        self._known.note_eviction(key, eviction)

    def explain_refused(self, request: TraceRequest) -> RequestMisses:
        """The misses of a request that needs more blocks than the pool has."""
        return RequestMisses((MissRun(NO_ROOM, 0, request.num_prompt_blocks),), None, ())

    def explain(
        self, request: TraceRequest, plan: RequestPlan, num_hits: int, is_resident: Callable[[Any], bool]
    ) -> RequestMisses:
        """The misses of one request. Changes nothing that is known. O(blocks of the prompt).

        Args:
            request: As it was looked up.
            plan: Made of it.
            num_hits: Leading blocks that were found.
            is_resident: Whether the pool has any block under a key, at the time of the look-up.
        """
        num_blocks = request.num_prompt_blocks
        if num_hits >= num_blocks:
            return RequestMisses((), None, ())
        keys, known = plan.keys, self._known
        num_keyed = num_blocks if plan.max_hit_blocks >= num_blocks else num_full_blocks(request)
        prefix = num_hits
        while prefix < num_keyed and known.find(keys[prefix]) is not None:
            prefix += 1
        evictions: list[Eviction] = []
        rest, differs_at = self._fork(request, keys, prefix, num_keyed)
        plain_keys, scopes = self._plain(request, keys, num_keyed) if prefix < num_keyed else (keys, ())
        runs: list[MissRun] = []
        for index in range(num_hits, num_keyed):
            node = known.find(keys[index])
            kinds = ""
            if node is None:
                kinds = self._other_kinds(plain_keys[index], scopes[index] if scopes else PLAIN_SCOPE)
                reason = OTHER_KEY if kinds else rest
            elif index >= plan.max_hit_blocks:
                reason = LAST_TOKEN
            elif is_resident(keys[index]):
                reason = BEHIND_A_MISS
            else:
                reason = EVICTED
                eviction = known.eviction(node)
                assert eviction is not None
                evictions.append(eviction)
            _extend(runs, reason, index, index + 1, kinds)
        if num_keyed < num_blocks:
            _extend(runs, PARTIAL_BLOCK, num_keyed, num_blocks, "")
        if all(run.reason != DIFFERS for run in runs):
            differs_at = None
        return RequestMisses(tuple(runs), differs_at, tuple(evictions))

    def note_indexed(
        self, request: TraceRequest, plan: RequestPlan, first: int = 0, stop: int | None = None
    ) -> None:
        """Blocks of a request were indexed.

        Args:
            request: The request.
            plan: Made of it.
            first: Index of the first of these blocks; all before it were indexed already.
            stop: Index after the last; None for all.

        Complexity: O(stop - first); where keys depend on more than tokens, O(blocks of the request).
        """
        keys, known = plan.keys, self._known
        stop = len(keys) if stop is None else stop
        if request.token_ids is None:
            parent = known.find(keys[first - 1]) if first else None
            for key in keys[first:stop]:
                if parent is not None:  # also before a known block: an id may follow several others
                    known.connect(parent)
                node = known.find(key)
                parent = known.add(key) if node is None else node
            return
        first_new = stop
        while first_new > first and known.find(keys[first_new - 1]) is None:
            first_new -= 1
        if first_new == stop:
            return
        plain_keys, scopes = self._plain(request, keys, stop)
        parent = self._node_before(request, keys, first_new)
        size = request.block_size
        assert size is not None
        tokens = request.token_ids
        if plan.max_hit_blocks < request.num_prompt_blocks and request.output_token_ids:  # engine rules
            tokens = tokens + request.output_token_ids
        for index in range(first_new, stop):
            known.add_child_tokens(parent, tokens[index * size : (index + 1) * size])
            parent = known.add(keys[index])
            if scopes and scopes[index] != PLAIN_SCOPE:
                self._scopes.add(plain_keys[index], scopes[index])

    def _fork(
        self, request: TraceRequest, keys: Sequence[Any], prefix: int, num_keyed: int
    ) -> tuple[str, int | None]:
        """The reason for blocks that are not known under any key, and the first token that differs.

        Args:
            request: The request.
            keys: Of its blocks.
            prefix: How many leading blocks are known.
            num_keyed: How many could be.
        """
        if prefix == num_keyed:
            return NEVER_SEEN, None
        before = request.tokens_in_first(prefix)
        if request.token_ids is None:
            forks = prefix > 0 and self._known.has_child(self._node_before(request, keys, prefix))
            return (DIFFERS, before) if forks else (NEVER_SEEN, None)
        parent = self._node_before(request, keys, prefix)
        assert request.block_size is not None
        common, fork = self._known.nearest(parent, request.token_ids[before : before + request.block_size])
        if fork is Fork.LONGER_BLOCK:
            return PARTIAL_BLOCK, None
        if fork is Fork.DIFFERENT_TOKEN and before + common:
            return DIFFERS, before + common
        return NEVER_SEEN, None

    def _node_before(self, request: TraceRequest, keys: Sequence[Any], index: int) -> int:
        """The node of the known block before this one; before the first block, that of LoRA and salt."""
        if not index:
            return self._scopes.root(request)
        node = self._known.find(keys[index - 1])
        assert node is not None
        return node

    def _plain(
        self, request: TraceRequest, keys: Sequence[Any], num_blocks: int
    ) -> tuple[Sequence[Any], Sequence[Scope]]:
        """The keys that the blocks would have by their tokens alone, and their scopes; () without extra keys."""
        if not has_extra_keys(request):
            return keys, ()
        plain = plan_request(without_extra_keys(request), self._rules, self._key_maker)
        return plain.keys, self._scopes.scopes_of(request, num_blocks)

    def _other_kinds(self, plain_key: Any, scope: Scope) -> str:
        known_plain = scope is not PLAIN_SCOPE and self._known.find(plain_key) is not None
        return self._scopes.differing_kinds(plain_key, scope, known_plain=known_plain)


def _extend(runs: list[MissRun], reason: str, first: int, stop: int, kinds: str) -> None:
    """Adds blocks to the last run, or begins another."""
    if runs and runs[-1].reason == reason and runs[-1].kinds == kinds:
        runs[-1] = runs[-1]._replace(stop=stop)
    else:
        runs.append(MissRun(reason, first, stop, kinds))

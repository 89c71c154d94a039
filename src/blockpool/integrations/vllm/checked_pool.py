"""vLLM's own pool with ours in step, for `BLOCKPOOL_VLLM=check`: every result is compared, vLLM's own is used.

Whatever our side does, an exception included, vLLM must not notice.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from typing import Any, Final

from blockpool.integrations.vllm.comparison import Comparison
from blockpool.integrations.vllm.shown_results import has_gaps, only_hashes, shown

MIRRORED: Final = (
    "_insert_block_hash",  # one of 0.32's connectors calls it
    "_maybe_evict_cached_block",  # 0.32's managers call it
    "cache_full_blocks",
    "cache_partial_block",
    "emit_cached_block_events",
    "evict_blocks",
    "free_blocks",
    "get_cached_block",
    "get_new_blocks",
    "get_usage",
    "is_block_writable",
    "move_block_hashes",
    "reset_prefix_cache",
    "take_events",
    "touch",
    "unpin_blocks",
)
"""All methods that others call of the pools of both lines; the number of free blocks is compared after each call.

One that changes a pool and is missing here would leave ours behind.
"""
WHOLE_EVERY: Final = 500
"""After so many calls all blocks are compared; after each, those that it was about."""


def make_checked_pool(own: Any, ours: Any) -> Any:
    """A subclass of vLLM's pool that keeps one of ours in step.

    Args:
        own: vLLM's class.
        ours: The class that replaces it otherwise.
    """
    signature = inspect.signature(own.__init__)

    def __init__(self: Any, *arguments: Any, **more: Any) -> None:  # noqa: N807 - it becomes one
        own.__init__(self, *arguments, **more)
        self.comparison = Comparison("the block pool")
        self.num_calls = 0
        self.inside = False
        given = dict(signature.bind(self, *arguments, **more).arguments)
        given.pop("self")
        given["metrics_collector"] = None  # one of them tells the metrics
        self.shadow = self.comparison.attempt("__init__", lambda: ours(**given))
        self.counts = [block.ref_cnt for block in self.blocks]  # after the last call

    methods: dict[str, Any] = {name: _mirrored(name, own) for name in MIRRORED if hasattr(own, name)}
    return type("CheckedBlockPool", (own,), {"__init__": __init__, "__module__": __name__, **methods})


def make_checked_look_up(own: Callable[..., Any], ours: Callable[..., Any]) -> Callable[..., Any]:
    """The look-up of vLLM, compared with ours."""

    @wraps(own)
    def find_longest_cache_hit(
        cls: Any,
        block_hashes: Any,
        max_length: int,
        kv_cache_group_ids: list[int],
        block_pool: Any,
        *rest: Any,
        **more: Any,
    ) -> Any:
        comparison = getattr(block_pool, "comparison", None)
        if comparison is None or not comparison.running:
            return own(cls, block_hashes, max_length, kv_cache_group_ids, block_pool, *rest, **more)
        block_pool.inside = True
        try:
            theirs = own(cls, block_hashes, max_length, kv_cache_group_ids, block_pool, *rest, **more)
        finally:
            block_pool.inside = False
        found = comparison.attempt(
            "find_longest_cache_hit",
            lambda: ours(cls, block_hashes, max_length, kv_cache_group_ids, block_pool.shadow, *rest, **more),
        )
        comparison.compare("find_longest_cache_hit", shown(theirs), shown(found))
        return theirs

    return find_longest_cache_hit


def make_checked_hasher(own: Callable[[Any], list[bytes]], ours: Callable[[Any], list[bytes]]) -> Any:
    """The block hashes of vLLM, compared with ours."""
    comparison = Comparison("the block hashes")

    def request_block_hasher(request: Any) -> list[bytes]:
        theirs = own(request)
        if comparison.running and theirs:
            found = comparison.attempt("request_block_hasher", lambda: ours(request))
            comparison.compare("request_block_hasher", theirs, found)
        return theirs

    return request_block_hasher


def _mirrored(name: str, own: Any) -> Callable[..., Any]:
    method = getattr(own, name)

    @wraps(method)
    def call(self: Any, *arguments: Any, **more: Any) -> Any:
        if self.inside or not self.comparison.running:
            return method(self, *arguments, **more)
        arguments = tuple(list(one) if isinstance(one, Iterator) else one for one in arguments)
        more = {key: list(one) if isinstance(one, Iterator) else one for key, one in more.items()}
        if not self.num_calls:
            self.comparison.attempt(name, lambda: _take_sinks(self))
        mirror = _Mirror(self, name)
        mirrored = self.comparison.attempt(name, lambda: mirror.of_all(arguments, more))
        if mirrored is None:  # it has a block that ours has no counterpart of
            return method(self, *arguments, **more)
        given, named = mirrored
        our_method = getattr(self.shadow, name)
        self.inside = True
        try:
            result = method(self, *arguments, **more)
        except Exception as error:
            self.comparison.expect_error(name, error, lambda: our_method(*given, **named))
            raise
        finally:
            self.inside = False
        ours = self.comparison.attempt(name, lambda: our_method(*given, **named))
        mirror.note(result)
        self.comparison.attempt(name, lambda: _compare(self, name, mirror.met, result, ours))
        return result

    return call


def _take_sinks(pool: Any) -> None:
    """0.16's manager of attention sinks takes the first blocks out of the queue by itself when it is made."""
    ours = pool.shadow.free_block_queue
    ours.popleft_n(ours.num_free_blocks - pool.free_block_queue.num_free_blocks)


def _compare(pool: Any, name: str, ids: Iterable[int], result: Any, ours: Any) -> None:
    """Compares what both gave, and the blocks of these ids as they now are."""
    comparison = pool.comparison
    shadow = pool.shadow
    pool.num_calls += 1
    theirs, found = shown(result), shown(ours)
    if theirs != found and name == "take_events" and has_gaps(result):  # a documented difference
        theirs, found = only_hashes(result), only_hashes(ours)
    comparison.compare(name, theirs, found)
    comparison.compare(
        f"{name}, free blocks", pool.free_block_queue.num_free_blocks, shadow.free_block_queue.num_free_blocks
    )
    for one in ids:
        pool.counts[one] = pool.blocks[one].ref_cnt
    if pool.num_calls % WHOLE_EVERY == 0:
        mirror = _Mirror(pool, name)
        mirror.all_blocks()
        ids = mirror.met
        comparison.compare(f"{name}, free queue", _queue(pool), _queue(shadow))
    comparison.compare(
        f"{name}, blocks",
        [_state(pool.blocks[one]) for one in ids],
        [_state(shadow.blocks[one]) for one in ids],
    )


class _Mirror:
    """Finds our pool's counterpart of an argument.

    0.32's managers raise the count of a block by themselves while it is copied. What has become of a count since the
    last call becomes of its counterpart's, too.

    Attributes:
        met: Ids of the blocks that it was asked for.
    """

    def __init__(self, pool: Any, name: str) -> None:
        self._pool = pool
        self._kind = type(pool.null_block)
        self._frees = name == "free_blocks"
        self._evicts = name == "evict_blocks"
        self.met: list[int] = []

    def of(self, argument: Any) -> Any:
        """The same value, with our blocks in the place of vLLM's."""
        if isinstance(argument, self._kind):
            return self._block(argument)
        if self._evicts and isinstance(argument, (set, frozenset, list, tuple)):
            for number in argument:
                if number < len(self._pool.blocks):
                    self._block(self._pool.blocks[number])
        if isinstance(argument, (list, tuple)) and any(isinstance(one, self._kind) for one in argument):
            if self._frees:  # 0.32 takes blocks of other pools along, and they tell those pools
                argument = [one for one in argument if getattr(one, "pool", None) in (None, self._pool)]
            return [self.of(one) for one in argument]
        if callable(argument):
            return lambda *told: None  # whoever watches is told by vLLM's own pool
        return argument

    def of_all(self, arguments: Iterable[Any], more: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """The same for all arguments of a call."""
        return [self.of(one) for one in arguments], {key: self.of(one) for key, one in more.items()}

    def all_blocks(self) -> None:
        """Looks at every block of the pool."""
        for block in self._pool.blocks:
            self._block(block)

    def note(self, result: Any) -> None:
        """Remembers the blocks of a result."""
        blocks = result if isinstance(result, (list, tuple)) else [result]
        self.met += [one.block_id for one in blocks if isinstance(one, self._kind)]

    def _block(self, block: Any) -> Any:
        number = block.block_id
        self.met.append(number)
        ours = self._pool.shadow.blocks[number]
        change = block.ref_cnt - self._pool.counts[number]
        if change and not block.is_null:
            ours.ref_cnt += change
            self._pool.counts[number] = block.ref_cnt
        return ours


def _state(block: Any) -> tuple[Any, ...]:
    covered = getattr(block, "block_hash_num_tokens", None)
    return (block.block_id, block.is_null or block.ref_cnt, block.block_hash, covered)


def _queue(pool: Any) -> list[int]:
    return [block.block_id for block in pool.free_block_queue.get_all_free_blocks()]

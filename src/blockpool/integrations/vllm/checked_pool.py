"""vLLM's own pool with ours in step, for `BLOCKPOOL_VLLM=check`: every result is compared, vLLM's own is used."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, Final

from blockpool.integrations.vllm.comparison import Comparison

MIRRORED: Final = (
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
WHOLE_EVERY: Final = 500
"""After so many calls all blocks are compared; after each, those that it was about."""


def make_checked_pool(own: Any, ours: Any) -> Any:
    """A subclass of vLLM's pool that keeps one of ours in step.

    Args:
        own: vLLM's class.
        ours: The class that replaces it otherwise.
    """

    def __init__(self: Any, *arguments: Any, **more: Any) -> None:  # noqa: N807 - it becomes one
        own.__init__(self, *arguments, **more)
        self.comparison = Comparison("the block pool")
        self.num_calls = 0
        self.inside = False
        shadow = {**more, "metrics_collector": None}  # one of them tells the metrics
        self.shadow = ours(*arguments[:4], **shadow)

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
        self.inside = True
        try:
            result = method(self, *arguments, **more)
        finally:
            self.inside = False
        _compare(self, name, arguments, more, result)
        return result

    return call


def _compare(pool: Any, name: str, arguments: tuple[Any, ...], more: dict[str, Any], result: Any) -> None:
    comparison = pool.comparison
    shadow = pool.shadow
    pool.num_calls += 1
    mirror = _Mirror(pool)
    ours = comparison.attempt(
        name,
        lambda: getattr(shadow, name)(
            *[mirror.of(one) for one in arguments], **{key: mirror.of(one) for key, one in more.items()}
        ),
    )
    comparison.compare(name, shown(result), shown(ours))
    comparison.compare(
        f"{name}, free blocks", pool.free_block_queue.num_free_blocks, shadow.free_block_queue.num_free_blocks
    )
    mirror.of(result)
    ids: Any = mirror.met
    if pool.num_calls % WHOLE_EVERY == 0:
        ids = range(pool.num_gpu_blocks)
        comparison.compare(f"{name}, free queue", _queue(pool), _queue(shadow))
    comparison.compare(
        f"{name}, blocks",
        [_state(pool.blocks[one]) for one in ids],
        [_state(shadow.blocks[one]) for one in ids],
    )


class _Mirror:
    """Finds our pool's counterpart of an argument.

    Attributes:
        met: Ids of the blocks that it was asked for.
    """

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self._kind = type(pool.null_block)
        self.met: list[int] = []

    def of(self, argument: Any) -> Any:
        """The same value, with our blocks in the place of vLLM's."""
        if isinstance(argument, self._kind):
            self.met.append(argument.block_id)
            return self._pool.shadow.blocks[argument.block_id]
        if isinstance(argument, (list, tuple)) and any(isinstance(one, self._kind) for one in argument):
            return [self.of(one) for one in argument]
        if callable(argument):
            return lambda *told: None  # whoever watches is told by vLLM's own pool
        return argument


def shown(result: Any) -> Any:
    """A result as both pools can give it: blocks by id, events by what they say of hashes."""
    if isinstance(result, (list, tuple)):
        flat = [shown(one) for one in result]
        if flat and all(isinstance(one, str) for one in flat):
            return "".join(flat) or []  # several events may say what one says, or one may say nothing
        return flat
    if hasattr(result, "block_id"):
        return result.block_id
    kind = type(result).__name__
    if kind in ("BlockStored", "BlockRemoved"):
        return "".join(f"{kind} {digest!r}\n" for digest in result.block_hashes)
    if kind == "AllBlocksCleared":
        return f"{kind}\n"
    return result


def _state(block: Any) -> tuple[Any, ...]:
    return (block.block_id, block.is_null or block.ref_cnt, block.block_hash)


def _queue(pool: Any) -> list[int]:
    return [block.block_id for block in pool.free_block_queue.get_all_free_blocks()]

"""`Outlook`: how far a running request can go before any group must do something. Most steps do not go so far."""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from blockpool.core.types import IntArg
from blockpool.errors import ConfigError
from blockpool.kv_cache.checks import MAX_TOKENS
from blockpool.kv_cache.demand import Demand
from blockpool.kv_cache.types import RequestArg


@final
class Outlook:
    """How far a running request can go before any group must do something. Never too far; it may be too near.

    Attributes:
        request: The object that last came with this id.
        num_computed: What it had computed when it last needed something.
        num_slots: For so many tokens, lookahead included, all groups have blocks.
        next_to_cache: With so many tokens a block is full.
        next_to_skip: With so many computed a block is skipped.
    """

    __slots__ = ("next_to_cache", "next_to_skip", "num_computed", "num_slots", "request")

    def __init__(
        self, request: RequestArg, num_computed: int, num_slots: int, next_to_cache: int, next_to_skip: int
    ) -> None:
        self.request: RequestArg = request
        self.num_computed: int = num_computed
        self.num_slots: i64 = num_slots
        self.next_to_cache: i64 = next_to_cache
        self.next_to_skip: i64 = next_to_skip


def has_all(
    outlooks: dict[str, Outlook], request: RequestArg, num_new_tokens: IntArg, num_lookahead_tokens: IntArg
) -> bool:
    """Whether a request runs and has all that it needs for its next step, as nearly always in a decode step. O(1).

    No, too, when anything about it is wrong or out of the ordinary: then `Demand` looks at it one by one, and tells.
    """
    try:
        request_id = request.request_id
        num_computed = request.num_computed_tokens
        num_tokens = request.num_tokens
    except AttributeError:
        return False
    if not (
        isinstance(request_id, str)
        and isinstance(num_computed, int)
        and isinstance(num_tokens, int)
        and isinstance(num_new_tokens, int)
        and isinstance(num_lookahead_tokens, int)
    ):
        return False
    outlook = outlooks.get(request_id)
    if outlook is None or outlook.request is not request:
        return False
    # Plain integers: what a caller passes need not fit into a machine word.
    num_slots: int = outlook.num_slots
    next_to_cache: int = outlook.next_to_cache
    next_to_skip: int = outlook.next_to_skip
    num_main = num_computed + num_new_tokens
    return (
        num_main + num_lookahead_tokens <= num_slots
        and (num_main < next_to_cache or num_tokens < next_to_cache)
        and 0 <= num_computed < next_to_skip
        and num_new_tokens > 0
        and num_lookahead_tokens >= 0
        and 0 <= num_tokens <= MAX_TOKENS
    )


def require_same(outlook: Outlook, request: RequestArg, demand: Demand) -> None:
    """Checks that what comes with the id of a running request can be it, and can have computed so much. O(1).

    A scheduler may pass another object every time. It must then have computed something, no less than was known before,
    and begin with the same hash, where both have one.

    Raises:
        ConfigError: If it cannot be: two requests have one id, or there are no slots for what is computed.
    """
    if outlook.request is not request:
        if not 0 < demand.total_computed >= outlook.num_computed or _begins_otherwise(outlook, request):
            raise _another_runs(demand.request_id)
        outlook.request = request
    if demand.total_computed > outlook.num_slots:
        raise ConfigError(
            "request.num_computed_tokens",
            demand.total_computed,
            f"request {demand.request_id!r} has slots for {outlook.num_slots}",
        )


def require_slots(
    outlook: Outlook | None, request: RequestArg, request_id: str, num_computed_tokens: int
) -> None:
    """Checks that a request runs and has slots for so many tokens. O(1).

    Raises:
        ConfigError: If it does not, or begins with another hash than the one that runs.
    """
    if outlook is None or num_computed_tokens > outlook.num_slots:
        reason = f"request {request_id!r} has no slots for so many"
        raise ConfigError("num_computed_tokens", num_computed_tokens, reason)
    if outlook.request is not request and _begins_otherwise(outlook, request):
        raise _another_runs(request_id)


def _begins_otherwise(outlook: Outlook, request: RequestArg) -> bool:
    known = _first_hash(outlook.request)
    first = _first_hash(request)
    return known is not None and first is not None and known != first


def _another_runs(request_id: str) -> ConfigError:
    return ConfigError("request_id", request_id, "another request runs under this id")


def _first_hash(request: RequestArg) -> object:
    """Its first hash; None if it has none yet."""
    try:
        hashes = request.block_hashes
        return hashes[0] if len(hashes) > 0 else None
    except (AttributeError, TypeError, LookupError):
        return None

"""`Demand`: the arguments of one `allocate_slots`, checked, and what follows from them."""

from __future__ import annotations

from typing import Final, final

from blockpool.core.types import IntArg
from blockpool.errors import ArgumentError, ConfigError
from blockpool.kv_cache.checks import MAX_TOKENS, as_num_tokens
from blockpool.kv_cache.types import RequestArg

ZERO: Final = 0
"""The default, as an object: `is` tells at once that nothing else was passed. Any other 0 goes the longer way."""


@final
class Demand:
    """What one step of one request asks for.

    Attributes:
        request_id: The request.
        num_request_tokens: All it has.
        num_computed: Those that it says are computed; 0 of a new one.
        num_new_computed: Tokens of its hits.
        num_lookahead: Slots behind them all, for drafts.
        num_local: Tokens computed here, hits included.
        total_computed: With external ones, but not beyond the longest request.
        num_main: With those to compute, but not beyond the longest request.
        num_slots: With the lookahead, but not beyond the longest request.
        num_to_cache: Of all those, the ones that are no drafts, also beyond the longest request.
        num_encoder_tokens: Tokens that cross attention looks at.
        is_admission: Whether only a new request asks for such.

    Raises:
        ArgumentError: For a wrong type, and a request that lacks what is read.
        ConfigError: For numbers out of range, and when there is nothing to compute and nothing external.
    """

    __slots__ = (
        "is_admission",
        "num_computed",
        "num_encoder_tokens",
        "num_local",
        "num_lookahead",
        "num_main",
        "num_new_computed",
        "num_request_tokens",
        "num_slots",
        "num_to_cache",
        "request_id",
        "total_computed",
    )

    def __init__(
        self,
        request: RequestArg,
        max_model_len: int,
        num_new_tokens: IntArg,
        num_new_computed_tokens: IntArg,
        num_lookahead_tokens: IntArg,
        num_external_computed_tokens: IntArg,
        num_encoder_tokens: IntArg,
    ) -> None:
        num_new = _count("num_new_tokens", num_new_tokens)
        num_external = _count("num_external_computed_tokens", num_external_computed_tokens)
        if num_new == 0 and num_external == 0:
            raise ConfigError("num_new_tokens", 0, "must be at least 1 when there are no external tokens")
        try:
            request_id = request.request_id
            num_computed = _count("request.num_computed_tokens", request.num_computed_tokens)
            num_tokens = _count("request.num_tokens", request.num_tokens)
        except AttributeError as error:
            raise ArgumentError("request", request, str(error)) from None
        if not isinstance(request_id, str):
            raise ArgumentError("request.request_id", request_id, "a string is needed")
        self.request_id: str = request_id
        self.num_request_tokens: int = num_tokens
        self.num_computed: int = num_computed
        num_new_computed = _count("num_new_computed_tokens", num_new_computed_tokens)
        num_lookahead = _count("num_lookahead_tokens", num_lookahead_tokens)
        self.num_new_computed: int = num_new_computed
        self.num_lookahead: int = num_lookahead
        self.num_encoder_tokens: int = _count("num_encoder_tokens", num_encoder_tokens)
        # Written out: interpreted, `min` is a call.
        num_local = num_computed + num_new_computed
        self.num_local: int = num_local if num_local < max_model_len else max_model_len
        total = self.num_local + num_external
        self.total_computed: int = total if total < max_model_len else max_model_len
        num_all = self.total_computed + num_new
        self.num_main: int = num_all if num_all < max_model_len else max_model_len
        num_slots = num_all + num_lookahead
        self.num_slots: int = num_slots if num_slots < max_model_len else max_model_len
        self.num_to_cache: int = num_all if num_all < num_tokens else num_tokens
        self.is_admission: bool = num_external > 0 or num_new_computed > 0


def _count(field: str, value: IntArg) -> int:
    """`as_num_tokens`, in one call for what nearly every value is."""
    if value is ZERO:
        return ZERO
    return value if isinstance(value, int) and 0 <= value <= MAX_TOKENS else as_num_tokens(field, value)

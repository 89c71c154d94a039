"""`TokenRequest`: a request to start with, for engines that have no request object of their own yet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import index
from typing import cast

from blockpool.core.arguments import as_bool, as_int, as_list
from blockpool.core.extra_keys import block_extra_keys
from blockpool.core.hasher import BlockHasher
from blockpool.core.tokens import MAX_TOKEN_ID
from blockpool.core.types import LoRARequest
from blockpool.errors import ArgumentError, ConfigError


class TokenRequest:
    """Tokens, their hashes as they grow, and the counters that `KVCacheManager` reads: a `KVCacheRequest`.

    The scheduler writes `num_computed_tokens`, and `num_preemptions` through `preempt`.

    Args:
        request_id: Its name, of which there is one at a time.
        prompt_token_ids: Each in 0 … 2^32 - 1.
        hasher: Hashes its full blocks; None when prefix caching is off. Its block size is the manager's
            `hash_block_size`.
        lora_request: The adapter; keeps its KV apart.
        mm_inputs: Images and the like in the prompt, as for `block_extra_keys`.
        cache_salt: Keeps those with other salts out.
        skip_reading_prefix_cache: Whether it must compute its whole prompt.

    Attributes:
        request_id: As given.
        all_token_ids: Prompt and output so far. Only `append_output_token_ids` may lengthen it.
        block_hashes: One per full block.
        num_computed_tokens: Tokens whose KV is there.
        num_preemptions: How often it lost its blocks.
        lora_request: As given.
        skip_reading_prefix_cache: As given.

    Raises:
        ArgumentError: For an argument of the wrong type.
        ConfigError: For tokens out of range, and names or inputs that `block_extra_keys` refuses.
    """

    __slots__ = (
        "_cache_salt",
        "_hasher",
        "_mm_inputs",
        "all_token_ids",
        "block_hashes",
        "lora_request",
        "num_computed_tokens",
        "num_preemptions",
        "request_id",
        "skip_reading_prefix_cache",
    )

    def __init__(
        self,
        request_id: str,
        prompt_token_ids: Iterable[int],
        hasher: BlockHasher | None = None,
        *,
        lora_request: LoRARequest | None = None,
        mm_inputs: Sequence[tuple[str, int, int]] = (),
        cache_salt: str | None = None,
        skip_reading_prefix_cache: bool = False,
    ) -> None:
        if not isinstance(request_id, str):
            raise ArgumentError("request_id", request_id, "a string is needed")
        if lora_request is not None and not isinstance(getattr(lora_request, "name", None), str):
            raise ArgumentError("lora_request", lora_request, "an adapter with a name is needed")
        if hasher is not None and not isinstance(hasher, BlockHasher):
            raise ArgumentError("hasher", hasher, "a BlockHasher is needed")
        self.request_id = request_id
        self.all_token_ids: list[int] = []
        self.block_hashes: list[bytes] = []
        self.num_computed_tokens = 0
        self.num_preemptions = 0
        self.lora_request = lora_request
        self.skip_reading_prefix_cache = as_bool("skip_reading_prefix_cache", skip_reading_prefix_cache)
        self._hasher = hasher
        self._mm_inputs = cast("list[tuple[str, int, int]]", list(as_list("mm_inputs", mm_inputs)))
        self._cache_salt = cache_salt
        if hasher is None:
            self._extra_keys(0, 0, 1, "tagged")  # for their checks alone
        self.append_output_token_ids(prompt_token_ids)

    @property
    def num_tokens(self) -> int:
        """Prompt and output so far."""
        return len(self.all_token_ids)

    def append_output_token_ids(self, token_ids: int | Iterable[int]) -> None:
        """Adds tokens and hashes the blocks that become full. O(new tokens + block size); all or nothing."""
        single = hasattr(token_ids, "__index__") and not isinstance(token_ids, Iterable)
        new = _integers([token_ids] if single else token_ids)
        self.block_hashes += self._new_hashes(new)
        self.all_token_ids += new

    def preempt(self) -> None:
        """Notes that its blocks were taken away: all is to be computed, or found, again."""
        self.num_computed_tokens = 0
        self.num_preemptions += 1

    def __repr__(self) -> str:
        return (
            f"TokenRequest({self.request_id!r}, num_tokens={self.num_tokens}, "
            f"num_computed_tokens={self.num_computed_tokens})"
        )

    def _new_hashes(self, new: list[int]) -> Sequence[bytes]:
        hasher = self._hasher
        if hasher is None:
            for token in new:
                if not 0 <= token <= MAX_TOKEN_ID:
                    raise ConfigError("token_ids", token, f"must be in 0 … {MAX_TOKEN_ID}")
            return ()
        num_hashed = len(self.block_hashes)
        tokens = self.all_token_ids[num_hashed * hasher.block_size :] + new
        num_blocks = len(tokens) // hasher.block_size
        if num_blocks == 0 and self.all_token_ids:
            return hasher.hash_tokens(new)  # no hash yet: this only checks the tokens
        keys = self._extra_keys(num_hashed, num_blocks, hasher.block_size, hasher.key_schema)
        parent = self.block_hashes[-1] if num_hashed else None
        return hasher.hash_tokens(tokens, parent_hash=parent, extra_keys=keys)

    def _extra_keys(
        self, first_block: int, num_blocks: int, block_size: int, schema: str
    ) -> list[tuple[object, ...] | None]:
        return block_extra_keys(
            num_blocks=num_blocks,
            block_size=block_size,
            lora_name=None if self.lora_request is None else self.lora_request.name,
            mm_inputs=self._mm_inputs,
            cache_salt=self._cache_salt,
            first_block=first_block,
            schema=schema,
        )


def _integers(token_ids: object) -> list[int]:
    tokens = as_list("token_ids", token_ids)
    try:
        return [int(index(token)) for token in tokens]  # type: ignore[arg-type]
    except TypeError:
        return [as_int("token_ids", token) for token in tokens]  # names the one that is none

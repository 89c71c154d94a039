"""What a replay is told besides the trace and the size of the pool."""

from __future__ import annotations

from dataclasses import dataclass

from blockpool.core.arguments import as_bool, as_choice, as_count, as_int, as_size
from blockpool.core.hasher import HASH_ALGORITHMS
from blockpool.errors import ArgumentError, ConfigError
from blockpool.replay.arguments import as_number
from blockpool.replay.attention.grammar import FULL, parse_attention

TRACE_RULES = "trace"
ENGINE_RULES = "engine"
RULES = (TRACE_RULES, ENGINE_RULES)

WHOLE_TRACE = "all"
LAST_HALF = "last-half"
WINDOWS = (WHOLE_TRACE, LAST_HALF)

DEFAULT_HASH = "blake2b_raw"
MAX_POOL_BLOCKS = 100_000_000
FOLLOWED_BLOCKS = 2_000
FOLLOW_NOTHING = 1e-9
"""A sample rate, for replays of which nobody wants to know residency."""

FULL_ATTENTION = FULL
NO_CURVE = (
    "one pass tells all sizes for full attention only, for other hits are no stack; "
    "replay the sizes that you want to know"
)
DEFAULT_STEP_TOKENS = 8_192


@dataclass(frozen=True, slots=True)
class ReplaySettings:
    """How to replay. Checked when made.

    Attributes:
        rules: "trace" or "engine", see `blockpool.replay.rules`.
        window: "all" measures every request; "last-half" plays the first half as warm-up and measures
            requests n // 2 and later of n.
        reuse_uncached_first: Passed to `BlockPool`.
        check_every: Check the pool's invariants after every so many requests; 0 never.
        skip_bad: Count bad lines of the trace instead of stopping.
        sort: Play by timestamp, those of one time in file order, with the whole trace in memory. Without it a
            timestamp that goes back is an error.
        block_size: Tokens per block; None takes the default of the trace format.
        hash_algorithm: For token-id traces, one of `HASH_ALGORITHMS`. The seed is fixed, so runs repeat.
        sample_rate: Share of blocks whose residency is followed, above 0, at most 1. None follows
            about `FOLLOWED_BLOCKS` of them at a time: following one takes more memory than the block itself.
        explain: Say of every prompt block that missed why it did. Memory then follows the distinct blocks of the trace.
        tag: With `explain`, field of the trace's lines by which misses are summed, too. None takes `session_id` where
            there is one.
        attention: The KV cache groups of the model, see `blockpool.replay.attention.grammar`. Other than "full" goes
            with engine rules, without `explain`.
    """

    rules: str = TRACE_RULES
    window: str = WHOLE_TRACE
    reuse_uncached_first: bool = False
    check_every: int = 0
    skip_bad: bool = False
    sort: bool = False
    block_size: int | None = None
    hash_algorithm: str = DEFAULT_HASH
    sample_rate: float | None = None
    explain: bool = False
    tag: str | None = None
    attention: str = FULL_ATTENTION

    def __post_init__(self) -> None:
        as_choice("rules", self.rules, RULES)
        as_choice("window", self.window, WINDOWS)
        as_choice("hash_algorithm", self.hash_algorithm, HASH_ALGORITHMS)
        as_bool("reuse_uncached_first", self.reuse_uncached_first)
        as_bool("skip_bad", self.skip_bad)
        as_bool("sort", self.sort)
        as_count("check_every", self.check_every)
        if self.block_size is not None:
            as_size("block_size", self.block_size)
        if self.sample_rate is not None and not 0 < as_number("sample_rate", self.sample_rate) <= 1:
            raise ConfigError("sample_rate", self.sample_rate, "must be above 0, at most 1")
        as_bool("explain", self.explain)
        if self.tag is not None:
            _check_tag(self.tag, explain=self.explain)
        parse_attention(self.attention)
        if not self.is_full_attention:
            if self.rules != ENGINE_RULES:
                raise ConfigError("attention", self.attention, "goes with engine rules")
            if self.explain:
                raise ConfigError("attention", self.attention, "misses are explained for full attention only")

    @property
    def is_full_attention(self) -> bool:
        """Whether there is one group, of full attention."""
        return self.attention == FULL_ATTENTION

    def require_full_attention(self, reason: str) -> None:
        """Raises ConfigError, with this reason, for other attention."""
        if not self.is_full_attention:
            raise ConfigError("attention", self.attention, reason)

    def sample_rate_for(self, blocks: int) -> float:
        """Share of blocks that a pool of so many usable blocks follows."""
        if self.sample_rate is not None:
            return self.sample_rate
        return min(1.0, FOLLOWED_BLOCKS / blocks)


def _check_tag(tag: object, *, explain: bool) -> None:
    if not isinstance(tag, str):
        raise ArgumentError("tag", tag, "the name of a field is needed")
    if not tag:
        raise ConfigError("tag", tag, "the name is empty")
    if not explain:
        raise ConfigError("tag", tag, "goes with explain")


def check_pool_blocks(blocks: int) -> None:
    """Raises ConfigError unless a pool of that many usable blocks can be replayed."""
    if isinstance(blocks, bool):
        raise ArgumentError("blocks", blocks, "a number is needed")
    if not 1 <= as_int("blocks", blocks) <= MAX_POOL_BLOCKS:
        raise ConfigError("blocks", blocks, f"must be 1 … {MAX_POOL_BLOCKS:,}")

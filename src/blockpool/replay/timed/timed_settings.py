"""What a timed replay is told of the engine and of the arrivals."""

from __future__ import annotations

from dataclasses import dataclass

from blockpool.core.arguments import as_int, as_size
from blockpool.errors import ConfigError
from blockpool.replay.arguments import as_number
from blockpool.trace.generator import MAX_SEED

DEFAULT_MAX_RUNNING = 256
DEFAULT_MAX_BATCHED_TOKENS = 8_192
DEFAULT_PREFILL_RATE = 8_000.0
DEFAULT_DECODE_RATE = 40.0

MAX_RUNNING = 1_000_000
LOWEST_RATE = 1e-6
HIGHEST_RATE = 1e9  # one token per nanosecond, the grain of the clock

NS_PER_SECOND = 1_000_000_000


@dataclass(frozen=True, slots=True)
class TimedSettings:
    """The engine and the arrivals. Checked when made. Rates are 0.000001 … 1,000,000,000.

    The default rates are round numbers of no particular engine: measure your own.

    Attributes:
        speed: Divides the timestamps of the trace; None leaves them as they are. For traces with timestamps.
        arrival_rate: Requests per second, as a Poisson process. For traces without timestamps, which need it.
        seed: Of those arrivals, 0 … 2^63-1.
        max_running: Requests that run at a time, 1 … 1,000,000.
        max_batched_tokens: Tokens that one step may compute, at least `max_running`: longer prompts are
            computed in chunks.
        prefill_rate: Tokens per second at which prompts are computed, one after the other.
        decode_rate: Tokens per second that each decoding request gains.
    """

    speed: float | None = None
    arrival_rate: float | None = None
    seed: int = 0
    max_running: int = DEFAULT_MAX_RUNNING
    max_batched_tokens: int = DEFAULT_MAX_BATCHED_TOKENS
    prefill_rate: float = DEFAULT_PREFILL_RATE
    decode_rate: float = DEFAULT_DECODE_RATE

    def __post_init__(self) -> None:
        for field in ("speed", "arrival_rate", "prefill_rate", "decode_rate"):
            value = getattr(self, field)
            optional = field in ("speed", "arrival_rate")
            if (
                not (optional and value is None)
                and not LOWEST_RATE <= as_number(field, value) <= HIGHEST_RATE
            ):
                raise ConfigError(field, value, f"must be {LOWEST_RATE:f} … {HIGHEST_RATE:,.0f}")
        if self.speed is not None and self.arrival_rate is not None:
            raise ConfigError(
                "arrival_rate", self.arrival_rate, "not with speed, which is for traces with timestamps"
            )
        if not 0 <= as_int("seed", self.seed) <= MAX_SEED:
            raise ConfigError("seed", self.seed, f"must be 0 … {MAX_SEED}")
        if as_size("max_running", self.max_running) > MAX_RUNNING:
            raise ConfigError("max_running", self.max_running, f"must be at most {MAX_RUNNING:,}")
        if as_size("max_batched_tokens", self.max_batched_tokens) < self.max_running:
            self._refuse_budget()

    def _refuse_budget(self) -> None:
        """Names the one of the two that was given; of the other one that it is a default."""
        running, tokens = self.max_running, self.max_batched_tokens
        why = ": each may need one token per step"
        if tokens == DEFAULT_MAX_BATCHED_TOKENS:
            raise ConfigError(
                "max_running", running, f"must be at most max_batched_tokens, by default {tokens:,}{why}"
            )
        default = "by default " if running == DEFAULT_MAX_RUNNING else ""
        raise ConfigError(
            "max_batched_tokens", tokens, f"must be at least max_running, {default}{running:,}{why}"
        )

    @property
    def decode_step_ns(self) -> int:
        """Nanoseconds that a step takes because something decodes, at least 1."""
        return max(1, round(NS_PER_SECOND / self.decode_rate))

    def prefill_ns(self, num_tokens: int) -> int:
        """Nanoseconds to compute so many tokens of prompts."""
        return round(num_tokens * NS_PER_SECOND / self.prefill_rate)

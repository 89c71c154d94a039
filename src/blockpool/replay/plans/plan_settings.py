"""`PlanSettings`: the hardware and the fleet that a plan is for."""

from __future__ import annotations

from dataclasses import dataclass

from blockpool.core.arguments import as_count, as_int
from blockpool.errors import ConfigError
from blockpool.replay.arguments import as_number
from blockpool.replay.plans.kv_dtype import AUTO_DTYPE, check_kv_dtype
from blockpool.replay.plans.routing import ROUTINGS, check_routing

MAX_TENSOR_PARALLEL = 1024
MAX_RUNNING = 100_000
MAX_MEMORY_BYTES = 10**18
MIN_PREFILL_RATE = 1e-3
MAX_PREFILL_RATE = 1e12


@dataclass(frozen=True, slots=True)
class PlanSettings:
    """What to plan for. Checked when made.

    Attributes:
        gpu_memory: Bytes of one GPU.
        reserve: Bytes of one GPU that are not for the cache: weights (its share), activations, buffers.
        kv_dtype: One of `KV_DTYPES`; "auto" takes the model's.
        tensor_parallel: GPUs of one replica.
        max_running: Requests that run at a time in one replica, each with its windows and states.
        prefill_rate: Prompt tokens that one replica computes per second, 0.001 … 10^12; None: time is not told.
        replicas: How many engines, each with a pool of its own.
        routing: One of `ROUTINGS`, or None for all of them. Does not matter for one replica.
        seed: For random routing.
    """

    gpu_memory: int
    reserve: int = 0
    kv_dtype: str = AUTO_DTYPE
    tensor_parallel: int = 1
    max_running: int = 1
    prefill_rate: float | None = None
    replicas: int = 1
    routing: str | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        check_kv_dtype(self.kv_dtype)
        check_routing(self.routings()[0], self.replicas)
        _check_range("gpu_memory", self.gpu_memory, 1, MAX_MEMORY_BYTES)
        _check_range("reserve", self.reserve, 0, MAX_MEMORY_BYTES)
        _check_range("tensor_parallel", self.tensor_parallel, 1, MAX_TENSOR_PARALLEL)
        _check_range("max_running", self.max_running, 1, MAX_RUNNING)
        rate = self.prefill_rate
        if rate is not None and not MIN_PREFILL_RATE <= as_number("prefill_rate", rate) <= MAX_PREFILL_RATE:
            reason = f"must be {MIN_PREFILL_RATE:g} … {MAX_PREFILL_RATE:,.0f} tokens per second"
            raise ConfigError("prefill_rate", rate, reason)
        as_count("seed", self.seed)

    def routings(self) -> tuple[str, ...]:
        """The ways of routing to plan for."""
        return ROUTINGS if self.routing is None else (self.routing,)


def _check_range(field: str, value: int, least: int, most: int) -> None:
    if not least <= as_int(field, value) <= most:
        raise ConfigError(field, value, f"must be {least:,} … {most:,}")

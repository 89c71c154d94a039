"""Which of several replicas a request goes to. Each replica has a pool of its own.

| routing | rule |
|---|---|
| random | any replica, by a seeded generator: what a plain load balancer does to a cache |
| affine | the replica that was sent the longest run of the prompt's first blocks, unless it has too much to do |

The affine router knows what it sent where, not what was evicted since, as the approximate prefix-aware routers
of SGLang and llm-d. So the way of a request does not depend on the size of the pools, and one routing serves
every size.
"""

from __future__ import annotations

import random
from collections.abc import Hashable
from typing import Protocol

from blockpool.core.arguments import as_choice, as_int
from blockpool.errors import ConfigError
from blockpool.replay.rules import RequestPlan

RANDOM = "random"
AFFINE = "affine"
ROUTINGS = (RANDOM, AFFINE)

MAX_REPLICAS = 1024

# A replica has too much to do when its prompt tokens exceed the mean of all by this factor (the bound of
# "Consistent hashing with bounded loads", Mirrokni, Thorup and Zadimoghaddam 2016, with ε = 1/4) and by more than
# so many prompts of mean length (SGLang's router lets queues differ by 64 before it evens them out).
LOAD_FACTOR = 1.25
SLACK_REQUESTS = 64


class Router(Protocol):
    """Sends requests to replicas, one after the other."""

    def route(self, plan: RequestPlan, prompt_tokens: int) -> int:
        """The replica of the next request, from 0."""


class RandomRouter:
    """Sends each request anywhere."""

    def __init__(self, replicas: int, seed: int) -> None:
        """Starts the generator; equal seeds send equally."""
        self._replicas = replicas
        self._random = random.Random(seed)

    def route(self, plan: RequestPlan, prompt_tokens: int) -> int:
        """The replica of the next request, from 0."""
        return self._random.randrange(self._replicas)


class AffineRouter:
    """Sends each request to where its prefix went before.

    Among replicas that got an equally long prefix, and for a prompt that nobody got, the one with the fewest
    prompt tokens so far is taken, the first of them. Memory: one number per distinct block.
    """

    def __init__(self, replicas: int) -> None:
        """Starts with replicas that have seen nothing."""
        self._all = (1 << replicas) - 1
        self._loads = [0] * replicas
        self._requests = 0
        self._sent: dict[Hashable, int] = {}  # key -> a bit for each replica that was sent it

    def route(self, plan: RequestPlan, prompt_tokens: int) -> int:
        """The replica of the next request, from 0. O(blocks of the prompt + replicas).

        What may hit decides; what is indexed after it, outputs too, is remembered.
        """
        self._requests += 1
        replica = self._least_loaded(self._with_longest_prefix(plan.keys[: plan.max_hit_blocks]))
        if self._has_too_much(replica):
            replica = self._least_loaded(self._all)
        self._loads[replica] += prompt_tokens
        bit = 1 << replica
        for key in plan.keys:
            self._sent[key] = self._sent.get(key, 0) | bit
        return replica

    def _with_longest_prefix(self, keys: list[Hashable]) -> int:
        candidates = self._all
        for key in keys:
            narrowed = candidates & self._sent.get(key, 0)
            if not narrowed:
                break
            candidates = narrowed
        return candidates

    def _least_loaded(self, candidates: int) -> int:
        loads = self._loads
        return min(
            (replica for replica in range(len(loads)) if candidates >> replica & 1),
            key=lambda replica: (loads[replica], replica),
        )

    def _has_too_much(self, replica: int) -> bool:
        total = sum(self._loads)
        mean = total / len(self._loads)
        load = self._loads[replica]
        return load > LOAD_FACTOR * mean and load - mean > SLACK_REQUESTS * total / self._requests


def make_router(routing: str, replicas: int, *, seed: int) -> Router:
    """Makes a router.

    Args:
        routing: One of `ROUTINGS`.
        replicas: 1 … `MAX_REPLICAS`.
        seed: For random routing.

    Raises:
        ConfigError: An unknown routing, or too many replicas.
    """
    check_routing(routing, replicas)
    return RandomRouter(replicas, seed) if routing == RANDOM else AffineRouter(replicas)


def check_routing(routing: str, replicas: int) -> None:
    """Raises ConfigError unless `make_router` takes them."""
    as_choice("routing", routing, ROUTINGS)
    if not 1 <= as_int("replicas", replicas) <= MAX_REPLICAS:
        raise ConfigError("replicas", replicas, f"must be 1 … {MAX_REPLICAS:,}")

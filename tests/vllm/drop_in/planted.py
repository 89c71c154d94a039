"""Whether `BLOCKPOOL_VLLM=check` finds a fault: each call of our pool is broken in turn, in a process of its own.

    python -m tests.vllm.drop_in.planted

It prints one line of JSON: for each fault what was told of it, or null. vLLM's own pool must go on undisturbed.
"""

from __future__ import annotations

import json
import logging
import os
from dataclasses import replace
from typing import Any

from blockpool.integrations.vllm.checked_pool import MIRRORED, make_checked_look_up

from .pool_calls import Calls
from .pool_pair import Parts, checked, load_parts

NUM_SEEDS = 60
NUM_CALLS = 60
LOOK_UP = "find_longest_cache_hit"


def broken(parts: Parts, name: str) -> Parts:
    """The parts in step, ours with a call that does nothing and gives nothing."""
    if name == LOOK_UP:
        look_up = make_checked_look_up(parts.own_look_up, lambda *arguments, **more: None)
        return replace(checked(parts), our_look_up=look_up)
    faulty = type("Faulty", (parts.our_pool,), {name: lambda self, *arguments, **more: None})
    return checked(replace(parts, our_pool=faulty))


def found(parts: Parts, name: str) -> str | None:
    """What is told of it."""
    for seed in range(NUM_SEEDS):
        calls = Calls(broken(parts, name), seed)
        calls.play(NUM_CALLS)
        mismatch: Any = calls.pair.pools[1].comparison.mismatch
        if mismatch is not None:
            return str(mismatch)[:200]
    return None


def main() -> None:
    """Be one process of the test."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever vLLM prints goes elsewhere
    import vllm  # noqa: F401 - it sets itself up

    logging.disable(logging.ERROR)
    parts = load_parts()
    names = [name for name in MIRRORED if hasattr(parts.our_pool, name)]
    if not parts.is_new:
        names.remove("_maybe_evict_cached_block")  # only the pool itself calls it in 0.16
    answers.write(json.dumps({name: found(parts, name) for name in (*names, LOOK_UP)}) + "\n")


if __name__ == "__main__":
    main()

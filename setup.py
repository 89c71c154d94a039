"""What pyproject.toml cannot say: which modules are compiled with mypyc, and how.

Reached through build_backend.py, which sets BLOCKPOOL_COMPILE to 1 or 0.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from setuptools import setup

# The compiled modules: the pool's hot path, all in one group so that they call each other
# directly. Not here, on purpose: `errors` (a compiled exception cannot be subclassed), `core.types`
# (aliases that mean `object` to the compiler and the precise type to readers), and the classes that
# subclass an abstract collection.
COMPILED_MODULES = (
    "arguments",
    "blake2b",
    "block",
    "block_hash",
    "block_map",
    "block_store",
    "build",
    "chains",
    "dict_index",
    "digests",
    "direct_chains",
    "encoding",
    "event_log",
    "event_writer",
    "events",
    "extra_keys",
    "free_queue",
    "group_index",
    "hash_mixer",
    "hasher",
    "invariants",
    "metrics",
    "occupancy",
    "packed_index",
    "packed_index_check",
    "packed_runs",
    "packed_table",
    "pool",
    "refusals",
    "stored_events",
    "tokens",
    "writers",
)
# The hot part of `blockpool curve`, in replay/curves and the same group.
COMPILED_PASS = (
    "hit_histogram",
    "integer_lists",
    "key_sampler",
    "policies",
    "recency_list",
    "stack_distance",
)

# The managers that a scheduler calls at every step, in kv_cache/ and the same group. The specs, the
# configuration and the choice of managers run once and stay as they are.
COMPILED_MANAGERS = (
    "admission",
    "blocks",
    "caching_coordinators",
    "checks",
    "chunked_local",
    "coordinator",
    "cross_attention",
    "demand",
    "found_hit",
    "full_attention",
    "lookups",
    "mamba",
    "manager",
    "outlook",
    "single_type_manager",
    "sliding_window",
)

# Nobody replaces a function of the group from outside: calls within it need no table, and can be inlined. As portable
# as without them.
LINUX_FLAGS = ["-fno-semantic-interposition", "-fno-plt"]

# Only these commands build; metadata and sdist need no compiler.
BUILD_COMMANDS = {"build", "build_ext", "bdist_wheel", "editable_wheel"}


def extension_modules() -> list[Any]:
    """Translate the compiled modules to C; empty when this run compiles nothing."""
    if os.environ.get("BLOCKPOOL_COMPILE") != "1" or not BUILD_COMMANDS.intersection(sys.argv):
        return []
    from mypyc.build import mypycify

    options = [
        # Optional packages are not in the build environment. Strictness is `make lint`'s business.
        "--ignore-missing-imports",
        # Compiled signatures take `object`, so that a wrong argument meets our own check
        # and our own error, not mypyc's.
        "--always-true=BLOCKPOOL_COMPILING",
        # Not pyproject's settings: they say the opposite of the line above.
        "--config-file=",
        f"--cache-dir={os.devnull}",
    ]
    paths = [f"src/blockpool/core/{name}.py" for name in COMPILED_MODULES]
    paths += [f"src/blockpool/replay/curves/{name}.py" for name in COMPILED_PASS]
    paths += [f"src/blockpool/kv_cache/{name}.py" for name in COMPILED_MANAGERS]
    extensions = list(
        mypycify(
            options + paths,
            opt_level="3",
            debug_level="0",
            # A dotted name keeps the group's library inside the package.
            group_name="blockpool.core._compiled",
        )
    )
    if sys.platform == "linux":
        for extension in extensions:
            extension.extra_compile_args += LINUX_FLAGS
    return extensions


setup(ext_modules=extension_modules())

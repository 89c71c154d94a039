"""A small engine on the pool, to look at and to learn from: a real model with paged attention, on the CPU.

It shows what the pool is for: a scheduler on `KVCacheManager`, a KV cache that is addressed through block tables, and
outputs that are the same bits with and without prefix caching. Nothing else of blockpool needs it. It needs NumPy,
which the extra `demo` brings.
"""

from blockpool.errors import MissingExtraError

try:
    import numpy as _numpy  # noqa: F401
except ImportError:
    raise MissingExtraError("the demo engine", "demo") from None

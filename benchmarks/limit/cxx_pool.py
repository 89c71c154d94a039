"""The array pool of `array_pool.cpp`, built with the system's compiler and called through ctypes."""

from __future__ import annotations

import ctypes
import functools
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.peer import PeerRequest

SOURCE = Path(__file__).with_name("array_pool.cpp")
FLAGS = ("-std=c++17", "-O3", "-DNDEBUG", "-shared", "-fPIC")
COMPILERS = ("c++", "g++", "clang++")


def compiler() -> str | None:
    """The C++ compiler that `CXX` names, or the first that is installed; None if there is none."""
    named = os.environ.get("CXX")
    for name in (named,) if named else COMPILERS:
        found = shutil.which(name)
        if found is not None:
            return found
    return None


@functools.cache
def library() -> Any:
    """The program as a loaded library, built once per process; None where there is no compiler."""
    found = compiler()
    if found is None or sys.platform == "win32":
        return None
    folder = tempfile.TemporaryDirectory(prefix="blockpool-limit-")
    path = Path(folder.name) / "array_pool.so"
    subprocess.run([found, *FLAGS, str(SOURCE), "-o", str(path)], check=True, stdin=subprocess.DEVNULL)
    loaded = ctypes.CDLL(str(path))
    folder.cleanup()  # the loaded library outlives its file
    loaded.pool_make.restype = ctypes.c_void_p
    loaded.pool_make.argtypes = [ctypes.c_uint32]
    loaded.pool_drop.restype = None
    loaded.pool_drop.argtypes = [ctypes.c_void_p]
    loaded.pool_play.restype = ctypes.c_uint64
    loaded.pool_play.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint32, ctypes.c_uint32]
    loaded.pool_free_order.restype = None
    loaded.pool_free_order.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    return loaded


class CxxPlayer:
    """The third side of the request path; as `Player`, but what is timed takes prepared bytes."""

    def __init__(self, num_blocks: int, request_blocks: int) -> None:
        self.library = library()
        self.num_blocks = num_blocks
        self.request_blocks = request_blocks
        self.pool: int = self.library.pool_make(num_blocks)
        self.num_hits = 0

    def prepare(self, requests: list[PeerRequest]) -> bytes:
        """All digests of the requests in one piece: outside of the clock, like the making of the requests."""
        return b"".join([digest for request in requests for digest in request.block_hashes])

    def play(self, digests: bytes) -> None:
        """Serve the requests: this is what is timed."""
        count = len(digests) // (32 * self.request_blocks)
        self.num_hits += self.library.pool_play(self.pool, digests, count, self.request_blocks)

    def outcome(self) -> tuple[int, list[int]]:
        """Hits, ids in eviction order."""
        ids = (ctypes.c_uint32 * (self.num_blocks - 1))()
        self.library.pool_free_order(self.pool, ids)
        return self.num_hits, list(ids)

    def drop(self) -> None:
        """Gives its memory back."""
        self.library.pool_drop(self.pool)

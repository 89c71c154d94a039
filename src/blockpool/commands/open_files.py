"""How many files and sockets a process may have open, asked for before ZeroMQ finds out: it would end the process."""

from __future__ import annotations

import errno

try:
    import resource
except ImportError:  # not on Windows, which has no such limit
    resource = None  # type: ignore[assignment]

PER_PUBLISHER = 12
"""9 were counted, with a replay socket; each of those who listen takes one more."""
PER_ADDRESS = 6
"""5 were counted for a publisher that is followed, with a replay socket."""
_OTHERS = 32


def allow_open_files(what: str, count: int) -> None:
    """Raises the process' own limit where it is too low.

    Args:
        what: Who needs them, for the error.
        count: How many, beside what every process has.

    Raises:
        OSError: If the system allows fewer.
    """
    if resource is None:
        return
    needed = count + _OTHERS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise OSError(
            errno.EMFILE, f"{what} need some {needed} open files, and {hard} are allowed (ulimit -n)"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))

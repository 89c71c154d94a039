"""`PrefixCacheStats`: what was asked of the prefix cache and what it had."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class PrefixCacheStats:
    """Counts of the requests admitted since the last hand-over. Resumed ones stand apart: they find what they left.

    Attributes:
        reset: Whether the prefix cache was reset meanwhile.
        requests: Requests admitted for the first time.
        queries: Their tokens.
        hits: How many of these were found.
        preempted_requests: Requests admitted again after a preemption.
        preempted_queries: Their tokens.
        preempted_hits: How many of these were found.
    """

    reset: bool = False
    requests: int = 0
    queries: int = 0
    hits: int = 0
    preempted_requests: int = 0
    preempted_queries: int = 0
    preempted_hits: int = 0

    def record(self, num_tokens: int, num_hits: int, preempted: bool) -> None:
        """Counts one admission."""
        if preempted:
            self.preempted_requests += 1
            self.preempted_queries += num_tokens
            self.preempted_hits += num_hits
        else:
            self.requests += 1
            self.queries += num_tokens
            self.hits += num_hits

"""`Arrivals`: when the requests of a trace come, read no earlier than they are wanted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from blockpool.errors import ConfigError
from blockpool.replay.timed.timed_settings import NS_PER_SECOND, TimedSettings
from blockpool.trace.draws import Draws
from blockpool.trace.request import TraceRequest

_NS_PER_MS = 1_000_000
_STREAM = 2**61  # of the seed; the workload generator uses others


class Arrival(NamedTuple):
    """A request that comes.

    Attributes:
        request: As the trace has it.
        time_ns: When, on the engine's clock.
        line: Where it stands in its file, from 1; None without one.
    """

    request: TraceRequest
    time_ns: int
    line: int | None


class Arrivals:
    """The requests in order of arrival, one looked at ahead.

    Attributes:
        first: The first request of all.
        next_ns: When the next one comes, in nanoseconds of the engine's clock; None after the last.
    """

    def __init__(
        self,
        requests: Iterator[TraceRequest],
        settings: TimedSettings,
        line_of_latest: Callable[[], int | None] = lambda: None,
    ) -> None:
        """Looks at the first request.

        Args:
            requests: At least one; timestamps on all, not going back, or on none.
            settings: How their times are made.
            line_of_latest: The line of the request that was read last.

        Raises:
            ConfigError: The trace has no timestamps and there is no rate, or the other way round.
            TraceError, OSError: As reading does; `pop` likewise.
        """
        self._requests = requests
        self._rate = settings.arrival_rate
        self._speed = settings.speed or 1
        self._draws = Draws(settings.seed, _STREAM)
        self._clock_s = 0.0
        self._line_of_latest = line_of_latest
        self.next_ns: int | None = None
        first = next(requests)
        self.first = first
        self._next: TraceRequest | None = first
        if first.timestamp_ms is None and self._rate is None:
            if settings.speed is not None:
                raise ConfigError("speed", settings.speed, "the trace has no timestamps to divide")
            raise ConfigError("arrival_rate", None, "is needed, as the trace has no timestamps")
        if first.timestamp_ms is not None and self._rate is not None:
            raise ConfigError("arrival_rate", self._rate, "the trace has timestamps; speed divides them")
        self.next_ns = self._time_of(first)
        self._next_line = line_of_latest()

    def pop(self) -> Arrival:
        """Takes the next request. Only while `next_ns` is not None."""
        request, time_ns = self._next, self.next_ns
        assert request is not None
        assert time_ns is not None
        arrival = Arrival(request, time_ns, self._next_line)
        self._next = next(self._requests, None)
        self.next_ns = None if self._next is None else self._time_of(self._next)
        self._next_line = self._line_of_latest()
        return arrival

    def _time_of(self, request: TraceRequest) -> int:
        if self._rate is not None:
            self._clock_s += self._draws.exponential() / self._rate
            return round(self._clock_s * NS_PER_SECOND)
        assert request.timestamp_ms is not None
        time_ns = request.timestamp_ms * _NS_PER_MS
        return round(time_ns if self._speed == 1 else time_ns / self._speed)

"""How a trace is played as a fleet of mock workers that publish."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from blockpool.core.arguments import as_choice, as_size
from blockpool.errors import ArgumentError, ConfigError
from blockpool.events.encoder import DIALECTS
from blockpool.events.endpoints import as_endpoint, as_topic, offset_endpoint
from blockpool.replay.arguments import as_number

ROUND_ROBIN: Final = "round-robin"
BY_SESSION: Final = "session"
ROUTINGS: Final = (ROUND_ROBIN, BY_SESSION)
MAX_WORKERS: Final = 256

_PORT: Final = re.compile(r":(\d+)$")


@dataclass(frozen=True, slots=True)
class FleetSettings:
    """What a fleet is told besides the trace and the pools. Checked when made.

    Attributes:
        publish: Where the first worker publishes; always bound. The tcp ports of the others rise by their number,
            port 0 lets the system choose, ipc addresses get `_dp<number>`.
        publish_replay: Where the first answers those who missed something; the others likewise. None: nobody does.
        workers: 1 … 256.
        routing: "round-robin", or "session": all requests of a session go to the worker that its first one went to,
            and first ones go round.
        speed: Trace time passes so many times as fast as real time, above 0. None: as fast as possible.
        topic: First frame of every message; `{rank}` in it stands for the number of the worker.
        dialect: "array" or "map".
    """

    publish: str
    publish_replay: str | None = None
    workers: int = 1
    routing: str = ROUND_ROBIN
    speed: float | None = None
    topic: str = ""
    dialect: str = DIALECTS[0]

    def __post_init__(self) -> None:
        """Raises ArgumentError or ConfigError for what cannot be right."""
        workers = as_size("workers", self.workers)
        if workers > MAX_WORKERS:
            raise ConfigError("workers", workers, f"must be at most {MAX_WORKERS}")
        as_choice("routing", self.routing, ROUTINGS)
        as_choice("dialect", self.dialect, DIALECTS)
        as_topic("topic", self.topic)
        if self.speed is not None and not 0 < as_number("speed", self.speed) < float("inf"):
            raise ConfigError("speed", self.speed, "must be above 0")
        _check_last("publish", self.publish, workers)
        if self.publish_replay is None:
            return
        if not isinstance(self.publish_replay, str):
            raise ArgumentError("publish_replay", self.publish_replay, "an address is needed")
        _check_last("publish_replay", self.publish_replay, workers)
        self._check_apart()

    def topic_of(self, rank: int) -> str:
        """The topic of one worker."""
        return self.topic.replace("{rank}", str(rank))

    def _check_apart(self) -> None:
        """Raises ConfigError if a port of one kind is a port of the other, too."""
        first, replay = _port(self.publish), _port(self.publish_replay or "")
        if first and replay and abs(first - replay) < self.workers:
            last = self.workers - 1
            reason = f"ports {replay} … {replay + last} meet {first} … {first + last} of --publish"
            raise ConfigError("publish_replay", self.publish_replay, reason)


def _check_last(field: str, address: str, workers: int) -> None:
    """Raises ConfigError if the first or the last worker could not have its address."""
    as_endpoint(field, address)
    try:
        offset_endpoint(address, workers - 1)
    except ConfigError as error:
        raise ConfigError(field, address, error.reason) from None


def _port(address: str) -> int:
    found = _PORT.search(address) if address.startswith("tcp://") else None
    return 0 if found is None else int(found[1])

"""What `watch` and `record` share: whom to listen to, and until when."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TYPE_CHECKING

import click

from blockpool.commands.open_files import PER_ADDRESS, allow_open_files
from blockpool.commands.options import Number, all_of
from blockpool.errors import ConfigError, printable

if TYPE_CHECKING:  # needs the extra `events`, and is imported when it is asked for
    from blockpool.events import EventSubscriber, ReceivedBatch, Source


following_options = all_of(
    click.argument("addresses", nargs=-1, required=True, metavar="ADDRESS..."),
    click.option(
        "--replay-endpoint",
        "replay_endpoints",
        multiple=True,
        metavar="ADDRESS",
        help="Where a publisher answers those who missed something; once for each ADDRESS, in their order.",
    ),
    click.option(
        "--ranks",
        type=click.IntRange(1),
        default=1,
        metavar="N",
        help="Each address stands for those of N data-parallel ranks: ports rise by 1 from there, ipc gets _dp1, ….",
    ),
    click.option("--topic", default="", metavar="PREFIX", help="Only topics that begin so."),
    click.option(
        "--duration",
        type=Number(0, min_open=True),
        metavar="SECONDS",
        help="End after so long.",
    ),
    click.option("--count", type=click.IntRange(1), metavar="N", help="End after so many batches."),
)
"""Argument and options of everything that listens."""


@contextlib.contextmanager
def subscriber(
    addresses: tuple[str, ...], replay_endpoints: tuple[str, ...], ranks: int, topic: str
) -> Iterator[tuple[EventSubscriber, list[str]]]:
    """Listens, and says at which addresses: those of all ranks.

    Fingerprints are shown, or written down, and nobody is dropped for his.

    Raises:
        UsageError: For addresses that are not well formed, listed twice, or do not pair up.
        EndpointError: If an address that is to be bound is taken.
        OSError: If the process may not have as many sockets.
    """
    from blockpool.events import EventSubscriber, SourceAddress

    if replay_endpoints and len(replay_endpoints) != len(addresses):
        raise click.UsageError(
            f"--replay-endpoint: {len(replay_endpoints)} for {len(addresses)} addresses; give one for each, or none"
        )
    for address in addresses:
        _check_address("ADDRESS", address, may_be_bound=True)
    for address in replay_endpoints:
        _check_address("--replay-endpoint", address, may_be_bound=False)
    endpoints = _of_ranks("ADDRESS", addresses, ranks)
    replays = _of_ranks("--replay-endpoint", replay_endpoints, ranks)
    paired = [
        SourceAddress(endpoint, replays[place] if replays else None)
        for place, endpoint in enumerate(endpoints)
    ]
    allow_open_files(f"{len(paired)} addresses", PER_ADDRESS * len(paired))
    try:
        made = EventSubscriber(paired, topic=topic, compare_fingerprints=False)
    except ConfigError as error:
        raise _usage_error("--topic" if error.field == "topic" else "ADDRESS", error) from None
    with made:
        yield made, endpoints


def _of_ranks(name: str, addresses: tuple[str, ...], ranks: int) -> list[str]:
    """Those of all ranks of the first address, then of the next."""
    from blockpool.events import offset_endpoint

    try:
        return [offset_endpoint(address, rank) for address in addresses for rank in range(ranks)]
    except ConfigError as error:
        raise click.UsageError(f"--ranks {ranks}: {name}: {error.reason}") from None


def _check_address(name: str, address: str, *, may_be_bound: bool) -> None:
    """Raises a usage error for an address that is not well formed, or at which nothing could ever be heard."""
    from blockpool.events.endpoints import as_endpoint

    try:
        endpoint = as_endpoint(name, address)
        port = address.rpartition(":")[2]
        if endpoint.transport == "inproc":
            raise ConfigError(name, address, "inproc ends at the edge of a process")
        if endpoint.transport == "tcp" and (port == "*" or int(port) == 0):
            raise ConfigError(name, address, "the number of a port is needed")
        if endpoint.transport == "tcp" and "*" in address and not may_be_bound:
            raise ConfigError(name, address, "is where to connect to; a host is needed")
    except ConfigError as error:
        raise _usage_error(name, error) from None


def _usage_error(name: str, error: ConfigError) -> click.UsageError:
    return click.UsageError(printable(f"{name} {error.value}: {error.reason}"))


def deliveries(
    following: EventSubscriber,
    *,
    duration: float | None,
    count: int | None,
    wake: float,
    ending: Ending | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[list[tuple[Source, ReceivedBatch]]]:
    """What comes in, until the time is over or so many batches were had; at the latest every `wake` seconds something.

    Args:
        following: The subscriber.
        duration: Seconds, or None.
        count: Batches, those of snapshots included, notices not; or None.
        wake: Seconds.
        ending: Looked at between two polls.
        clock: Monotonic seconds.
    """
    end = None if duration is None else clock() + duration
    left = count
    while left != 0 and (end is None or clock() < end) and (ending is None or ending.number is None):
        wait = wake if end is None else max(min(wake, end - clock()), 0.0)
        taken = following.poll(wait)
        if left is not None:
            for place, (_, batch) in enumerate(taken):
                left -= batch.origin != "notice"
                if left == 0:
                    taken = taken[: place + 1]
                    break
        yield taken


class Ending:
    """Whether the process has been asked to end.

    Attributes:
        number: Of the signal; None: not yet.
    """

    def __init__(self) -> None:
        self.number: int | None = None


@contextlib.contextmanager
def asked_to_end() -> Iterator[Ending]:
    """SIGINT, SIGTERM and SIGHUP are noted, for work that is to end between two pieces; the second ends it at once.

    An exception in the middle of a piece could leave half of it: a socket that nobody closes, half a screen.
    """
    ending = Ending()

    def note(number: int, frame: FrameType | None) -> None:
        if ending.number is not None:
            raise SystemExit(128 + number)
        ending.number = number

    with _handling(("SIGINT", "SIGTERM", "SIGHUP"), note):
        yield ending


@contextlib.contextmanager
def ending_when_terminated() -> Iterator[None]:
    """SIGTERM and SIGHUP end what is in the block in good order, with the exit code that shells expect."""

    def end(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    with _handling(("SIGTERM", "SIGHUP"), end):
        yield


@contextlib.contextmanager
def _handling(names: tuple[str, ...], handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for name in names:
            number = getattr(signal, name, None)  # Windows has no SIGHUP
            if number is None or signal.getsignal(number) is signal.SIG_IGN:  # as nohup asks for
                continue
            try:
                before = signal.signal(number, handler)
            except ValueError:  # not the main thread
                break
            stack.callback(signal.signal, number, before)
        yield

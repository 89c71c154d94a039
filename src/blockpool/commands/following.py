"""What `watch` and `record` share: whom to listen to, and until when."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TYPE_CHECKING

import click

from blockpool.commands.options import all_of
from blockpool.commands.usage import as_usage

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
    click.option("--topic", default="", metavar="PREFIX", help="Only topics that begin so."),
    click.option(
        "--duration",
        type=click.FloatRange(0, min_open=True),
        metavar="SECONDS",
        help="End after so long.",
    ),
    click.option("--count", type=click.IntRange(1), metavar="N", help="End after so many batches."),
)
"""Argument and options of everything that listens."""


@contextlib.contextmanager
def subscriber(
    addresses: tuple[str, ...], replay_endpoints: tuple[str, ...], topic: str
) -> Iterator[EventSubscriber]:
    """Listens; fingerprints are shown, or written down, and nobody is dropped for his.

    Raises:
        UsageError: For addresses that are not well formed, listed twice, or do not pair up.
        EndpointError: If an address that is to be bound is taken.
    """
    from blockpool.events import EventSubscriber, SourceAddress

    if replay_endpoints and len(replay_endpoints) != len(addresses):
        raise click.UsageError(
            f"--replay-endpoint: {len(replay_endpoints)} for {len(addresses)} addresses; give one for each, or none"
        )
    paired = [
        SourceAddress(address, replay_endpoints[place] if replay_endpoints else None)
        for place, address in enumerate(addresses)
    ]
    with as_usage(lambda: EventSubscriber(paired, topic=topic, compare_fingerprints=False)) as made:
        yield made


def deliveries(
    following: EventSubscriber,
    *,
    duration: float | None,
    count: int | None,
    wake: float,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[list[tuple[Source, ReceivedBatch]]]:
    """What comes in, until the time is over or so many batches were had; at the latest every `wake` seconds something.

    Args:
        following: The subscriber.
        duration: Seconds, or None.
        count: Batches, those of snapshots included, notices not; or None.
        wake: Seconds.
        clock: Monotonic seconds.
    """
    end = None if duration is None else clock() + duration
    left = count
    while left != 0 and (end is None or clock() < end):
        wait = wake if end is None else max(min(wake, end - clock()), 0.0)
        taken = following.poll(wait)
        if left is not None:
            for place, (_, batch) in enumerate(taken):
                left -= batch.origin != "notice"
                if left == 0:
                    taken = taken[: place + 1]
                    break
        yield taken


@contextlib.contextmanager
def ending_when_terminated() -> Iterator[None]:
    """SIGTERM ends what is in the block in good order, with the exit code that shells expect."""

    def end(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    try:
        before = signal.signal(signal.SIGTERM, end)
    except ValueError:  # not the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)

"""`blockpool record`: what publishers tell, into a file."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from blockpool.commands.following import Ending, asked_to_end, deliveries, following_options, subscriber
from blockpool.commands.options import not_empty

if TYPE_CHECKING:
    from blockpool.events import EventSubscriber
    from blockpool.events.recording_writer import RecordingWriter

_FLUSH_SECONDS = 0.5


@click.command("record", short_help="Write down what publishers of events tell.")
@following_options
@click.option(
    "-o",
    "--output",
    required=True,
    metavar="FILE",
    callback=not_empty,
    help="Packed when it ends in .gz or .zst; - is standard output.",
)
def record_command(
    addresses: tuple[str, ...],
    replay_endpoints: tuple[str, ...],
    ranks: int,
    topic: str,
    duration: float | None,
    count: int | None,
    output: str,
) -> None:
    """Write all that publishers of KV cache events tell, vLLM's or ours, as JSON lines.

    `blockpool replay FILE` reports on it. Whole lines are written at least once a second, so a recorder may be killed
    at any time. Ctrl-C ends it. Needs the extra events.
    """
    with (
        asked_to_end() as ending,
        subscriber(addresses, replay_endpoints, ranks, topic) as (following, endpoints),
    ):
        from blockpool.events.recording_writer import RecordingWriter

        try:
            with RecordingWriter(output, endpoints, topic) as writer:
                try:
                    _record(following, writer, duration, count, ending)
                finally:
                    writer.close(following.stats())
                click.echo(f"{writer.num_batches:,} batches in {writer.num_bytes:,} bytes", err=True)
        except OSError as error:
            if error.filename is None and output != "-":
                error.filename = output
            raise
    if ending.number is not None:
        raise SystemExit(128 + ending.number)


def _record(
    following: EventSubscriber,
    writer: RecordingWriter,
    duration: float | None,
    count: int | None,
    ending: Ending,
) -> None:
    next_flush = time.monotonic() + _FLUSH_SECONDS
    for taken in deliveries(following, duration=duration, count=count, wake=_FLUSH_SECONDS, ending=ending):
        stats = following.stats()
        for source, batch in taken:
            writer.add(source, batch, stats[source.endpoint])
        now = time.monotonic()
        if now >= next_flush:
            writer.flush()
            next_flush = now + _FLUSH_SECONDS

"""`blockpool watch`: live publishers on the terminal."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.live import Live

from blockpool.commands.following import Ending, asked_to_end, deliveries, following_options, subscriber
from blockpool.commands.options import Number

if TYPE_CHECKING:
    from blockpool.events import EventSubscriber
    from blockpool.events.live_picture import LivePicture

_DRAW_SECONDS = 0.25
_PREFIX_SECONDS = 1.0
_PREFIX_SHARE = 20  # looking for prefixes may take one of so many seconds
_DEFAULT_INTERVAL = 1.0


@click.command("watch", short_help="Look at live publishers of events.")
@following_options
@click.option(
    "--plain",
    is_flag=True,
    help="Lines instead of the view, as when the output is no terminal, or a dumb one.",
)
@click.option(
    "--interval",
    type=Number(0.1),
    metavar="SECONDS",
    help=f"Between two sets of plain lines.  [default: {_DEFAULT_INTERVAL:g}]",
)
def watch_command(
    addresses: tuple[str, ...],
    replay_endpoints: tuple[str, ...],
    ranks: int,
    topic: str,
    duration: float | None,
    count: int | None,
    plain: bool,
    interval: float | None,
) -> None:
    """Show what publishers of KV cache events, vLLM's or ours, store and remove, and what they hold.

    ADDRESS is where a publisher publishes, such as tcp://pod:5557; tcp://*:5557 is bound, for publishers that connect.
    Ctrl-C ends it. Needs the extra events.
    """
    console = Console()
    live = sys.stdout.isatty() and not console.is_dumb_terminal and not plain
    if live and interval is not None:
        raise click.UsageError("--interval goes with --plain")
    with (
        asked_to_end() as ending,
        subscriber(addresses, replay_endpoints, ranks, topic) as (following, endpoints),
    ):
        from blockpool.events.live_picture import LivePicture

        picture = LivePicture(endpoints)
        if live:
            _show(console, following, picture, duration, count, ending)
        else:
            _tell(following, picture, duration, count, interval or _DEFAULT_INTERVAL, ending)
    if ending.number is not None:
        raise SystemExit(128 + ending.number)


def _show(
    console: Console,
    following: EventSubscriber,
    picture: LivePicture,
    duration: float | None,
    count: int | None,
    ending: Ending,
) -> None:
    from blockpool.events.watch_view import WatchView

    view = WatchView(console)
    start = time.monotonic()
    next_draw = next_look = start
    with _screen_given_back(console), Live(console=console, screen=True, auto_refresh=False) as screen:
        for taken in deliveries(following, duration=duration, count=count, wake=_DRAW_SECONDS, ending=ending):
            now = time.monotonic()
            for source, batch in taken:
                picture.apply(source, batch, now)
            if now < next_draw:
                continue
            next_draw = now + _DRAW_SECONDS
            picture.look(following.stats(), now)
            if now >= next_look:
                view.look(picture)
                next_look = now + max(_PREFIX_SECONDS, (time.monotonic() - now) * _PREFIX_SHARE)
            screen.update(view.draw(picture, now, now - start), refresh=True)


@contextlib.contextmanager
def _screen_given_back(console: Console) -> Iterator[None]:
    """For a second signal while the view is being opened, which `Live` does not undo. Twice does no harm."""
    try:
        yield
    finally:
        console.set_alt_screen(False)
        console.show_cursor(True)


def _tell(
    following: EventSubscriber,
    picture: LivePicture,
    duration: float | None,
    count: int | None,
    interval: float,
    ending: Ending,
) -> None:
    from blockpool.events.watch_lines import clock_time, note_lines, picture_lines

    next_tell = time.monotonic() + interval

    def tell(now: float) -> None:
        picture.look(following.stats(), now)
        for line in (*note_lines(picture), *picture_lines(picture, now)):
            click.echo(f"{clock_time()} {line}")

    wake = min(interval, _DRAW_SECONDS)
    for taken in deliveries(following, duration=duration, count=count, wake=wake, ending=ending):
        now = time.monotonic()
        for source, batch in taken:
            picture.apply(source, batch, now)
        if now >= next_tell:
            tell(now)
            next_tell = now + interval
    if ending.number is None:  # else the terminal may be gone
        tell(time.monotonic())

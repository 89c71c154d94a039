"""The live picture as plain lines, for logs and pipes."""

from __future__ import annotations

import time
from collections.abc import Iterator

from blockpool.errors import printable
from blockpool.events.live_picture import LivePicture, SourcePicture


def picture_lines(picture: LivePicture, now: float) -> Iterator[str]:
    """One line per publisher."""
    for each in picture.pictures():
        yield printable(f"{each.source} {_words(picture, each, now)}")


def note_lines(picture: LivePicture) -> Iterator[str]:
    """One line per note, which are used up."""
    while picture.notes:
        note = picture.notes.popleft()
        yield printable(f"{note.source} ! {note.text}")


def clock_time() -> str:
    """The time of day, as lines begin."""
    return time.strftime("%H:%M:%S")


def _words(picture: LivePicture, each: SourcePicture, now: float) -> str:
    if each.heard is None and each.seq < 0:
        return "waiting"
    counts = picture.stats.get(each.source.endpoint)
    known = " ".join(
        f"{medium or 'blocks'}={sum(picture.view.counts(each.source, medium).values())}"
        for medium in picture.view.media(each.source)
    )
    return " ".join(
        [
            f"seq={each.seq}",
            known or "blocks=0",
            f"stored={each.num_stored}",
            f"removed={each.num_removed}",
            f"stored/s={each.stored.rate(now):.1f}",
            f"removed/s={each.removed.rate(now):.1f}",
            f"gaps={0 if counts is None else counts.num_gaps}",
            f"lost={each.num_lost}",
            f"restarts={0 if counts is None else counts.num_restarts}",
        ]
    )

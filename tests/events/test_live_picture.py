"""What `watch` shows, without a terminal and with one of 80 columns and 24 lines."""

from __future__ import annotations

import io
from typing import Any

import pytest

from blockpool.events import (
    ClearedEvent,
    MapRemovedEvent,
    ReceivedBatch,
    RemovedEvent,
    Source,
    SourceStats,
    StoredEvent,
)
from blockpool.events.live_picture import LivePicture, RateHistory
from blockpool.events.watch_lines import note_lines, picture_lines

from .support import Consumer, PoolRun, address_of, publisher

ONE, TWO = Source("tcp://one:1"), Source("tcp://two:1")


def stored(*hashes: int, parent: int | None = None, medium: str = "GPU") -> StoredEvent:
    return StoredEvent(list(hashes), parent, [0] * 16 * len(hashes), 16, medium=medium)


def batch(*events: Any, origin: str = "live", **fields: Any) -> ReceivedBatch:
    return ReceivedBatch(0, 1.0, list(events), None, origin, **fields)


def test_rates_are_over_whole_seconds() -> None:
    history = RateHistory()
    history.add(10.2, 7)
    assert history.rate(10.9) == 7  # no whole second yet
    history.add(11.0, 3)
    assert history.rate(11.5) == 7
    assert history.rate(12.0) == 5
    assert history.rate(15.5) == 2
    assert history.rate(1000.0) == 0
    assert len(history.seconds(1000.0)) == 59


def test_publishers_stand_as_they_were_listed_and_stay_there() -> None:
    listed = ["tcp://three:1", "tcp://one:1", "tcp://two:1"]
    picture = LivePicture(listed)
    for source in (TWO, ONE):
        picture.apply(source, batch(stored(1)), 1.0)
        assert [each.source.endpoint for each in picture.pictures()] == listed
    strange = Source("tcp://other:1")
    picture.apply(strange, batch(stored(1)), 1.0)
    assert [each.source.endpoint for each in picture.pictures()] == [*listed, strange.endpoint]


def test_history_and_snapshots_are_known_and_are_no_traffic() -> None:
    picture = LivePicture(["tcp://one:1"])
    picture.apply(ONE, batch(stored(1), origin="snapshot"), 1.0)
    picture.apply(ONE, batch(stored(2), origin="replay"), 1.0)
    picture.apply(ONE, batch(stored(3), RemovedEvent([1], "GPU")), 1.0)
    (each,) = picture.pictures()
    assert (each.num_stored, each.num_removed) == (2, 1)
    assert (each.stored.rate(2.0), each.removed.rate(2.0)) == (1, 1)
    assert dict(picture.view.counts(ONE)) == {2: 1, 3: 1}


def test_the_tree_follows_every_source_and_medium() -> None:
    picture = LivePicture([])
    picture.apply(ONE, batch(stored(1, 2), stored(3, parent=1), stored(1, medium="CPU")), 1.0)
    picture.apply(TWO, batch(stored(1, 2)), 1.0)
    (prefix,) = picture.tree.hottest(5)
    assert (prefix.block_hash, prefix.chains, prefix.below) == (1, 2, 2)
    picture.apply(ONE, batch(RemovedEvent([1, 1, 8], "GPU"), MapRemovedEvent([2], "GPU")), 1.0)
    assert len(picture.tree) == 3  # 1 is on the CPU and at the other, 2 at the other, 3
    picture.apply(ONE, batch(ClearedEvent(), stored(5)), 1.0)
    assert len(picture.tree) == 3  # 1, 2, 5
    picture.apply(TWO, batch(stored(6), reset=True), 1.0)
    assert len(picture.tree) == 2
    assert picture.view.holders(6) == [TWO]


def test_notes_tell_each_thing_once() -> None:
    picture = LivePicture(["tcp://one:1", "tcp://two:1"])
    one, two = SourceStats(num_gaps=2, fingerprint="a"), SourceStats(num_restarts=1, fingerprint="b")
    for now in (1.0, 2.0):
        picture.look({"tcp://one:1": one, "tcp://two:1": two}, now)
    picture.apply(ONE, batch(lost=3), 3.0)
    one.num_gaps = 3
    picture.look({"tcp://one:1": one, "tcp://two:1": two}, 4.0)
    assert list(note_lines(picture)) == [
        "tcp://one:1 ! 2 gaps",
        "tcp://two:1 ! restart",
        "tcp://two:1 ! fingerprint b, others a: their hashes cannot be compared",
        "tcp://one:1 ! 3 batches lost for good",
        "tcp://one:1 ! gap",
    ]
    assert picture.fingerprints_differ
    two.fingerprint = "a"
    picture.look({"tcp://one:1": one, "tcp://two:1": two}, 5.0)
    assert not picture.fingerprints_differ
    assert not picture.notes
    assert list(picture_lines(picture, 5.0)) == [
        "tcp://one:1 seq=0 blocks=0 stored=0 removed=0 stored/s=0.0 removed/s=0.0 gaps=3 lost=3 restarts=0",
        "tcp://two:1 waiting",
    ]


def test_a_real_publisher_is_seen_as_it_is() -> None:
    run = PoolRun(3)
    with publisher() as made, Consumer(address_of(made)) as consumer:
        for _ in range(50):
            last = made.publish(run.batch(3))
        consumer.follow(lambda: consumer.seqs()[-1:] == [last])
        picture = LivePicture([made.endpoint])
        for source, each in consumer.batches:
            picture.apply(source, each, 1.0)
        assert dict(picture.view.counts(Source(made.endpoint))) == run.index()
        assert len(picture.tree) == len(run.index())


@pytest.mark.parametrize("num_sources", [1, 4, 40])
@pytest.mark.parametrize("size", [(80, 24), (200, 60), (80, 12)])
def test_the_view_fits_the_terminal(num_sources: int, size: tuple[int, int]) -> None:
    console_module = pytest.importorskip("rich.console", reason="the extra cli is not installed")
    from blockpool.events.watch_view import WatchView

    sources = [Source(f"tcp://a-long-name-of-a-pod-{number}:5557") for number in range(num_sources)]
    picture = LivePicture(source.endpoint for source in sources)
    for number in range(20):
        for source in sources[:-1] or sources:
            picture.apply(
                source, batch(stored(1, 2 + number, parent=None), stored(100 + number, parent=1)), 1.0
            )
            picture.apply(source, batch(stored(7, medium="CPU"), lost=1), 1.0)
    picture.look({source.endpoint: SourceStats(num_gaps=1234, num_restarts=99) for source in sources}, 2.0)
    console = console_module.Console(width=size[0], height=size[1], record=True, force_terminal=True)
    view = WatchView(console)
    view.look(picture)
    with console.capture() as capture:
        console.print(view.draw(picture, 3.0, 3725.0))
    text = console_module.Text.from_ansi(capture.get()).plain
    lines = text.rstrip().splitlines()
    assert len(lines) <= max(size[1], 16)
    assert all(len(line.rstrip()) <= size[0] for line in lines)
    heading = next(line for line in lines if "worker" in line)
    assert heading.split() == ["worker", "heard", "GPU", "CPU", "in/s", "out/s", "gaps", "lost", "restarts"]
    assert lines[lines.index(heading) + 2].split()[-3:] == ["1,234", "20", "99"]
    assert "01:02:05" in lines[0]
    assert f"{1:016x}" in text
    assert "99 restarts" in text
    assert "stored/s" in text
    if num_sources == 40 and size[1] < 60:
        assert " more" in text


def drawn(picture: LivePicture, width: int, height: int = 24, encoding: str = "utf-8") -> list[str]:
    """The lines of the view."""
    console_module = pytest.importorskip("rich.console", reason="the extra cli is not installed")
    from blockpool.events.watch_view import WatchView

    file = io.TextIOWrapper(io.BytesIO(), encoding)
    console = console_module.Console(width=width, height=height, file=file)
    view = WatchView(console)
    view.look(picture)
    console.print(view.draw(picture, 3.0, 5.0))
    file.seek(0)
    return [line.rstrip() for line in file.read().splitlines()]


@pytest.mark.parametrize("width", [20, 30, 40, 60])
def test_a_narrow_terminal_shows_fewer_columns_and_those_whole(width: int) -> None:
    picture = LivePicture([])
    hashes = list(range(1000, 13000))
    picture.apply(ONE, batch(stored(1, 2), stored(3, parent=1), stored(*hashes), lost=1), 1.0)
    lines = drawn(picture, width)
    assert all(len(line) <= width for line in lines)
    row = next(line for line in lines if line.startswith(" one:1"))
    assert "12,003" in row
    assert "\N{HORIZONTAL ELLIPSIS}" not in row
    (prefix,) = (line for line in lines if line.startswith(f" {1:016x}"[: width - 2]))
    assert "\N{HORIZONTAL ELLIPSIS}" not in prefix


def test_without_unicode_everything_has_its_width() -> None:
    picture = LivePicture(["tcp://a-name-that-is-much-too-long-for-a-column-of-it.example:5557"])
    lines = drawn(picture, 60, encoding="ascii")
    assert all(len(line) <= 60 for line in lines)
    assert "\\u" not in "".join(lines)


def test_names_do_nothing_to_a_terminal() -> None:
    source = Source("tcp://one:1", "[/red]\x1b[2J\n:fire:")
    picture = LivePicture([])
    picture.apply(source, batch(stored(1, medium="[/]\x1b[2J\n"), lost=1), 1.0)
    shown = "\n".join(drawn(picture, 160))
    assert "[/red]\\x1b[2J\\n:fire:" in shown
    assert "\x1b" not in shown
    for line in (*note_lines(picture), *picture_lines(picture, 2.0)):
        assert line.isprintable()

"""When those who listen end, and that nothing that came in until then is left out."""

from __future__ import annotations

import os
import signal
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("click", reason="the extra cli is not installed")

from blockpool.commands.following import Ending, asked_to_end, deliveries, ending_when_terminated


class Following:
    """Batches by the poll in which they come in; what happens meanwhile."""

    def __init__(self, *polls: list[str], meanwhile: Any = lambda: None) -> None:
        self._polls = [
            [("source", SimpleNamespace(origin=origin)) for origin in origins] for origins in polls
        ]
        self._meanwhile = meanwhile

    def poll(self, timeout: float) -> list[Any]:
        self._meanwhile()
        return self._polls.pop(0)


def sizes(following: Following, **options: Any) -> list[int]:
    settings: dict[str, Any] = {"duration": None, "count": None, "wake": 0.5}
    taken = deliveries(following, **(settings | options))  # type: ignore[arg-type]
    return [len(each) for each in taken]


def test_as_many_batches_as_wanted_and_no_notices_counted() -> None:
    polls = (["live", "notice"], [], ["snapshot", "live", "live"])
    assert sizes(Following(*polls), count=3) == [2, 0, 2]


def test_what_came_in_with_the_wish_to_end_is_handed_out() -> None:
    ending = Ending()

    def meanwhile() -> None:
        ending.number = signal.SIGTERM

    assert sizes(Following(["live"] * 7, ["live"], meanwhile=meanwhile), ending=ending) == [7]


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_the_first_signal_is_noted_and_the_second_ends(name: str) -> None:
    number = getattr(signal, name)
    before = signal.signal(number, signal.default_int_handler)
    try:
        with asked_to_end() as ending:
            os.kill(os.getpid(), number)
            assert ending.number == number
            with pytest.raises(SystemExit) as caught:
                os.kill(os.getpid(), number)
            assert caught.value.code == 128 + number
        assert signal.getsignal(number) is signal.default_int_handler
    finally:
        signal.signal(number, before)


def test_what_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup starts a process
    try:
        with ending_when_terminated():
            os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)

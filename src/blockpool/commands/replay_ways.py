"""The two ways to replay, one request after the other or side by side, as one thing to the command."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import blockpool
from blockpool.replay import (
    ReplayResult,
    ReplaySettings,
    TimedResult,
    TimedSettings,
    replay,
    replay_many,
    replay_timed,
    replay_timed_many,
    report_as_dict,
    timed_report_as_dict,
)
from blockpool.replay.replay_tables import print_report
from blockpool.replay.timed.timed_tables import print_timed_report

if TYPE_CHECKING:
    from blockpool.replay.html.page import Page

Result = TypeVar("Result", ReplayResult, TimedResult)


@dataclass(frozen=True, slots=True)
class ReplayWay(Generic[Result]):
    """How to play a trace, and how to tell what came of it: functions that have their settings already.

    Attributes:
        play_one: One size, in this process; takes trace, blocks, `pictures` and `progress`, as `replay` does.
        play_many: Several sizes, in processes; takes trace, sizes, `jobs`, `pictures` and `finished`, as
            `replay_many` does.
        as_dict: For --json; takes `trace` and `results`.
        print: Tables; takes `console`, `trace` and `results`.
        page: For --html, whose packages are there; takes `trace` and `results`.
        usage_fields: Settings that can turn out wrong when the trace is read, and are usage errors then.
    """

    play_one: Callable[..., Result]
    play_many: Callable[..., list[Result]]
    as_dict: Callable[..., dict[str, Any]]
    print: Callable[..., None]
    page: Callable[..., Page]
    usage_fields: tuple[str, ...]


def one_after_the_other(settings: ReplaySettings) -> ReplayWay[ReplayResult]:
    """A plain replay."""

    def page(**told: Any) -> Page:
        from blockpool.replay.html.replay_page import replay_page

        return replay_page(settings=settings, **told)

    return ReplayWay(
        play_one=partial(replay, settings=settings),
        play_many=partial(replay_many, settings=settings),
        as_dict=partial(
            report_as_dict, settings=settings, version=blockpool.__version__, compiled=blockpool.COMPILED
        ),
        print=partial(print_report, settings=settings),
        page=page,
        usage_fields=("sort", "attention"),
    )


def side_by_side(settings: ReplaySettings, engine: TimedSettings) -> ReplayWay[TimedResult]:
    """A timed replay.

    Args:
        settings: For all sizes.
        engine: And the arrivals.
    """

    def page(**told: Any) -> Page:
        from blockpool.replay.html.timed_page import timed_page

        return timed_page(timed=engine, settings=settings, **told)

    return ReplayWay(
        play_one=partial(replay_timed, timed=engine, settings=settings),
        play_many=partial(replay_timed_many, timed=engine, settings=settings),
        as_dict=partial(
            timed_report_as_dict,
            timed=engine,
            settings=settings,
            version=blockpool.__version__,
            compiled=blockpool.COMPILED,
        ),
        print=partial(print_timed_report, timed=engine, settings=settings),
        page=page,
        usage_fields=("sort", "attention", "speed", "arrival_rate"),
    )

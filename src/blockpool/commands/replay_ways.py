"""The two ways to replay, one request after the other or side by side, as one thing to the command."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from rich.console import Console

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
from blockpool.replay.driver import Progress
from blockpool.replay.replay_tables import print_report
from blockpool.replay.timed.timed_tables import print_timed_report

if TYPE_CHECKING:
    from blockpool.replay.html.page import Page

Result = TypeVar("Result", ReplayResult, TimedResult)


@dataclass(frozen=True, slots=True)
class ReplayWay(ABC, Generic[Result]):
    """How to play a trace, and how to tell what came of it.

    Attributes:
        settings: For all sizes.
        usage_fields: Settings that can turn out wrong when the trace is read, and are usage errors then.
    """

    settings: ReplaySettings
    usage_fields: ClassVar[tuple[str, ...]] = ("sort", "attention")

    @abstractmethod
    def play_one(self, trace: str, blocks: int, pictures: bool, progress: Progress | None) -> Result:
        """One size, in this process."""

    @abstractmethod
    def play_many(
        self,
        trace: str,
        sizes: Sequence[int],
        jobs: int | None,
        pictures: bool,
        finished: Callable[[int], None],
    ) -> list[Result]:
        """Several sizes, in processes."""

    @abstractmethod
    def as_dict(self, trace: str, results: Sequence[Result]) -> dict[str, Any]:
        """For --json."""

    @abstractmethod
    def print(self, console: Console, trace: str, results: Sequence[Result]) -> None:
        """Tables."""

    @abstractmethod
    def page(self, trace: str, results: Sequence[Result]) -> Page:
        """For --html, whose packages are there."""


@dataclass(frozen=True, slots=True)
class OneAfterTheOther(ReplayWay[ReplayResult]):
    """A plain replay."""

    def play_one(self, trace: str, blocks: int, pictures: bool, progress: Progress | None) -> ReplayResult:
        """See `ReplayWay`."""
        return replay(trace, blocks, self.settings, pictures=pictures, progress=progress)

    def play_many(
        self,
        trace: str,
        sizes: Sequence[int],
        jobs: int | None,
        pictures: bool,
        finished: Callable[[int], None],
    ) -> list[ReplayResult]:
        """See `ReplayWay`."""
        return replay_many(trace, sizes, self.settings, jobs=jobs, pictures=pictures, finished=finished)

    def as_dict(self, trace: str, results: Sequence[ReplayResult]) -> dict[str, Any]:
        """See `ReplayWay`."""
        return report_as_dict(
            trace, self.settings, results, version=blockpool.__version__, compiled=blockpool.COMPILED
        )

    def print(self, console: Console, trace: str, results: Sequence[ReplayResult]) -> None:
        """See `ReplayWay`."""
        print_report(console, trace, self.settings, results)

    def page(self, trace: str, results: Sequence[ReplayResult]) -> Page:
        """See `ReplayWay`."""
        from blockpool.replay.html.replay_page import replay_page

        return replay_page(trace, self.settings, results)


@dataclass(frozen=True, slots=True)
class SideBySide(ReplayWay[TimedResult]):
    """A timed replay.

    Attributes:
        engine: And the arrivals.
    """

    engine: TimedSettings
    usage_fields: ClassVar[tuple[str, ...]] = ("sort", "attention", "speed", "arrival_rate")

    def play_one(self, trace: str, blocks: int, pictures: bool, progress: Progress | None) -> TimedResult:
        """See `ReplayWay`."""
        return replay_timed(trace, blocks, self.engine, self.settings, pictures=pictures, progress=progress)

    def play_many(
        self,
        trace: str,
        sizes: Sequence[int],
        jobs: int | None,
        pictures: bool,
        finished: Callable[[int], None],
    ) -> list[TimedResult]:
        """See `ReplayWay`."""
        return replay_timed_many(
            trace, sizes, self.engine, self.settings, jobs=jobs, pictures=pictures, finished=finished
        )

    def as_dict(self, trace: str, results: Sequence[TimedResult]) -> dict[str, Any]:
        """See `ReplayWay`."""
        return timed_report_as_dict(
            trace,
            self.engine,
            self.settings,
            results,
            version=blockpool.__version__,
            compiled=blockpool.COMPILED,
        )

    def print(self, console: Console, trace: str, results: Sequence[TimedResult]) -> None:
        """See `ReplayWay`."""
        print_timed_report(console, trace, self.engine, self.settings, results)

    def page(self, trace: str, results: Sequence[TimedResult]) -> Page:
        """See `ReplayWay`."""
        from blockpool.replay.html.timed_page import timed_page

        return timed_page(trace, self.engine, self.settings, results)

"""What the second build leaves out exists, and a part of what a user sees is never left out."""

from __future__ import annotations

import pytest

from .second_build import ONCE, TESTS, leave_out, runs_once

# Of which some tests run on both builds.
SEEN_BY_USERS = {"commands", "replay/html", "test_cli_html.py", "test_report_browser.py"}


def test_everything_that_is_listed_exists() -> None:
    assert [name for name in ONCE if not (TESTS / name).exists()] == []
    assert sorted(ONCE) == list(ONCE)


def test_some_tests_of_what_users_see_run_on_both_builds() -> None:
    assert set(ONCE) >= SEEN_BY_USERS
    for name in SEEN_BY_USERS:
        place = TESTS / name
        files = [place] if place.is_file() else sorted(place.glob("test_*.py"))
        marks = sum(file.read_text("utf-8").count("@pytest.mark.both_builds\n") for file in files)
        assert marks > 0, name


def test_what_is_left_out(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two tests of a listed file the unmarked one, and nothing of this file."""
    this = request.node
    marked, unmarked = FakeItem("trace/test_reader.py", True), FakeItem("trace/test_reader.py", False)
    items = [this, marked, unmarked]
    told: list[object] = []
    monkeypatch.setattr(request.config.hook, "pytest_deselected", lambda items: told.extend(items))
    leave_out(request.config, items)  # type: ignore[arg-type]
    assert (items, told) == ([this, marked], [unmarked])
    assert not runs_once(this)


class FakeItem:
    """A test of a file, marked or not."""

    def __init__(self, name: str, marked: bool) -> None:
        self.path = TESTS / name
        self._marked = marked

    def get_closest_marker(self, name: str) -> object:
        return name if self._marked and name == "both_builds" else None

"""A report is there as a whole or not at all."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

pytest.importorskip("altair", reason="the extra report is not installed")

from blockpool.errors import ConfigError, MissingExtraError
from blockpool.replay.html.report_file import ReportFile


def test_writes_and_leaves_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    with ReportFile(path) as file:
        assert not path.exists()
        file.write(b"whole")
    assert path.read_bytes() == b"whole"
    assert list(tmp_path.iterdir()) == [path]


def test_an_old_file_stays_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_bytes(b"old")
    with pytest.raises(ZeroDivisionError), ReportFile(path):
        raise ZeroDivisionError
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
    with ReportFile(path) as file:
        file.write(b"new")
    assert path.read_bytes() == b"new"


def test_without_content_nothing_is_there(tmp_path: Path) -> None:
    with ReportFile(tmp_path / "report.html"):
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege on this platform")
def test_a_link_stays_a_link(tmp_path: Path) -> None:
    link, target = tmp_path / "link.html", tmp_path / "target.html"
    link.symlink_to(target)
    with ReportFile(link) as file:
        file.write(b"whole")
    assert link.is_symlink()
    assert target.read_bytes() == b"whole"


@pytest.mark.skipif(os.name == "nt", reason="permissions differ on this platform")
def test_has_the_permissions_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "other").touch()
    with ReportFile(tmp_path / "report.html") as file:
        file.write(b"")
    assert (tmp_path / "report.html").stat().st_mode == (tmp_path / "other").stat().st_mode


@pytest.mark.parametrize(
    ("name", "reason"), [("", "empty"), ("-", "name of a file"), (".", "no regular file")]
)
def test_names_that_are_no_file(name: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        ReportFile(name)


def test_what_cannot_be_written_is_known_at_once(tmp_path: Path) -> None:
    path = tmp_path / "none" / "report.html"
    with pytest.raises(FileNotFoundError) as caught, ReportFile(path):
        pytest.fail("the work had begun")
    assert caught.value.filename == str(path)


@pytest.mark.parametrize("package", ["altair", "jinja2", "vl_convert"])
def test_without_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError) as caught:
        ReportFile(tmp_path / "report.html")
    assert (caught.value.feature, caught.value.extra) == ("--html", "report")


@pytest.mark.skipif(os.name == "nt", reason="permissions differ on this platform")
@pytest.mark.parametrize("mode", [0o600, 0o664, 0o755])
def test_a_file_that_is_replaced_keeps_its_permissions(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "report.html"
    path.touch()
    path.chmod(mode)
    with ReportFile(path) as file:
        file.write(b"new")
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"new", mode)


@pytest.mark.parametrize("length", [200, 241, 255])
def test_names_as_long_as_the_file_system_allows(tmp_path: Path, length: int) -> None:
    path = tmp_path / ("r" * (length - 5) + ".html")
    try:
        path.touch()
        path.unlink()
    except OSError:
        pytest.skip("this file system does not allow the name")
    with ReportFile(path) as file:
        file.write(b"whole")
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege on this platform")
def test_links_that_lead_nowhere_are_not_replaced(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.symlink_to(other)
    other.symlink_to(one)
    with pytest.raises(ConfigError, match="leads back to itself"):
        ReportFile(one)
    assert one.is_symlink()
    assert other.is_symlink()


def test_two_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    with ReportFile(path) as first, ReportFile(path) as second:
        first.write(b"first")
        second.write(b"second")
    assert path.read_bytes() == b"second"
    assert list(tmp_path.iterdir()) == [path]

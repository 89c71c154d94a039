"""The plugin's own logic, without vLLM: what the environment says, versions, all or nothing."""

from __future__ import annotations

import logging
import runpy
import sys
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from blockpool.integrations.vllm import plugin, register
from blockpool.integrations.vllm.replacement import (
    Incompatible,
    Replacements,
    fingerprint_of,
    require_tested,
)


class Line:
    """A line of vLLM that needs no vLLM."""

    def __init__(self) -> None:
        self.owner = SimpleNamespace(__name__="owner", first=1, second=2)
        self.checks: list[bool] = []
        self.error: Exception | None = None

    def is_replaced(self) -> bool:
        return bool(self.owner.first == "ours")

    def prepare(self, replacements: Replacements, check: bool) -> None:
        self.checks.append(check)
        replacements.replace(self.owner, "first", "ours")
        if self.error is not None:
            raise self.error
        replacements.replace(self.owner, "second", "ours")


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch) -> Line:
    """vLLM 0.16.0, as far as the plugin asks."""
    line = Line()
    modules = {
        "vllm.version": SimpleNamespace(__version__="0.16.0"),
        "blockpool.integrations.vllm.line_0_16": line,
    }
    monkeypatch.setattr(plugin.importlib, "import_module", modules.__getitem__)
    return line


def call(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, switch: str | None) -> list[str]:
    """What `register` says."""
    if switch is None:
        monkeypatch.delenv("BLOCKPOOL_VLLM", raising=False)
    else:
        monkeypatch.setenv("BLOCKPOOL_VLLM", switch)
    caplog.clear()
    with caplog.at_level(logging.INFO, logger="vllm.blockpool"):
        register()
    return [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize("switch", [None, "", "0", "off", "No", " false "])
def test_off(line: Line, monkeypatch: Any, caplog: Any, switch: str | None) -> None:
    assert call(monkeypatch, caplog, switch) == []
    assert line.checks == []


@pytest.mark.parametrize(("switch", "check"), [("1", False), ("ON", False), ("check", True)])
def test_on_says_so_in_one_line(line: Line, monkeypatch: Any, caplog: Any, switch: str, check: bool) -> None:
    [told] = call(monkeypatch, caplog, switch)
    assert line.checks == [check]
    assert (line.owner.first, line.owner.second) == ("ours", "ours")
    assert told.endswith("first, owner.second")
    assert ("comparing" in told) is check
    assert call(monkeypatch, caplog, switch) == []  # vLLM calls it in every process, and may do so again


@pytest.mark.parametrize(
    ("configured", "wanted", "level"),
    [
        (True, "INFO", logging.INFO),
        (False, None, logging.WARNING),
        (False, "DEBUG", logging.WARNING),
        (False, "ERROR", logging.INFO),
    ],
)
def test_it_is_seen_before_vllm_has_set_its_logging_up(
    line: Line, monkeypatch: Any, caplog: Any, configured: bool, wanted: str | None, level: int
) -> None:
    handlers = [logging.NullHandler()] if configured else []
    monkeypatch.setattr(logging.getLogger("vllm"), "handlers", handlers)
    monkeypatch.delenv("VLLM_LOGGING_LEVEL", raising=False)
    if wanted is not None:
        monkeypatch.setenv("VLLM_LOGGING_LEVEL", wanted)
    call(monkeypatch, caplog, "1")
    assert [record.levelno for record in caplog.records] == [level]


def test_a_word_without_meaning_changes_nothing(line: Line, monkeypatch: Any, caplog: Any) -> None:
    [told] = call(monkeypatch, caplog, "maybe")
    assert "maybe" in told
    assert line.checks == []


@pytest.mark.parametrize("error", [Incompatible("it has no tail"), RuntimeError("broken")])
def test_whatever_fails_leaves_everything_as_it_was(
    line: Line, monkeypatch: Any, caplog: Any, error: Exception
) -> None:
    line.error = error
    [told] = call(monkeypatch, caplog, "1")
    assert told.startswith("blockpool: vLLM is left as it is: ")
    assert (line.owner.first, line.owner.second) == (1, 2)


def test_a_replacement_that_fails_takes_back_those_before_it(
    line: Line, monkeypatch: Any, caplog: Any
) -> None:
    del line.owner.second
    [told] = call(monkeypatch, caplog, "1")
    assert told.startswith("blockpool: vLLM is left as it is: ")
    assert line.owner.first == 1


@pytest.mark.parametrize(
    ("version", "module"),
    [
        ("0.16.0", "line_0_16"),
        ("0.16.3", "line_0_16"),
        ("0.16.0+cpu", "line_0_16"),
        ("0.16.0.post1", "line_0_16"),
        ("0.32.0", "line_0_32"),
    ],
)
def test_supported_versions(version: str, module: str) -> None:
    assert plugin.line_of(version) == module


@pytest.mark.parametrize(
    "version", ["0.15.1", "0.17.0", "0.33.0", "1.16.0", "0.16.0rc1", "0.16.1.dev3+gabc", "dev", ""]
)
def test_every_other_version_is_left_alone(version: str) -> None:
    with pytest.raises(Incompatible, match=r"0\.16\.x and 0\.32\.x"):
        plugin.line_of(version)


def test_a_module_that_has_imported_the_old_one_gets_the_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    home, user, other = (ModuleType(f"vllm.{name}") for name in ("home", "user", "other"))
    old = object()
    home.thing = user.thing = user.alias = old  # type: ignore[attr-defined]
    other.thing = object()  # type: ignore[attr-defined]
    for module in (home, user, other):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    kept = other.thing
    replacements = Replacements()
    replacements.replace(home, "thing", "new")
    replacements.apply()
    assert (home.thing, user.thing, user.alias, other.thing) == ("new", "new", "new", kept)
    replacements.undo()
    assert (home.thing, user.thing, user.alias, other.thing) == (old, old, old, kept)


def documented() -> int:
    """One."""
    return 1


def test_only_the_source_that_was_tested_is_replaced() -> None:
    here = sys.modules[__name__]
    fingerprint = fingerprint_of(documented)
    assert require_tested(here, "documented", fingerprint) is documented
    with pytest.raises(Incompatible, match="is not what was tested"):
        require_tested(here, "documented", "0" * 12)
    with pytest.raises(Incompatible, match="it has no absent"):
        require_tested(here, "absent", fingerprint)
    with pytest.raises(Incompatible, match="is not vLLM's own any more"):
        require_tested(here, "fingerprint_of", fingerprint)


PLAIN = """
def count(values):
    total = 0
    for value in values:
        total += value
    return total
"""


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("    total = 0", "    # from nothing\n\n    total = 0", True),
        ("    return total", "        return total", False),  # in the loop
        ("total += value", "total -= value", False),
    ],
)
def test_a_fingerprint_tells_all_but_comments_and_empty_lines(
    tmp_path: Path, old: str, new: str, same: bool
) -> None:
    found = []
    for number, source in enumerate((PLAIN, PLAIN.replace(old, new))):
        path = tmp_path / f"counting_{number}.py"
        path.write_text(source, encoding="utf-8")
        found.append(fingerprint_of(runpy.run_path(str(path))["count"]))
    assert (found[0] == found[1]) is same


def test_what_somebody_else_has_put_around_it_or_into_it_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    here = sys.modules[__name__]
    fingerprint = fingerprint_of(documented)
    monkeypatch.setattr(here, "documented", contextmanager(documented))  # type: ignore[arg-type]
    assert fingerprint_of(documented) == fingerprint  # a wrapper says that it is what it wraps
    with pytest.raises(Incompatible, match=r"^documented is not vLLM's own any more, but of contextlib$"):
        require_tested(here, "documented", fingerprint)
    fingerprint = fingerprint_of(Line)
    assert require_tested(here, "Line", fingerprint) is Line
    monkeypatch.setattr(Line, "prepare", fingerprint_of)
    with pytest.raises(Incompatible, match=r"^Line\.prepare is not vLLM's own any more, but of blockpool\."):
        require_tested(here, "Line", fingerprint)

"""What the documents say of files: they exist, and ARCHITECTURE.md leaves no module out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parent.parent
PACKAGE = CHECKOUT / "src" / "blockpool"

if not PACKAGE.is_dir():
    pytest.skip("src/ is out of sight; documents are checked in a checkout", allow_module_level=True)

SPAN = re.compile(r"`([^`\n]+)`")
PLACES = (CHECKOUT, PACKAGE, CHECKOUT / "tests")


def module_rows() -> list[str]:
    """The names in the first column of the table of modules; a room of `replay/` is written without it."""
    text = (CHECKOUT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    table = text.partition("| module | does |\n")[2].partition("\n\n")[0]
    return [name for row in table.splitlines() for name in SPAN.findall(row.split("|")[1])]


def test_architecture_names_every_module_once() -> None:
    found = [path.relative_to(PACKAGE).with_suffix("").as_posix() for path in PACKAGE.rglob("*.py")]
    modules = {name.removeprefix("replay/") if name.count("/") == 2 else name for name in found}
    modules = {name for name in modules if not name.endswith("__init__")}
    named = [name for name in module_rows() if not name.endswith("/")]
    assert sorted(named) == sorted(modules)


def test_files_that_contributors_are_sent_to_exist() -> None:
    """Whatever looks like a path in the checkout, the package or the tests."""
    text = (CHECKOUT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    paths = {span for span in SPAN.findall(text) if re.fullmatch(r"[\w./-]*\w\.(py|md|json|toml)", span)}
    assert paths
    missing = sorted(path for path in paths if not any((place / path).exists() for place in PLACES))
    assert missing == []

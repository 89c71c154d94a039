"""The README's Python runs as it stands, and its commands exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

CHECKOUT = Path(__file__).resolve().parent.parent
DOCUMENTS = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")
# A block that is not to be run says so in its fence: ```python no-run
FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```\s*$", re.MULTILINE | re.DOTALL)


def blocks(kind: str) -> list[Any]:
    found = []
    for name in DOCUMENTS:
        path = CHECKOUT / name
        if not path.is_file():
            continue
        text = path.read_text(encoding="utf-8")
        for match in FENCE.finditer(text):
            if match[1] == kind and "no-run" not in match[2]:
                line = text.count("\n", 0, match.start()) + 2
                found.append(pytest.param(name, line, match[3], id=f"{name}:{line}"))
    return found


@pytest.mark.parametrize(("name", "line", "code"), blocks("python"))
def test_python_examples_run(
    name: str, line: int, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    # Blank lines first, so that a traceback names the document's own line.
    program = compile("\n" * (line - 1) + code, name, "exec")
    exec(program, {"__name__": "__main__"})


def test_make_targets_that_are_named_exist() -> None:
    makefile = CHECKOUT / "Makefile"
    if not makefile.is_file():
        pytest.skip("no Makefile here: the tests run without the checkout")
    targets = set(
        re.findall(r"^([a-z][a-z-]*(?: [a-z][a-z-]*)*):", makefile.read_text(encoding="utf-8"), re.M)
    )
    known = {name for group in targets for name in group.split()}
    for name in DOCUMENTS:
        path = CHECKOUT / name
        if path.is_file():
            used = set(re.findall(r"`?make ([a-z][a-z-]+)\b", path.read_text(encoding="utf-8")))
            commands = set(re.findall(r"(?:^|`)make ([a-z][a-z-]+)", path.read_text(encoding="utf-8"), re.M))
            assert commands <= known, f"{name} names make targets that do not exist"
            assert commands <= used

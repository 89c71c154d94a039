"""The Python of the documents runs as it stands, and the commands that they show exist."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from blockpool.trace.demo import DEMO_TRACE

CHECKOUT = Path(__file__).resolve().parent.parent
DOCUMENTS = [
    *(CHECKOUT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")),
    *sorted((CHECKOUT / "docs").glob("*.md")),
]
# A block that is not to be run says so in its fence: ```python no-run
FENCE = re.compile(r"^```(\w*)([^\n]*)\n(.*?)^```\s*$", re.MULTILINE | re.DOTALL)


def blocks(*kinds: str) -> Iterator[tuple[str, int, str]]:
    """Document, line and content of each fenced block of these kinds; "" has no kind."""
    for path in DOCUMENTS:
        if path.is_file():
            text = path.read_text(encoding="utf-8")
            for match in FENCE.finditer(text):
                if match[1] in kinds and "no-run" not in match[2]:
                    line = text.count("\n", 0, match.start()) + 2
                    yield path.relative_to(CHECKOUT).as_posix(), line, match[3]


def programs() -> list[Any]:
    return [pytest.param(*block, id=f"{block[0]}:{block[1]}") for block in blocks("python")]


def commands() -> list[Any]:
    """The words of every line `blockpool …` in a block of shell commands."""
    found = []
    for name, first_line, text in blocks("console", "sh", "bash", ""):
        for line, content in enumerate(text.splitlines(), first_line):
            words = shlex.split(content.removeprefix("$ "), comments=True) if "blockpool " in content else []
            if words[:1] == ["blockpool"]:
                found.append(pytest.param(words[1:], id=f"{name}:{line}"))
    return found


@pytest.mark.parametrize(("name", "line", "code"), programs())
def test_python_examples_run(
    name: str, line: int, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(DEMO_TRACE, tmp_path / "trace.jsonl.gz")  # the documents' name for any trace
    monkeypatch.chdir(tmp_path)
    # Blank lines first, so that a traceback names the document's own line.
    program = compile("\n" * (line - 1) + code, name, "exec")
    exec(program, {"__name__": "__main__"})


@pytest.mark.parametrize("words", commands())
def test_commands_that_are_shown_exist(words: list[str]) -> None:
    """Parsed as the command line parses them, and not run."""
    pytest.importorskip("click", reason="the extra cli is not installed")
    import click

    from blockpool.cli import cli

    if words == ["--version"]:
        return
    assert words[0] in cli.commands
    # Under the group, as on the command line: a command remembers the names of its help option when it is first parsed.
    with click.Context(cli, info_name="blockpool", **cli.context_settings) as group:
        cli.commands[words[0]].make_context(words[0], words[1:], parent=group).close()


def test_the_readme_shows_commands() -> None:
    if not DOCUMENTS[0].is_file():
        pytest.skip("no README here: the tests run without the checkout")
    shown = {parameter.values[0][0] for parameter in commands()}
    assert shown >= {"replay", "generate"}


def test_the_readme_shows_what_plan_prints() -> None:
    if not DOCUMENTS[0].is_file():
        pytest.skip("no README here: the tests run without the checkout")
    pytest.importorskip("click", reason="the extra cli is not installed")
    from click.testing import CliRunner

    from blockpool.cli import cli

    text = DOCUMENTS[0].read_text(encoding="utf-8")
    words = shlex.split(text.partition("`blockpool plan ")[2].partition("`")[0])
    printed = CliRunner().invoke(cli, ["plan", *words]).stdout.splitlines()
    shown = text.partition("```text\n")[2].partition("```")[0].splitlines()
    assert len(shown) == 7
    assert [line for line in shown if not any(other.startswith(line) for other in printed)] == []


def test_make_targets_that_are_named_exist() -> None:
    makefile = CHECKOUT / "Makefile"
    if not makefile.is_file():
        pytest.skip("no Makefile here: the tests run without the checkout")
    lines = re.findall(r"^([a-z][a-z-]*(?: [a-z][a-z-]*)*):", makefile.read_text(encoding="utf-8"), re.M)
    known = {name for line in lines for name in line.split()}
    named = {}
    for path in DOCUMENTS:
        if path.is_file():
            text = path.read_text(encoding="utf-8")
            named[path.name] = set(re.findall(r"(?:^(?:\$ )?|`)make ([a-z][a-z-]+)", text, re.M))
    assert {name: targets - known for name, targets in named.items() if targets - known} == {}
    assert named["README.md"] >= {"demo", "test"}

"""blockpool demo engine: the summary, the live view in a terminal, and how it fails."""

from __future__ import annotations

import subprocess

import pytest

from ..cli_support import invoke, on_terminal, run, run_python

pytest.importorskip("click.testing", reason="the extra cli is not installed")
pytest.importorskip("numpy", reason="the extra demo is not installed")

FULL = """\
blockpool demo engine: full attention, 64 blocks of 8 tokens

                             with caching   without
 ──────────────────────────────────────────────────
 requests                              24        24
 prompt tokens                      1,994     1,994
 tokens generated                     321       321
 tokens found in the cache          1,232         0
 tokens computed                    1,059     2,377
 steps                                 79       104
 most blocks in use                    55        64
 blocks evicted                        62         0
 preemptions                            0         2

Outputs and logits are the same with and without caching, bit for bit.
"""


@pytest.mark.both_builds
def test_the_summary_is_the_same_every_time() -> None:
    done = run("demo", "engine")
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode() == FULL


def rows(*arguments: str) -> dict[str, list[str]]:
    """The cells of each row of the summary."""
    lines = invoke("demo", "engine", "--requests", "6", *arguments).stdout.splitlines()
    cells = [line.rsplit(maxsplit=2 if "--no-caching" not in arguments else 1) for line in lines[4:13]]
    return {name.strip(): values for name, *values in cells}


def test_options_reach_the_engine() -> None:
    plain, hybrid = rows(), rows("--hybrid")
    assert plain["requests"] == ["6", "6"]
    assert int(hybrid["most blocks in use"][0]) > int(plain["most blocks in use"][0])
    assert int(hybrid["tokens found in the cache"][0]) > 0
    assert rows("--seed", "1") != plain
    small = rows("--blocks", "24")
    assert int(small["preemptions"][0]) > 0
    assert small["prompt tokens"] == plain["prompt tokens"]
    (without,) = ({name: cells[1] for name, cells in plain.items()},)
    assert {name: cells[0] for name, cells in rows("--no-caching").items()} == without
    assert "bit for bit" not in invoke("demo", "engine", "--requests", "2", "--no-caching").stdout


def test_help_is_plain_ascii() -> None:
    assert invoke("demo", "--help").output.isascii()
    output = invoke("demo", "engine", "--help").output
    assert output.isascii()
    assert "Steps per second of the live view. [default: 5]" in " ".join(output.split())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--speed", "5"], "--speed is for the live view"),
        (["--no-live", "--speed", "5"], "--speed is for the live view"),
        (["--speed", "nan"], "a number is needed"),
        (["--requests", "0"], "--requests"),
        (["--blocks", "0"], "--blocks"),
        (["--seed", "-1"], "--seed"),
    ],
)
def test_usage_errors(arguments: list[str], words: str) -> None:
    assert words in invoke("demo", "engine", *arguments, exit_code=2).stderr


def test_a_pool_too_small_is_told_in_one_line() -> None:
    done = run("demo", "engine", "--blocks", "19")
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr == b"blockpool: num_blocks=19: one request of 160 tokens needs 20 blocks\n"


def test_without_numpy_it_says_what_to_install() -> None:
    done = run_python(
        "import sys; sys.modules['numpy'] = None\n"
        "from blockpool.__main__ import main\n"
        "sys.exit(main(['demo', 'engine']))"
    )
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.startswith(b"blockpool: the demo engine needs a package that is not installed")
    assert b"[demo]" in done.stderr
    assert done.stderr.count(b"\n") == 1


def test_other_commands_never_load_numpy() -> None:
    done = run_python(
        "import sys; sys.modules['numpy'] = None\n"
        "from blockpool.__main__ import main\n"
        "sys.exit(main(['generate', 'chat', '--requests', '1']))"
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_colours_by_force_make_no_view_in_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    done = run("demo", "engine", "--requests", "2")
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"\x1b[?1049h" not in done.stdout
    assert b"step 0" not in done.stdout


def test_a_dumb_terminal_shows_the_summary_at_once() -> None:
    """No view, and so no speed of one."""
    text, errors, code = in_a_terminal("dumb", "demo", "engine", "--requests", "4")
    assert (errors, code) == (b"", 0)
    assert "\x1b" not in text
    assert "bit for bit" in text
    _, errors, code = in_a_terminal("dumb", "demo", "engine", "--requests", "4", "--speed", "1000")
    assert code == 2
    assert b"--speed is for the live view" in errors


@pytest.mark.parametrize("options", [[], ["--hybrid", "--no-caching"]])
def test_the_live_view_in_a_terminal(options: list[str]) -> None:
    arguments = ["demo", "engine", "--requests", "4", "--speed", "1000", *options]
    text, errors, code = in_a_terminal("xterm-256color", *arguments)
    assert (errors, code) == (b"", 0)
    alternate, ordinary = text.rsplit("\x1b[?1049l", 1)
    assert alternate.startswith("\x1b[?1049h")
    for words in ("step 0", "decode", "computed now", "blocks evicted", "a0 done"):
        assert words in alternate
    assert "tokens computed" in ordinary
    assert ("bit for bit" in ordinary) == (not options)


def in_a_terminal(term: str, *arguments: str) -> tuple[str, bytes, int]:
    """What the command writes to a terminal of that kind, what to stderr, and how it ends."""
    options = {"stdin": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    with on_terminal(*arguments, term=term, **options) as terminal:
        code = terminal.end()
        return terminal.shown.decode(), terminal.process.stderr.read(), code

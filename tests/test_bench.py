"""Every row of the benchmark runs at a small size and compares equal work; no clock is judged."""

from __future__ import annotations

import json
import math

import pytest

import blockpool
from benchmarks import suite
from benchmarks.limit import cxx_pool
from benchmarks.measure import QUICK, ResultsDiffer, Row, require_equal
from benchmarks.peer import Peer

BUILD = "compiled" if blockpool.COMPILED else "interpreted"
ROWS = {
    "request": {"request"},
    "request-events": {"request-events"},
    "events": {"events-path", "events-encode", "events-loopback", "events-stalled"},
    "hash": {
        "hash-sha256",
        "hash-sha256-request",
        "hash-sha256_cbor",
        "hash-sha256_cbor-request",
        "hash-fast",
        "hash-cryptographic",
    },
    "build": {"build-time", "build-memory", "build-pause"},
    "allocate": {"allocate"},
    "curve": {"curve-command", "curve-pass", "curve-doubling", "curve-memory"},
    "manager": {"manager-cached", "manager-decode"},
    "limit": {
        "limit-cxx",
        "limit-large",
        "limit-large-cxx",
        "limit-one-block",
        "limit-build-time",
        "limit-build-memory",
        "limit-build-pause",
    },
}
NEED_A_COMPILER = {"limit-cxx", "limit-large-cxx"}


@pytest.mark.peer
@pytest.mark.parametrize("part", suite.PARTS)
def test_part_runs_and_compares_equal_work(part: str, peer: Peer) -> None:
    pytest.importorskip("xxhash", reason="the fast format needs xxhash")
    rows = list(suite.run(peer, QUICK, BUILD, [part]))
    absent = set() if cxx_pool.compiler() else NEED_A_COMPILER
    assert {row.key for row in rows} == ROWS[part] - absent
    for row in rows:
        assert row.ours > 0
        assert row.theirs > 0
        # Sane, not fast: a unit error would be far outside.
        assert 1e-6 < row.ratio < 1000
        assert math.isfinite(row.ratio)


def test_both_builds_have_a_bound_for_every_judged_row() -> None:
    judged = set().union(*ROWS.values()) - {
        "hash-sha256-request",
        "hash-sha256_cbor-request",
        "events-loopback",
    }
    for bounds in suite.BOUNDS.values():
        assert set(bounds) == judged


def test_unequal_work_is_refused() -> None:
    with pytest.raises(ResultsDiffer, match="hits differ"):
        require_equal("hits", 1, 2)


def test_bounds_are_read_the_right_way_round() -> None:
    def row(**bound: float) -> Row:
        return Row("key", "what", "µs", 1.0, 2.0, "vLLM", 2.0, **bound)

    assert row(at_least=2.0).passed is True
    assert row(at_least=2.1).passed is False
    assert row(at_most=2.0).passed is True
    assert row(at_most=1.9).passed is False
    assert row().passed is None


@pytest.mark.parametrize(
    ("bound", "options", "code"), [(2.0, [], 0), (2.1, [], 1), (2.1, ["--json"], 1), (2.1, ["--quick"], 0)]
)
def test_a_missed_bound_shows_in_the_exit_code(
    monkeypatch: pytest.MonkeyPatch, bound: float, options: list[str], code: int
) -> None:
    pytest.importorskip("rich", reason="the report needs rich, which the cli extra brings")
    from benchmarks import __main__ as command

    rows = [
        Row("key", "what", "µs", 1.0, 2.0, "vLLM", 2.0, at_least=bound),
        Row("other", "what", "µs", 2.0, 1.0, "vLLM", 0.5),
    ]
    monkeypatch.setattr(command.peer_module, "load", lambda: None)
    monkeypatch.setattr(command, "run", lambda *_: iter(rows))
    assert command.main(options) == code


@pytest.mark.peer
def test_command_prints_json(peer: Peer, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("rich", reason="the report needs rich, which the cli extra brings")
    from benchmarks.__main__ import main

    assert main(["--quick", "--json", "allocate"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["build"] == BUILD
    assert [row["key"] for row in report["rows"]] == ["allocate"]

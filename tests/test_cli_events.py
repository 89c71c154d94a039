"""`watch`, `record`, recordings in `replay`, and `replay --publish`, as processes that talk over real sockets."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("zmq", reason="the extra events is not installed")
pytest.importorskip("click", reason="the extra cli is not installed")

from blockpool.commands.following import subscriber
from blockpool.events import EventSubscriber, Source, SourceAddress
from blockpool.events.recording_reader import RecordingReader
from blockpool.events.recording_replay import replay_recording
from blockpool.replay import ReplaySettings
from blockpool.replay.pool_run import PoolRun
from blockpool.trace import TraceReader

from .cli_support import SECONDS, invoke, on_terminal, run, run_python, started
from .core.support import external

ANYWHERE = "tcp://127.0.0.1:0"
ADDRESS = re.compile(r"publishes at (\S+), replay at (\S+)")


class Running:
    """A command in the background."""

    def __init__(self, process: subprocess.Popen[Any]) -> None:
        self.process = process

    def end(self, number: int) -> tuple[int, str, str]:
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=SECONDS)
        assert "Traceback" not in err
        return self.process.returncode, out, err


@pytest.fixture
def start() -> Iterator[Callable[..., Running]]:
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    unbuffered = os.environ | {"PYTHONUNBUFFERED": "1"}
    with ExitStack() as stack:

        def begin(*arguments: str) -> Running:
            return Running(stack.enter_context(started(*arguments, text=True, env=unbuffered, **pipes)))

        yield begin


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trace") / "chat.jsonl"
    invoke("generate", "chat", "--requests", "60", "--seed", "3", "-o", str(path))
    return path


def publishing(start: Callable[..., Running], trace: Path, *more: str) -> tuple[list[tuple[str, str]], Any]:
    """A fleet that has played the trace and lingers: where it publishes and answers, and its report."""
    command = ("replay", str(trace), "--blocks", "300", "--publish", ANYWHERE, "--publish-replay", ANYWHERE)
    made = start(*command, "--linger", "600", "--json", *more)
    assert made.process.stdout is not None
    assert made.process.stderr is not None
    report = ""
    while not report.endswith("\n}\n"):
        line = made.process.stdout.readline()
        assert line, made.process.stderr.read()
        report += line
    workers = json.loads(report)["workers"]
    addresses = [ADDRESS.search(made.process.stderr.readline()) for _ in workers]
    found = [(match[1], match[2]) for match in addresses if match]
    assert found == [(worker["endpoint"], worker["replay_endpoint"]) for worker in workers]
    return found, workers


def pools_of(trace: Path, workers: int) -> list[Counter[int]]:
    """The indexes after the trace went round so many pools in this process."""
    runs = [PoolRun(300, ReplaySettings(rules="engine")) for _ in range(workers)]
    for number, request in enumerate(TraceReader(trace)):
        runs[number % workers].play(request)
    keys = [[block.block_hash for block in run.pool.blocks] for run in runs]
    return [Counter(external(key[:-4]) for key in each if key is not None) for each in keys]


def listening(addresses: list[tuple[str, str]]) -> list[str]:
    words = [address for address, _ in addresses]
    for _, replay in addresses:
        words += ["--replay-endpoint", replay]
    return words


@pytest.mark.parametrize("name", ["events.jsonl", "events.jsonl.gz", "events.jsonl.zst"])
def test_published_recorded_and_replayed_the_index_is_the_pools(
    start: Callable[..., Running], trace: Path, tmp_path: Path, name: str
) -> None:
    addresses, workers = publishing(start, trace, "--workers", "2")
    path = tmp_path / name
    count = sum(worker["publisher"]["num_batches"] for worker in workers)
    done = run("record", *listening(addresses), "-o", str(path), "--count", str(count))
    assert (done.returncode, done.stdout) == (0, b""), done.stderr
    result = replay_recording(path)
    indexes = [Counter(dict(result.view.counts(Source(address)))) for address, _ in addresses]
    assert indexes == pools_of(trace, 2)
    assert result.complete
    report = json.loads(run("replay", str(path), "--json").stdout)
    told = {source["source"]: source for source in report["sources"]}
    for worker in workers:
        source = told[worker["endpoint"]]
        assert source["known"] == {"GPU": worker["cached_blocks"]}
        assert source["removed"] == worker["evictions"]
        assert source["stored"] == worker["cached_blocks"] + worker["evictions"]
        assert (source["lost"], source["unmatched"]) == (0, 0)
    table = run("replay", "-", data=path.read_bytes()).stdout.decode()
    assert "<stdin>: recording of events" in table
    assert addresses[0][0] in table


def test_a_killed_recorder_leaves_whole_lines(
    start: Callable[..., Running], trace: Path, tmp_path: Path
) -> None:
    addresses, _ = publishing(start, trace)
    path = tmp_path / "events.jsonl.zst"
    recorder = start("record", *listening(addresses), "-o", str(path))
    deadline = time.monotonic() + SECONDS
    while not path.exists() or not list(RecordingReader(path) if path.stat().st_size else ()):
        assert recorder.process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    recorder.process.kill()
    recorder.process.wait(SECONDS)
    reader = RecordingReader(path)
    assert len(list(reader)) > 0
    assert (reader.cut, reader.end) == (False, None)
    assert "the recorder was killed or goes on" in run("replay", str(path)).stdout.decode()


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_recorder_that_is_ended_writes_its_last_line(
    start: Callable[..., Running], tmp_path: Path, number: int, code: int
) -> None:
    path = tmp_path / "events.jsonl"
    recorder = start("record", "tcp://127.0.0.1:1", "-o", str(path))
    deadline = time.monotonic() + SECONDS
    while not path.exists() or not path.stat().st_size:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert recorder.end(number)[0] == code
    reader = RecordingReader(path)
    assert list(reader) == []
    assert reader.end is not None
    assert "nothing was heard" in run("replay", str(path)).stdout.decode()


def test_watch_without_a_terminal_tells_lines(start: Callable[..., Running], trace: Path) -> None:
    addresses, (worker,) = publishing(start, trace)
    count = worker["publisher"]["num_batches"]
    done = run("watch", *listening(addresses), "--count", str(count))
    assert done.returncode == 0, done.stderr
    last = done.stdout.decode().splitlines()[-1]
    assert f"{worker['endpoint']} seq={count - 1} GPU={worker['cached_blocks']} " in last
    assert f"removed={worker['evictions']} " in last


def test_watch_ends_with_ctrl_c(start: Callable[..., Running]) -> None:
    made = start("watch", "tcp://127.0.0.1:1", "--interval", "0.1")
    assert made.process.stdout is not None
    assert made.process.stdout.readline().endswith("tcp://127.0.0.1:1 waiting\n")
    assert made.end(signal.SIGINT)[0] == 130


def test_watch_on_a_terminal_draws(start: Callable[..., Running], trace: Path) -> None:
    addresses, (worker,) = publishing(start, trace)
    with on_terminal("watch", *listening(addresses), "--duration", "2") as terminal:
        assert terminal.end() == 0
    text = terminal.shown.decode()
    assert worker["endpoint"].removeprefix("tcp://") in text
    assert "shared prefix" in text
    assert "Traceback" not in text
    assert "\x1b[?1049l" in text  # the screen was given back


def test_requests_of_a_recording_are_a_trace(
    start: Callable[..., Running], trace: Path, tmp_path: Path
) -> None:
    addresses, (worker,) = publishing(start, trace)
    recording, requests = tmp_path / "events.jsonl.gz", tmp_path / "requests.jsonl.gz"
    count = worker["publisher"]["num_batches"]
    assert run("record", *listening(addresses), "-o", str(recording), "--count", str(count)).returncode == 0
    done = run("replay", str(recording), "--requests-to", str(requests), "--json")
    assert (done.returncode, done.stderr) == (0, b"")
    counts = json.loads(done.stdout)["requests"]
    assert counts["block_sizes"] == [16]
    replayed = json.loads(run("replay", str(requests), "--blocks", "100000", "--json").stdout)
    assert replayed["results"][0]["requests"] == counts["requests"] > 0


def test_publishing_can_be_interrupted(start: Callable[..., Running], trace: Path) -> None:
    made = start("replay", str(trace), "--blocks", "300", "--publish", ANYWHERE, "--speed", "0.001")
    assert made.process.stderr is not None
    assert "worker 0 publishes at tcp://127.0.0.1:" in made.process.stderr.readline()
    assert made.end(signal.SIGINT)[0] == 130


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recording") / "events.jsonl"
    path.write_text('{"recording":"blockpool.events/1","at":1.0,"sources":["tcp://a:1"],"topic":""}\n')
    return path


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--blocks", "5"], "--blocks is for traces of requests"),
        (["--timed"], "--timed is for traces"),
        (["--rules", "trace"], "--rules is for traces"),
        (["--html", "x.html"], "--html is for traces"),
        (["--publish", ANYWHERE], "--publish is for traces"),
        (["--skip-bad"], "--skip-bad is for traces"),
        (["--requests-to", "-"], "the name of a file is needed"),
    ],
)
def test_options_that_mean_nothing_for_a_recording(recording: Path, arguments: list[str], words: str) -> None:
    assert words in invoke("replay", str(recording), *arguments, exit_code=2).output


def test_requests_do_not_overwrite_their_recording(recording: Path) -> None:
    before = recording.read_bytes()
    output = invoke("replay", str(recording), "--requests-to", str(recording), exit_code=2).output
    assert "names the recording itself" in output
    assert recording.read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--requests-to", "x"], "--requests-to is for recordings"),
        (["--workers", "2"], "--workers goes with --publish"),
        (["--linger", "2"], "--linger goes with --publish"),
        (["--speed", "2x"], "--speed goes with --timed or --publish"),
        (["--publish", ANYWHERE, "--timed"], "--timed does not go with --publish"),
        (["--publish", ANYWHERE, "--explain"], "--explain does not go with --publish"),
        (["--publish", ANYWHERE, "--rules", "trace"], "by engine rules"),
        (["--publish", ANYWHERE, "--blocks", "5,6"], "one size"),
        (["--publish", ANYWHERE, "--linger", "nan"], "nan is no number"),
        (["--publish", ANYWHERE, "--routing", "session"], "--routing goes with --workers 2 or more"),
        (["--publish", "inproc://events"], "--publish inproc://events: inproc ends at the edge"),
        (["--publish", ANYWHERE, "--publish-replay", "inproc://e"], "--publish-replay inproc://e: inproc ends"),
        (["--publish", "nowhere"], "--publish nowhere: must begin with tcp://"),
        (["--publish", ANYWHERE, "--speed", "fast"], "--speed fast: must be a speed"),
        (["--publish", ANYWHERE, "--speed", "0"], "--speed 0"),
        (["--publish", ANYWHERE, "--hash", "sha256"], "--hash is for traces of token ids"),
        (["--publish", "tcp://127.0.0.1:5557", "--publish-replay", "tcp://127.0.0.1:5558", "--workers", "2"], "meet"),
    ],
)  # fmt: skip
def test_usage_of_publishing(arguments: list[str], words: str) -> None:
    assert words in invoke("replay", "demo", "--blocks", "50", *arguments, exit_code=2).output


def test_an_address_stands_for_those_of_all_ranks(tmp_path: Path) -> None:
    short = ["ipc:///nowhere/a", "tcp://127.0.0.1:1", "--ranks", "3", "--duration", "0.01"]
    whole = ["ipc:///nowhere/a", "ipc:///nowhere/a_dp1", "ipc:///nowhere/a_dp2"]
    whole += [f"tcp://127.0.0.1:{port}" for port in (1, 2, 3)]
    path = tmp_path / "events.jsonl"
    invoke("record", *short, "-o", str(path))
    assert json.loads(path.read_text().splitlines()[0])["sources"] == whole
    lines = invoke("watch", "--plain", *short).stdout.splitlines()
    assert [line.split()[1] for line in lines] == whole


def test_ranks_are_paired_with_their_replay_endpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    followed: list[SourceAddress] = []

    def follow(addresses: list[SourceAddress], **options: object) -> EventSubscriber:
        followed.extend(addresses)
        return EventSubscriber(addresses)

    monkeypatch.setattr("blockpool.events.EventSubscriber", follow)
    with subscriber(("tcp://a:1", "tcp://b:1"), ("tcp://a:11", "tcp://b:11"), 2, "") as (_, endpoints):
        assert endpoints == ["tcp://a:1", "tcp://a:2", "tcp://b:1", "tcp://b:2"]
    assert followed == [
        SourceAddress(f"tcp://{host}:{port}", f"tcp://{host}:{port + 10}") for host in "ab" for port in (1, 2)
    ]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["watch"], "Missing argument"),
        (["watch", "nowhere"], "ADDRESS nowhere: must begin with tcp://"),
        (["watch", "tcp://a:1", "--replay-endpoint", "b"], "--replay-endpoint b: must begin with tcp://"),
        (["watch", "tcp://a:1", "--replay-endpoint", "tcp://*:1"], "a host is needed"),
        (["watch", "tcp://*:0"], "the number of a port is needed"),
        (["watch", "tcp://127.0.0.1:*"], "the number of a port is needed"),
        (["watch", "inproc://events"], "ends at the edge of a process"),
        (["watch", "tcp://a:1", "--topic", "\udcff"], "--topic \\udcff: cannot be written as UTF-8"),
        (["watch", "tcp://a:1", "--duration", "nan"], "nan is no number"),
        (["watch", "tcp://a:1", "--interval", "nan"], "nan is no number"),
        (["watch", "tcp://a:1", "tcp://a:1"], "listed twice"),
        (["watch", "tcp://a:1", "tcp://b:1", "--replay-endpoint", "tcp://a:2"], "1 for 2 addresses"),
        (["watch", "tcp://a:1", "--ranks", "0"], "--ranks"),
        (["watch", "tcp://a:65534", "--ranks", "3"], "--ranks 3: ADDRESS: port 65534 + 2 is above 65535"),
        (["watch", "tcp://a:1", "tcp://a:2", "--ranks", "2"], "listed twice"),
        (["watch", "tcp://a:1", "--duration", "0"], "--duration"),
        (["record", "tcp://a:1"], "Missing option"),
        (["record", "inproc://events", "-o", "x"], "ends at the edge of a process"),
        (["record", "tcp://a:1", "-o", ""], "the name is empty"),
        (["record", "tcp://a:1", "-o", "x", "--count", "0"], "--count"),
    ],
)
def test_usage_of_watch_and_record(arguments: list[str], words: str) -> None:
    assert words in invoke(*arguments, exit_code=2).output


def test_what_fails_is_one_line(tmp_path: Path, trace: Path) -> None:
    missing = str(tmp_path / "no" / "events.jsonl")
    done = run("record", "tcp://127.0.0.1:1", "-o", missing)
    assert (done.returncode, done.stderr.count(b"\n")) == (1, 1)
    damaged = tmp_path / "damaged.jsonl"
    damaged.write_bytes(b'{"recording":"blockpool.events/1","at":1,"sources":[]}\nnonsense\n')
    done = run("replay", str(damaged))
    assert (done.returncode, done.stderr.count(b"\n")) == (1, 1)
    assert b":2: " in done.stderr or b"line 2" in done.stderr


def test_help_and_other_commands_need_no_zmq(trace: Path) -> None:
    code = (
        "import sys; sys.modules['zmq'] = None\n"
        "from blockpool.__main__ import main\n"
        f"assert main(['replay', {str(trace)!r}, '--blocks', '50', '--json']) == 0\n"
        "sys.exit(main(['watch', 'tcp://a:1']))"
    )
    done = run_python(code)
    assert done.returncode == 1
    assert b"blockpool.events" in done.stderr
    assert done.stderr.count(b"\n") == 1

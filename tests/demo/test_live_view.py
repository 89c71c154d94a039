"""What the view shows: frames taken from a running engine, drawn into a recording console."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

pytest.importorskip("rich", reason="the extra cli is not installed")
pytest.importorskip("numpy", reason="the extra demo is not installed")

from rich.console import Console

from blockpool.demo.comparison import run_prompts
from blockpool.demo.engine import Engine, EngineSettings
from blockpool.demo.frame import BLANK, EVICTED, HIT, IDLE, NEW, Cell, Frame, take_frame
from blockpool.demo.live_view import LiveView
from blockpool.demo.model_config import HYBRID_ATTENTION, ModelConfig
from blockpool.demo.story import Story
from blockpool.demo.watcher import BlockWatcher
from blockpool.demo.workload import MAX_OUTPUT_TOKENS, MAX_PROMPT_TOKENS, make_workload

from .engine_support import small_config


class Watched:
    """An engine that is watched, as `run_prompts` does it."""

    def __init__(self, num_blocks: int = 14, *, hybrid: bool = False) -> None:
        self.watcher = BlockWatcher()
        settings = EngineSettings(num_blocks, 4, 16, 3)
        self.engine = Engine(small_config(hybrid), settings, self.watcher)
        self.story = Story()
        self.steps = 0

    def add(self, request_id: str, prompt: list[int], max_tokens: int) -> None:
        self.engine.add_request(request_id, prompt, max_tokens)

    def step(self) -> Frame:
        frame = take_frame(self.steps, self.engine, self.engine.step(), self.watcher)
        self.steps += 1
        self.story.add(frame)
        return frame


def console(width: int = 80, encoding: str = "utf-8") -> Console:
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    return Console(file=file, width=width, height=24, record=True, color_system=None)


def drawn(frame: Frame, story: Story, where: Console | None = None, *, has_window: bool = False) -> list[str]:
    where = where or console()
    view = LiveView(where, "a title", 5, has_window)
    where.print(view.draw(frame, story))
    return where.export_text().splitlines()


def test_a_block_from_blank_to_evicted() -> None:
    watched = Watched()
    watched.add("a0", list(range(7)), 2)
    frame = watched.step()
    assert frame.cells == [Cell("a", NEW)] * 2 + [Cell(BLANK, "")] * 12
    frame = watched.step()
    assert frame.finished == ["a0"]
    assert frame.cells == [Cell(IDLE, "")] * 2 + [Cell(BLANK, "")] * 12

    watched.add("b1", list(range(4)) + [9] * 5, 3)
    frame = watched.step()
    assert frame.cells[0] == Cell("b", HIT)
    assert frame.cells[1] == Cell(IDLE, "")
    assert (frame.found, frame.hits, frame.num_tokens) == (4, 1, 5)
    watched.add("c2", list(range(4)) + [8] * 41, 2)
    frame = watched.step()
    assert frame.cells[0] == Cell("2", HIT), "two requests share it"
    while not frame.evicted:
        frame = watched.step()
    assert frame.cells[1] == Cell("c", EVICTED)
    assert list(watched.story.events) == [
        "step 3: 4 tokens found in 1 block",
        "step 4: b1 done",
        "step 5: 1 block evicted from the cache",
    ]


def test_blocks_of_a_group_with_a_window_have_capitals() -> None:
    watched = Watched(40, hybrid=True)
    watched.add("a0", list(range(9)), 2)
    contents = [cell.content for cell in watched.step().cells]
    assert (contents.count("a"), contents.count("A")) == (3, 3)


def test_rows_of_requests() -> None:
    watched = Watched()
    for name, prompt in (("a0", [1] * 20), ("b1", [2] * 12), ("c2", [3] * 30)):
        watched.add(name, prompt, 9)
    first = watched.step()
    assert [tuple(row) for row in first.rows] == [
        ("a0", "prefill", 0, 16, 20, 0, 9),
        ("b1", "waiting", 0, 0, 12, 0, 9),
        ("c2", "waiting", 0, 0, 30, 0, 9),
    ]
    second = watched.step()
    assert [tuple(row) for row in second.rows[:2]] == [
        ("a0", "decode", 0, 20, 20, 1, 9),
        ("b1", "decode", 0, 12, 12, 1, 9),
    ]
    frame = second
    while not frame.preempted:
        frame = watched.step()
    assert frame.preempted == ["c2"]
    assert [row.state for row in frame.rows if row.request_id == "c2"] == ["preempted"]


def test_every_state_has_a_sign() -> None:
    watched = Watched()
    watched.add("a0", list(range(7)), 2)
    watched.step()
    watched.step()
    watched.add("b1", list(range(4)) + [9] * 5, 3)
    lines = drawn(watched.step(), watched.story)
    assert lines[0].startswith("a title")
    assert lines[0].endswith("step 2")
    assert lines[1] == "    1  b!░ b+b+· · · · · · · · · · "
    assert lines[4] == "  pool ███████░░······················· 3 in use, 1 cached, 10 blank"
    row = next(line for line in lines if line.startswith("    b1"))
    assert row == "    b1 decode    ░░░░░░░░░████████████─────── prompt   9,   4 found, out  1/3"
    assert "tokens: 5 computed now, 13 so far; 4 found in the cache" in lines
    assert "so far: 0 blocks evicted, 0 preemptions, 1 of 5 requests done" in lines
    assert lines[-1] == "step 2: 4 tokens found in 1 block"


def test_ascii_where_nothing_else_can_be_shown() -> None:
    watched = Watched(hybrid=False)
    watched.add("a0", list(range(7)), 9)
    lines = drawn(watched.step(), watched.story, console(encoding="ascii"))
    assert all(line.isascii() for line in lines)
    assert lines[1].startswith("    1  a+a+. . ")


@pytest.mark.parametrize("hybrid", [False, True])
@pytest.mark.parametrize(("num_blocks", "width"), [(64, 80), (160, 80), (500, 80), (500, 200)])
def test_every_frame_of_a_run_fits_its_terminal(hybrid: bool, num_blocks: int, width: int) -> None:
    config = ModelConfig(HYBRID_ATTENTION if hybrid else (None,), max_model_len=160, hidden_size=8)
    screens: list[list[str]] = []

    def on_frame(frame: Frame, story: Story) -> None:
        if frame.step % 5 == 0:
            screens.append(drawn(frame, story, console(width), has_window=hybrid))

    run_prompts(config, EngineSettings(num_blocks), make_workload(12, 3, 256), on_frame)
    assert len(screens) > 3
    for lines in screens:
        assert max(map(len, lines)) <= width
        assert len(lines) <= 24
        hidden = num_blocks > 5 * (64 if width > 135 else 32)
        assert any("blocks more" in line for line in lines) == hidden
        assert any("window layers" in line for line in lines) == hybrid


def test_a_long_title_leaves_room_for_the_step() -> None:
    watched = Watched()
    where = console()
    where.print(LiveView(where, "long " * 30, 1, has_window=False).draw(watched.step(), watched.story))
    first = where.export_text().splitlines()[0]
    assert len(first) == 80
    assert first.endswith(" step 0")


def test_the_document_shows_what_the_view_shows() -> None:
    document = Path(__file__).resolve().parents[2] / "docs" / "demo.md"
    if not document.is_file():
        pytest.skip("no docs here: the tests run without the checkout")
    text = document.read_text(encoding="utf-8")
    shown = text.split("```text\n", 1)[1].split("```\n", 1)[0]
    frames: list[str] = []
    where = console()
    view = LiveView(
        where, "blockpool demo engine: full attention, 64 blocks of 8 tokens", 24, has_window=False
    )

    def on_frame(frame: Frame, story: Story) -> None:
        where.print(view.draw(frame, story))
        lines = where.export_text().splitlines()
        frames.append("\n".join(line.rstrip() for line in lines) + "\n")

    config = ModelConfig(max_model_len=MAX_PROMPT_TOKENS + MAX_OUTPUT_TOKENS)
    run_prompts(config, EngineSettings(), make_workload(24, 0, config.vocab_size), on_frame)
    assert frames[29] == shown

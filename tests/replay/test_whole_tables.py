"""Tables for people: a narrow console never costs a digit."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from blockpool.replay import PlanSettings, ReplaySettings, load_model_shape, plan_capacity, replay, study

pytest.importorskip("rich", reason="the extra cli is not installed")

WIDTHS = [1, 20, 40, 80]


def console(width: int) -> tuple[io.StringIO, Any]:
    from rich.console import Console

    file = io.StringIO()
    return file, Console(file=file, width=width)


@pytest.mark.parametrize("width", WIDTHS)
def test_replay(small_demo: Path, width: int) -> None:
    from blockpool.replay.replay_tables import print_report

    result = replay(small_demo, 400)
    large = replace(
        result,
        blocks=100_000_000,
        counts=replace(result.counts, hit_tokens=10**15, hit_blocks=10**13, evictions=10**13),
    )
    file, narrow = console(width)
    print_report(narrow, "demo", ReplaySettings(), [result, large])
    assert "…" not in file.getvalue()
    for number in ("1,000,000,000,000,000", "10,000,000,000,000", "100,000,000"):
        assert number in file.getvalue()


@pytest.mark.parametrize("width", WIDTHS)
def test_curve(small_demo: Path, width: int) -> None:
    from blockpool.replay.curves.curve_tables import print_study

    file, narrow = console(width)
    print_study(narrow, study(small_demo, blocks=[400], policies=["lru", "fifo"]))
    assert "…" not in file.getvalue()


@pytest.mark.parametrize("width", WIDTHS)
def test_plan(small_demo: Path, width: int) -> None:
    from blockpool.replay.plans.plan_tables import print_plan

    plan = plan_capacity(small_demo, load_model_shape("llama-3-8b"), PlanSettings(gpu_memory=80 * 2**30))
    file, narrow = console(width)
    print_plan(narrow, "demo", plan)
    assert "…" not in file.getvalue()
    assert "per GPU" in file.getvalue()

"""The summary of a demo as a table. Needs the package rich."""

from __future__ import annotations

from collections.abc import Mapping

from rich import box
from rich.console import Console
from rich.table import Table

from blockpool.demo.comparison import Run


def print_runs(console: Console, title: str, runs: Mapping[str, Run]) -> None:
    """Prints a column per run.

    Args:
        console: Where to.
        title: What ran.
        runs: By their names.
    """
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("", no_wrap=True)
    for name in runs:
        table.add_column(name, justify="right", no_wrap=True)
    rows = (
        ("requests", [len(run.requests) for run in runs.values()]),
        ("prompt tokens", [sum(each.num_prompt_tokens for each in run.requests) for run in runs.values()]),
        ("tokens generated", [sum(len(each.logits) for each in run.requests) for run in runs.values()]),
        ("tokens found in the cache", [run.story.found for run in runs.values()]),
        ("tokens computed", [run.story.computed for run in runs.values()]),
        ("steps", [run.steps for run in runs.values()]),
        ("most blocks in use", [run.peak_blocks for run in runs.values()]),
        ("blocks evicted", [run.story.evicted for run in runs.values()]),
        ("preemptions", [run.story.preempted for run in runs.values()]),
    )
    for name, values in rows:
        table.add_row(name, *(f"{value:,}" for value in values))
    with console.capture() as capture:
        console.print(title, highlight=False)
        console.print(table)
    lines = [line.rstrip() for line in capture.get().rstrip().splitlines()]
    console.file.write("\n".join(lines) + "\n")

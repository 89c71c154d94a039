"""`blockpool demo`: things to look at."""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from math import isnan
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.live import Live

from blockpool.commands.output import table_console
from blockpool.errors import BlockPoolError
from blockpool.trace.generator import MAX_SEED

if TYPE_CHECKING:  # the demo needs NumPy, and is imported when it is asked for
    from blockpool.demo.frame import Frame
    from blockpool.demo.live_view import LiveView
    from blockpool.demo.story import Story

_DEFAULT_SPEED = 5.0


def _require_number(_context: click.Context, _option: click.Parameter, speed: float | None) -> float | None:
    """Not NaN, which no range keeps out."""
    if speed is not None and isnan(speed):
        raise click.BadParameter("a number is needed")
    return speed


@click.group("demo", short_help="Look at the pool at work.")
def demo_command() -> None:
    """Look at the pool at work."""


@demo_command.command("engine", short_help="A small engine, live.")
@click.option("--requests", "num_requests", type=click.IntRange(1, 1000), default=24, show_default=True)
@click.option(
    "--blocks",
    "num_blocks",
    type=click.IntRange(1, 10_000),
    default=64,
    show_default=True,
    help="Usable blocks of the pool, 8 tokens each.",
)
@click.option(
    "--seed", type=click.IntRange(0, MAX_SEED), default=0, show_default=True, help="Of the prompts."
)
@click.option(
    "--hybrid", is_flag=True, help="Every other layer sees the last 24 tokens only: two KV cache groups."
)
@click.option("--no-caching", is_flag=True, help="Without prefix caching, and without the comparison.")
@click.option(
    "--speed",
    type=click.FloatRange(0.1, 1000),
    callback=_require_number,
    help=f"Steps per second of the live view.  [default: {_DEFAULT_SPEED:g}]",
)
@click.option("--no-live", is_flag=True, help="The summary only, as when the output is no terminal.")
def engine_command(
    num_requests: int,
    num_blocks: int,
    seed: int,
    hybrid: bool,
    no_caching: bool,
    speed: float | None,
    no_live: bool,
) -> None:
    """Run a small model on the pool, on the CPU, and watch its blocks.

    A model with random weights answers prompts that partly begin alike, through paged attention and a scheduler on
    KVCacheManager. Then the same prompts run without prefix caching: the outputs are the same, bit for bit. Equal
    options give equal numbers. Needs the extra demo.
    """
    from blockpool.demo.comparison import run_prompts, same_bits
    from blockpool.demo.engine import EngineSettings
    from blockpool.demo.live_view import LiveView
    from blockpool.demo.model_config import FULL_ATTENTION, HYBRID_ATTENTION, ModelConfig
    from blockpool.demo.tables import print_runs
    from blockpool.demo.workload import MAX_OUTPUT_TOKENS, MAX_PROMPT_TOKENS, make_workload

    console = table_console()
    # Not what rich takes for a terminal: FORCE_COLOR makes that a file, too. A dumb one cannot show the view.
    live = sys.stdout.isatty() and not console.is_dumb_terminal and not no_live
    if speed is not None and not live:
        raise click.UsageError("--speed is for the live view, which needs a terminal and no --no-live")
    windows = HYBRID_ATTENTION if hybrid else FULL_ATTENTION
    config = ModelConfig(windows, max_model_len=MAX_PROMPT_TOKENS + MAX_OUTPUT_TOKENS)
    settings = EngineSettings(num_blocks=num_blocks, enable_caching=not no_caching)
    prompts = make_workload(num_requests, seed, config.vocab_size)
    title = (
        f"blockpool demo engine: {'full + window' if hybrid else 'full'} attention, "
        f"{num_blocks:,} blocks of {settings.block_size} tokens"
    )
    view = LiveView(console, title, num_requests, has_window=hybrid)
    with _screen(console, view, speed or _DEFAULT_SPEED) if live else nullcontext(_show_nothing) as show:
        run = run_prompts(config, settings, prompts, show)
        if no_caching:
            runs = {"without caching": run}
        else:  # while the last frame can be looked at
            plain = run_prompts(config, dataclasses.replace(settings, enable_caching=False), prompts)
            runs = {"with caching": run, "without": plain}
    print_runs(console, title, runs)
    if no_caching:
        return
    if not same_bits(run, plain):
        raise BlockPoolError("the outputs with and without caching differ: this is a bug of blockpool")
    click.echo("\nOutputs and logits are the same with and without caching, bit for bit.")


@contextmanager
def _screen(console: Console, view: LiveView, speed: float) -> Iterator[Callable[[Frame, Story], None]]:
    """The whole terminal; gives the function that shows a frame for its time."""
    with Live(console=console, screen=True, auto_refresh=False) as screen:

        def show(frame: Frame, story: Story) -> None:
            screen.update(view.draw(frame, story), refresh=True)
            time.sleep(1 / speed)

        yield show


def _show_nothing(frame: Frame, story: Story) -> None:
    """For a run that nobody watches."""

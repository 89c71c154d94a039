"""The command line: options in, calls of the library, tables or JSON out. Nothing is computed here."""

from __future__ import annotations

import click

from blockpool.commands.curve import curve_command
from blockpool.commands.demo import demo_command
from blockpool.commands.generate import generate_command
from blockpool.commands.html_report import ARGUMENTS
from blockpool.commands.plan import plan_command
from blockpool.commands.record import record_command
from blockpool.commands.replay import replay_command
from blockpool.commands.watch import watch_command


class _Commands(click.Group):
    """Remembers the arguments as they were given, for reports that show them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[ARGUMENTS] = tuple(args)
        return super().parse_args(ctx, args)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
# Answered by `blockpool.__main__`, which needs no extra; here it stands for the help.
@click.option("--version", is_flag=True, expose_value=False, help="Show version and build, and exit.")
def cli() -> None:
    """The KV-cache block pool of an LLM server: replay traces through it, make traces for it."""


for command in (
    replay_command,
    curve_command,
    plan_command,
    generate_command,
    watch_command,
    record_command,
    demo_command,
):
    cli.add_command(command)

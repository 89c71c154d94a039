"""The command line: options in, calls of the library, tables or JSON out. Nothing is computed here."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable
from pathlib import Path

import click
from rich.console import Console

import blockpool
from blockpool.commands.options import (
    check_hash_is_used,
    check_hash_was_used,
    hash_option,
    not_empty,
    rules_option,
    trace_argument,
    window_option,
)
from blockpool.commands.plan import plan_command
from blockpool.commands.progress import progress_bar, show_fraction
from blockpool.commands.usage import as_usage
from blockpool.replay import (
    ReplayResult,
    ReplaySettings,
    replay,
    replay_many,
    report_as_dict,
    study,
    study_as_dict,
)
from blockpool.replay.curve_report import csv_rows
from blockpool.replay.curve_study import MAX_VERIFIED
from blockpool.replay.policy_points import LRU, POLICIES, parse_policies
from blockpool.replay.settings import DEFAULT_HASH
from blockpool.replay.sizes import blocks_for_memory, parse_block_counts, parse_sampling
from blockpool.replay.tables import PLAIN_WIDTH, print_report
from blockpool.trace import WORKLOAD_KINDS, WRITABLE_FORMATS, generate, open_trace_for_writing, write_trace
from blockpool.trace.formats import DEFAULT_TOKEN_BLOCK_SIZE, MAX_BLOCK_SIZE, MOONCAKE, MOONCAKE_BLOCK_SIZE
from blockpool.trace.generator import MAX_SEED

_BLOCK_SIZE = click.IntRange(1, MAX_BLOCK_SIZE)


def _common_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options of everything that plays a trace."""
    options = (
        click.option("--memory", metavar="SIZE[,SIZE...]", help="Size of the pool as memory, such as 40GiB."),
        click.option(
            "--bytes-per-block", metavar="SIZE", help="Memory of one block, such as 2MiB; goes with --memory."
        ),
        rules_option,
        window_option,
        click.option(
            "--block-size",
            type=_BLOCK_SIZE,
            help="Tokens per block.  [default: 16 for token ids, 512 for mooncake]",
        ),
        hash_option,
        click.option(
            "--reuse-uncached-first",
            is_flag=True,
            help="Recycle blocks that can never hit before those that can.",
        ),
        click.option("--skip-bad", is_flag=True, help="Count bad lines instead of stopping."),
        click.option(
            "--jobs",
            type=click.IntRange(1),
            help="Processes for several sizes.  [default: one per processor]",
        ),
        click.option("--json", "as_json", is_flag=True, help="Print one JSON object."),
    )
    for option in reversed(options):
        command = option(command)
    return command


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
# Answered by `blockpool.__main__`, which needs no extra; here it stands for the help.
@click.option("--version", is_flag=True, expose_value=False, help="Show version and build, and exit.")
def cli() -> None:
    """The KV-cache block pool of an LLM server: replay traces through it, make traces for it."""


cli.add_command(plan_command)


@cli.command("replay", short_help="Play a trace through pools of given sizes.")
@trace_argument
@click.option(
    "--blocks",
    metavar="N[,N...]",
    help="Usable blocks of the pool; 10k and 1M work; several run in parallel.",
)
@_common_options
@click.option(
    "--sample-rate",
    type=click.FloatRange(0, 1, min_open=True),
    help="Share of blocks to follow for residency.  [default: about 2,000 blocks]",
)
@click.option("--check", is_flag=True, help="Check the pool's invariants after every request (slow).")
@click.option(
    "--check-every", type=click.IntRange(1), metavar="K", help="Check them after every K-th request."
)
def replay_command(
    trace: str,
    blocks: str | None,
    memory: str | None,
    bytes_per_block: str | None,
    rules: str,
    window: str,
    block_size: int | None,
    hash_algorithm: str | None,
    reuse_uncached_first: bool,
    sample_rate: float | None,
    check: bool,
    check_every: int | None,
    skip_bad: bool,
    jobs: int | None,
    as_json: bool,
) -> None:
    """Drive the pool from a trace file and report hits, evictions, occupancy, residency and speed.

    TRACE is a file of JSON lines, plain, gzip or zstd, in the mooncake, kvcache-simulator or token-id format;
    "-" is standard input, "demo" the bundled trace (a file of that name is ./demo).
    """
    if check and check_every is not None:
        raise click.UsageError("either --check or --check-every")
    sizes = as_usage(lambda: _pool_sizes(blocks, memory, bytes_per_block))
    settings = as_usage(
        lambda: ReplaySettings(
            rules=rules,
            window=window,
            reuse_uncached_first=reuse_uncached_first,
            check_every=check_every or int(check),
            skip_bad=skip_bad,
            block_size=block_size,
            hash_algorithm=hash_algorithm or DEFAULT_HASH,
            sample_rate=sample_rate,
        )
    )
    check_hash_is_used(trace, hash_algorithm, block_size=block_size, skip_bad=skip_bad)
    results = _run(trace, sizes, settings, jobs)
    check_hash_was_used(hash_algorithm, results[0].trace_format)
    if as_json:
        report = report_as_dict(
            trace, settings, results, version=blockpool.__version__, compiled=blockpool.COMPILED
        )
        click.echo(json.dumps(report, indent=2))
        return
    console = Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH)
    print_report(console, trace, settings, results)


@cli.command("curve", short_help="Hits at every size, in one pass.")
@trace_argument
@click.option("--blocks", metavar="N[,N...]", help="Sizes that shall be in the table, too; 10k and 1M work.")
@_common_options
@click.option(
    "--policies",
    default=LRU,
    show_default=True,
    metavar="NAME[,NAME...]",
    help=f"Compare with other policies: {', '.join(POLICIES)}.",
)
@click.option(
    "--verify",
    type=click.IntRange(0, MAX_VERIFIED),
    default=0,
    metavar="N",
    help="Replay N random sizes through the real pool and compare.",
)
@click.option("--sample", metavar="1/R", help="Look at one of R blocks only, and show the error.")
@click.option(
    "--seed",
    type=click.IntRange(0, 2**32 - 1),
    default=0,
    show_default=True,
    help="Of the sample and of the random sizes.",
)
@click.option("--csv", "as_csv", is_flag=True, help="Print every step of the curve as CSV.")
def curve_command(
    trace: str,
    blocks: str | None,
    memory: str | None,
    bytes_per_block: str | None,
    rules: str,
    window: str,
    block_size: int | None,
    hash_algorithm: str | None,
    reuse_uncached_first: bool,
    skip_bad: bool,
    jobs: int | None,
    as_json: bool,
    policies: str,
    verify: int,
    sample: str | None,
    seed: int,
    as_csv: bool,
) -> None:
    """Tell the hits at every size of the pool, exactly and in one pass.

    TRACE as for `blockpool replay`.
    """
    if as_json and as_csv:
        raise click.UsageError("either --json or --csv")
    sizes = as_usage(
        lambda: (
            []
            if blocks is memory is bytes_per_block is None
            else _pool_sizes(blocks, memory, bytes_per_block)
        )
    )
    names = as_usage(lambda: parse_policies(policies))
    one_in = as_usage(lambda: 1 if sample is None else parse_sampling(sample))
    settings = as_usage(
        lambda: ReplaySettings(
            rules=rules,
            window=window,
            reuse_uncached_first=reuse_uncached_first,
            skip_bad=skip_bad,
            block_size=block_size,
            hash_algorithm=hash_algorithm or DEFAULT_HASH,
        )
    )
    check_hash_is_used(trace, hash_algorithm, block_size=block_size, skip_bad=skip_bad)
    with progress_bar() as bar:
        reading = bar.add_task("reading", total=None)
        verifying = bar.add_task("verifying", total=verify, visible=bool(verify))
        found = as_usage(
            lambda: study(
                trace,
                settings,
                blocks=sizes,
                policies=names,
                verify=verify,
                one_in=one_in,
                seed=seed,
                jobs=jobs,
                progress=None if bar.disable else show_fraction(bar, reading),
                finished=lambda done: bar.update(verifying, completed=done),
            )
        )
    check_hash_was_used(hash_algorithm, found.curve.trace_format)
    if as_json:
        click.echo(
            json.dumps(study_as_dict(found, version=blockpool.__version__, compiled=blockpool.COMPILED))
        )
    elif as_csv:
        csv.writer(sys.stdout, lineterminator="\n").writerows(csv_rows(found))
    else:
        from blockpool.replay.curve_tables import print_study

        print_study(Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH), found)


@cli.command("generate", short_help="Write a seeded workload as a trace.")
@click.argument("kind", type=click.Choice(WORKLOAD_KINDS))
@click.option("--requests", "num_requests", type=click.IntRange(1), default=1000, show_default=True)
@click.option("--seed", type=click.IntRange(0, MAX_SEED), default=0, show_default=True)
@click.option(
    "--format",
    "trace_format",
    type=click.Choice(WRITABLE_FORMATS),
    default=WRITABLE_FORMATS[0],
    show_default=True,
)
@click.option(
    "--block-size",
    type=_BLOCK_SIZE,
    help=f"Tokens per block; for mooncake only.  [default: {MOONCAKE_BLOCK_SIZE}]",
)
@click.option(
    "-o",
    "--output",
    default="-",
    metavar="FILE",
    callback=not_empty,
    help="Packed when it ends in .gz or .zst.  [default: stdout]",
)
def generate_command(
    kind: str, num_requests: int, seed: int, trace_format: str, block_size: int | None, output: str
) -> None:
    """Write a seeded workload: chat, agent, documents, or a mix of them.

    Equal options give equal bytes on every platform.
    """
    if block_size is not None and trace_format != MOONCAKE:
        raise click.UsageError(f"--block-size is for --format {MOONCAKE}; token ids are not cut into blocks")
    requests = generate(kind, num_requests, seed=seed, block_size=DEFAULT_TOKEN_BLOCK_SIZE)
    try:
        with open_trace_for_writing("-" if output == "-" else Path(output)) as file:
            write_trace(requests, file, trace_format, block_size=block_size or MOONCAKE_BLOCK_SIZE)
    except OSError as error:
        if error.filename is None and output != "-":
            error.filename = output
        raise


def _pool_sizes(blocks: str | None, memory: str | None, bytes_per_block: str | None) -> list[int]:
    if (blocks is None) == (memory is None):
        raise click.UsageError(
            "give the size of the pool: either --blocks or --memory with --bytes-per-block"
        )
    if (memory is None) != (bytes_per_block is None):
        raise click.UsageError("--memory and --bytes-per-block go together")
    if blocks is not None:
        return parse_block_counts(blocks)
    return blocks_for_memory(memory or "", bytes_per_block or "")


def _run(trace: str, sizes: list[int], settings: ReplaySettings, jobs: int | None) -> list[ReplayResult]:
    with progress_bar() as bar:
        if len(sizes) > 1:
            task = bar.add_task(f"{len(sizes)} pools", total=len(sizes))
            return replay_many(
                trace, sizes, settings, jobs=jobs, finished=lambda done: bar.update(task, completed=done)
            )
        show = show_fraction(bar, bar.add_task("replaying", total=None))
        return [replay(trace, sizes[0], settings, progress=None if bar.disable else show)]

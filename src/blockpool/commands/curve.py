"""`blockpool curve`: the hits at every size, in one pass."""

from __future__ import annotations

import csv
import sys
from typing import TYPE_CHECKING, Any

import click

import blockpool
from blockpool.commands.html_report import html_option, html_report
from blockpool.commands.options import (
    check_hash_is_used,
    check_hash_was_used,
    playing_options,
    pool_sizes,
    trace_argument,
)
from blockpool.commands.output import print_json, table_console
from blockpool.commands.progress import fraction_task, progress_bar
from blockpool.commands.usage import as_usage, refuse_if_given
from blockpool.replay import CurveStudy, ReplaySettings, study, study_as_dict
from blockpool.replay.curves.curve_report import csv_rows
from blockpool.replay.curves.curve_study import MAX_VERIFIED
from blockpool.replay.curves.policy_points import parse_policies
from blockpool.replay.curves.policy_table import LRU, POLICIES
from blockpool.replay.settings import DEFAULT_HASH
from blockpool.replay.sizes import parse_sampling

if TYPE_CHECKING:
    from blockpool.replay.html.page import Page


@click.command("curve", short_help="Hits at every size, in one pass.")
@trace_argument
@click.option("--blocks", metavar="N[,N...]", help="Sizes that shall be in the table, too; 10k and 1M work.")
@playing_options
@click.option(
    "--policies",
    metavar="NAME[,NAME...]",
    help=f"Compare with other policies: {', '.join(POLICIES)}.  [default: {LRU}; all of them for --html]",
)
@click.option(
    "--verify",
    type=click.IntRange(0, MAX_VERIFIED),
    default=0,
    metavar="N",
    help="Replay N random sizes through the real pool and compare.",
)
@click.option(
    "--sample", metavar="1/R", help="Look at one of R blocks only, and show the error; R is 2 or more."
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**32 - 1),
    default=0,
    show_default=True,
    help="Of the sample and of the random sizes.",
)
@click.option("--csv", "as_csv", is_flag=True, help="Print every step of the curve as CSV.")
@html_option
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
    sort: bool,
    jobs: int | None,
    as_json: bool,
    policies: str | None,
    verify: int,
    sample: str | None,
    seed: int,
    as_csv: bool,
    html: str | None,
) -> None:
    """Tell the hits at every size of the pool, exactly and in one pass.

    TRACE as for `blockpool replay`.
    """
    if as_json and as_csv:
        raise click.UsageError("either --json or --csv")
    sizes = as_usage(
        lambda: (
            [] if blocks is memory is bytes_per_block is None else pool_sizes(blocks, memory, bytes_per_block)
        )
    )
    _refuse_options_without_effect(
        replays=bool(verify or sizes),
        random=bool(verify or sample is not None),
        only_curve=as_csv and html is None,
    )
    if policies is None:
        policies = LRU if html is None or sample is not None else ",".join(POLICIES)
    names = as_usage(lambda: parse_policies(policies))
    one_in = as_usage(lambda: 1 if sample is None else parse_sampling(sample))
    settings = as_usage(
        lambda: ReplaySettings(
            rules=rules,
            window=window,
            reuse_uncached_first=reuse_uncached_first,
            skip_bad=skip_bad,
            sort=sort,
            block_size=block_size,
            hash_algorithm=hash_algorithm or DEFAULT_HASH,
        )
    )
    check_hash_is_used(trace, hash_algorithm, block_size=block_size, skip_bad=skip_bad)
    with html_report(html, trace) as write:
        found = as_usage(
            lambda: _study(
                trace,
                settings,
                blocks=sizes,
                policies=names,
                verify=verify,
                one_in=one_in,
                seed=seed,
                jobs=jobs,
            )
        )
        check_hash_was_used(hash_algorithm, found.curve.trace_format)

        def page() -> Page:
            from blockpool.replay.html.curve_page import curve_page

            return curve_page(found)

        write(page)
    _tell(found, as_json=as_json, as_csv=as_csv)


def _study(trace: str, settings: ReplaySettings, *, verify: int, **asked: Any) -> CurveStudy:
    """The curve, with a progress bar for the pass and for what is verified."""
    with progress_bar() as bar:
        reading = fraction_task(bar, "reading")
        verifying = bar.add_task("verifying", total=verify, visible=bool(verify))
        return study(
            trace,
            settings,
            verify=verify,
            progress=reading,
            finished=lambda done: bar.update(verifying, completed=done),
            **asked,
        )


def _tell(found: CurveStudy, *, as_json: bool, as_csv: bool) -> None:
    if as_json:
        report = study_as_dict(found, version=blockpool.__version__, compiled=blockpool.COMPILED)
        print_json(report, indent=None)
    elif as_csv:
        csv.writer(sys.stdout, lineterminator="\n").writerows(csv_rows(found))
    else:
        from blockpool.replay.curves.curve_tables import print_study

        print_study(table_console(), found)


def _refuse_options_without_effect(*, replays: bool, random: bool, only_curve: bool) -> None:
    if not replays:
        refuse_if_given("jobs", "is for sizes that are replayed: with --verify, --blocks or --memory")
    if not random:
        refuse_if_given("seed", "is for --sample and --verify")
    if only_curve:
        for parameter in ("blocks", "memory", "policies"):
            refuse_if_given(parameter, "is for the table and --json; --csv is the whole curve of lru")

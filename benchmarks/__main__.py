"""``python -m benchmarks``: measure this build against vLLM 0.16.0 and print a table."""

from __future__ import annotations

import argparse
import dataclasses
import importlib.metadata
import json
import platform
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

import blockpool
from benchmarks import peer as peer_module
from benchmarks.measure import FULL, QUICK, Row, processor
from benchmarks.suite import PARTS, run

WIDTH = 132


def environment(build: str) -> dict[str, str]:
    """What the numbers depend on."""

    def version(name: str) -> str:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            return "none"

    return {
        "build": build,
        "blockpool": blockpool.__version__,
        "vllm": peer_module.VERSION,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": f"{platform.system()} {platform.machine()}",
        "processor": processor(),
        **{name: version(name) for name in ("librt", "msgspec", "cbor2", "xxhash")},
    }


def bound_text(row: Row) -> str:
    """The bound in words."""
    if row.at_least is not None:
        return f"≥ {row.at_least:g}x"
    return f"≤ {row.at_most:g}" if row.at_most is not None else ""


def table_of(rows: list[Row], about: dict[str, str], quick: bool) -> Table:
    """The report as a person reads it."""
    title = f"blockpool {about['blockpool']}, {about['build']} build, against vLLM {about['vllm']}"
    table = Table(title=title + (" (quick: too small to mean anything)" if quick else ""))
    table.add_column("what", overflow="fold")
    for heading in ("ours", "theirs"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("against", overflow="fold")
    for heading in ("ratio", "bound"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for row in rows:
        verdict = {True: "ok", False: "MISSED", None: ""}[row.passed]
        times = "x" if row.at_most is None else ""
        table.add_row(
            row.what,
            f"{row.ours:,.2f} {row.unit}",
            f"{row.theirs:,.2f} {row.unit}",
            row.against,
            f"{row.ratio:.2f}{times}",
            bound_text(row),
            verdict,
        )
    table.caption = "; ".join(f"{name} {value}" for name, value in about.items() if name != "build")
    return table


def main(arguments: list[str] | None = None) -> int:
    """0 when every bound holds (or none was asked for), 1 otherwise."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"which of {', '.join(PARTS)}; all")
    parser.add_argument("--quick", action="store_true", help="small sizes, no bounds: does it run?")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the table there as well")
    options = parser.parse_args(arguments)
    unknown = set(options.parts) - set(PARTS)
    if unknown:
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    try:
        peer = peer_module.load()
    except peer_module.PeerUnavailable as error:
        print(error, file=sys.stderr)
        return 1

    build = "compiled" if blockpool.COMPILED else "interpreted"
    about = environment(build)
    rows: list[Row] = []
    for row in run(peer, QUICK if options.quick else FULL, build, options.parts or PARTS):
        rows.append(row)
        if sys.stderr.isatty():  # no spinner: its thread would disturb what is measured
            print(f"measured: {row.what}", file=sys.stderr)
    if options.json:
        listed = [{**dataclasses.asdict(row), "passed": row.passed} for row in rows]
        print(json.dumps({**about, "quick": options.quick, "rows": listed}, indent=2))
    else:
        Console(width=None if sys.stdout.isatty() else WIDTH).print(table_of(rows, about, options.quick))
    if options.output is not None:
        with options.output.open("w", encoding="utf-8") as file:
            Console(file=file, width=WIDTH).print(table_of(rows, about, options.quick))
    return 0 if options.quick or all(row.passed is not False for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())

"""The bundled trace: a generated mix, so that the first replay needs no download.

Made by `blockpool generate mix --requests 1000 --seed 1 --format mooncake --block-size 16 -o demo.jsonl.gz`;
a test makes it again and compares.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from blockpool.trace.generator import generate
from blockpool.trace.request import TraceRequest

DEMO_NAME = "demo"
DEMO_TRACE = Path(__file__).parent / "data" / "demo.jsonl.gz"
DEMO_BLOCK_SIZE = 16

_KIND = "mix"
_NUM_REQUESTS = 1000
_SEED = 1


def demo_requests() -> Iterator[TraceRequest]:
    """The requests of the bundled trace, with the tokens that the file has only as ids."""
    return generate(_KIND, _NUM_REQUESTS, seed=_SEED, block_size=DEMO_BLOCK_SIZE)

"""Every example runs as it stands and prints what it promises."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"

if not EXAMPLES.is_dir():
    pytest.skip("no examples here: the tests run without the checkout", allow_module_level=True)

PRINTED = {
    "prefix_cache.py": (
        "second: 7 blocks, 4 of them found: Occupancy(in_use=10, cached_idle=0, blank=2)",
        "BlockStored: ",
        "BlockRemoved: ",
        "8 blocks were evicted",
    ),
    "tiny_engine.py": (
        "full attention: 552 tokens computed with caching (2 preemptions), 2,102 without",
        "full + sliding window: 1,061 tokens computed with caching (7 preemptions), 2,465 without",
        "All outputs and logits are the same, bit for bit.",
    ),
}
# What an example imports beside blockpool.
NEEDED = {"tiny_engine.py": "numpy"}


def test_every_example_is_run() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(PRINTED)


@pytest.mark.parametrize("name", PRINTED)
def test_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    if name in NEEDED:
        pytest.importorskip(NEEDED[name], reason=f"{NEEDED[name]} is not installed")
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    printed = capsys.readouterr()
    assert printed.err == ""
    for words in PRINTED[name]:
        assert words in printed.out

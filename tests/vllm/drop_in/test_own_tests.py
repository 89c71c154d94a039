"""Tests of vLLM's own, with our classes in the place of its own: what passes without us passes with us."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import tarfile
from pathlib import Path
from typing import Any

import pytest

from .conftest import HALF_AN_HOUR, Run

pytestmark = [pytest.mark.peer, pytest.mark.timeout(HALF_AN_HOUR)]

CORE = "tests/v1/core"
POOL_TESTS = (
    "test_prefix_caching.py",
    "test_kv_cache_utils.py",
    "test_kv_cache_metrics.py",
    "test_single_type_kv_cache_manager.py",
)
SCHEDULER_TESTS = ("test_scheduler.py", "test_async_scheduler.py", "test_priority_scheduler_random.py")
MORE = {
    "0.32.0": (
        "test_deferred_block_free.py",
        "test_prefix_replay.py",
        "test_priority_preemption_bug.py",
        "test_swa_inflight_window_free.py",
    )
}
# So many pass with vLLM's own classes, at least; those of the scheduler want a model that is not here for the rest.
PASSING = {"0.16.0": 114 + 67, "0.32.0": 396}

FOREIGN = "BlockStateError: block .*: expected a block of this pool, but it is not one of its blocks"
DIFFERENCES: dict[str, dict[str, str]] = {
    "0.16.0": {
        # Blocks that the test made itself, and that no pool has: ours refuses them, before anything is changed.
        "test_prefix_caching.py::test_cache_blocks[sha256]": FOREIGN,
        "test_prefix_caching.py::test_cache_blocks[sha256_cbor]": FOREIGN,
        "test_prefix_caching.py::test_cache_blocks_multi_group": FOREIGN,
        # The same, given back: nobody holds them, either.
        "test_single_type_kv_cache_manager.py::test_chunked_local_attention_remove_skipped_blocks": FOREIGN,
        "test_single_type_kv_cache_manager.py::test_sliding_window_remove_skipped_blocks": FOREIGN,
        # Ours is a ValueError as well, but says how many were wanted and how many are there.
        "test_kv_cache_utils.py::test_free_kv_cache_block_queue_operations": "1 blocks wanted, 0 free",
    },
    "0.32.0": {},
}
"""What differs, by the documented differences of docs/vllm.md alone, and how it shows."""


def outcomes(
    run: Run, folder: Path, files: tuple[str, ...], results: Path, switch: str
) -> dict[str, list[str]]:
    """Test by name: what came out of it, and the last words of a failure."""
    plugin = str(Path(__file__).parent)
    options = ["-q", "-p", "outcomes", "-p", "no:cacheprovider", f"--confcutdir={CORE}"]
    paths = [f"{CORE}/{name}" for name in files]
    # Failures are what is looked for: only what is neither a pass nor a failed test is an error here.
    program = f"import sys, pytest; sys.exit(pytest.main({options + paths!r}) not in (0, 1))"
    run(
        "-c",
        program,
        cwd=folder,
        PYTHONPATH=f"{plugin}{os.pathsep}{folder}",
        BLOCKPOOL_OUTCOMES=str(results),
        **({"BLOCKPOOL_VLLM": switch} if switch else {}),
    )
    found: dict[str, list[str]] = json.loads(results.read_text(encoding="utf-8"))
    return {name.removeprefix(f"{CORE}/"): outcome for name, outcome in found.items()}


@pytest.fixture(scope="module")
def folder(version: str) -> Path:
    """Where vLLM's tests are."""
    place = os.environ.get("BLOCKPOOL_VLLM_TESTS", "")
    if not place or not Path(place, CORE).is_dir():
        pytest.skip("BLOCKPOOL_VLLM_TESTS does not name a folder with vLLM's own tests: make test-vllm")
    return Path(place).resolve()


def test_only_the_documented_differences(run: Run, version: str, folder: Path, tmp_path: Path) -> None:
    files = (*POOL_TESTS, *SCHEDULER_TESTS, *MORE.get(version, ()))
    theirs = outcomes(run, folder, files, tmp_path / "theirs.json", "")
    ours = outcomes(run, folder, files, tmp_path / "ours.json", "1")
    passing = {name for name, (outcome, _) in theirs.items() if outcome == "passed"}
    assert len(passing) >= PASSING[version]
    assert ours.keys() == theirs.keys()
    different: dict[str, Any] = {name: ours[name] for name in passing if ours[name][0] != "passed"}
    expected = DIFFERENCES[version]
    assert different.keys() == expected.keys()
    for name, (_, words) in different.items():
        assert re.search(expected[name], words), (name, words)


SOURCES = (
    "distributed/kv_events.py",
    "multimodal/utils.py",
    "utils/hashing.py",
    "v1/core/block_pool.py",
    "v1/core/kv_cache_metrics.py",
    "v1/core/kv_cache_utils.py",
    "v1/core/single_type_kv_cache_manager.py",
    "v1/metrics/stats.py",
)


def test_the_cpu_package_has_the_sources_of_vllm_itself(folder: Path, version: str) -> None:
    """What is tested here on a CPU is what a fleet with accelerators has installed."""
    spec = importlib.util.find_spec("vllm")
    assert spec is not None
    assert spec.origin is not None
    installed = Path(spec.origin).parent
    same = []
    with tarfile.open(folder / f"vllm-{version}.tar.gz") as packed:
        for name in SOURCES:
            content = packed.extractfile(f"vllm-{version}/vllm/{name}")
            assert content is not None
            same.append(content.read() == (installed / name).read_bytes())
    assert same == [True] * len(SOURCES)

"""The plugin in the vLLM that is here: off unless asked for, found by its entry point, and back out when it must."""

from __future__ import annotations

import textwrap

import pytest

from .conftest import Run

pytestmark = pytest.mark.peer

LOAD = """
import logging, sys
from vllm.plugins import load_general_plugins
from vllm.v1.core import block_pool, kv_cache_coordinator, kv_cache_utils
logging.getLogger("vllm.blockpool").addHandler(logging.StreamHandler(sys.stdout))  # vLLM's set-up drops earlier ones
{before}
load_general_plugins()
for module in (block_pool, kv_cache_coordinator):
    print("IS", module.BlockPool.__module__)
print("HASHER", kv_cache_utils.get_request_block_hasher.__module__)
"""


def load(run: Run, before: str = "", **environment: str) -> list[str]:
    """What vLLM is told and has after it has loaded its plugins."""
    program = LOAD.format(before=textwrap.dedent(before))
    lines = run("-c", program, **environment).splitlines()
    return [line for line in lines if line.startswith(("IS", "HASHER", "blockpool"))]


OWN = ["IS vllm.v1.core.block_pool"] * 2 + ["HASHER vllm.v1.core.kv_cache_utils"]


def test_off_unless_asked_for(run: Run) -> None:
    assert load(run) == OWN
    assert load(run, BLOCKPOOL_VLLM="0") == OWN


def test_one_line_says_what_was_replaced(run: Run, version: str) -> None:
    told, *names = load(run, BLOCKPOOL_VLLM="1")
    assert told.startswith("blockpool (")
    assert f"in vLLM {version}" in told
    assert "BlockPool" in told
    assert "get_request_block_hasher" in told
    assert all("blockpool.integrations.vllm" in name for name in names)
    assert len(names) == 3


def test_it_can_be_told_to_say_less(run: Run) -> None:
    names = load(run, BLOCKPOOL_VLLM="1", VLLM_LOGGING_LEVEL="WARNING")
    assert len(names) == 3
    assert all("blockpool.integrations.vllm" in name for name in names)


def test_check_says_so(run: Run) -> None:
    told, *names = load(run, BLOCKPOOL_VLLM="check")
    assert "comparing every result" in told
    assert all("blockpool.integrations.vllm" in name for name in names)


@pytest.mark.parametrize(
    ("before", "reason"),
    [
        ("import vllm.version; vllm.version.__version__ = '0.17.0'", "its version is 0.17.0"),
        ("import vllm.version; vllm.version.__version__ = 'dev'", "its version is dev"),
        ("block_pool.BlockPool = type('Mine', (), {})", "BlockPool is not vLLM's own any more, but of"),
        ("del kv_cache_utils.hash_block_tokens", "it has no hash_block_tokens"),
    ],
)
def test_anything_unexpected_leaves_vllm_as_it_is(run: Run, before: str, reason: str) -> None:
    told, *names = load(run, before, BLOCKPOOL_VLLM="1")
    assert told.startswith("blockpool: vLLM is left as it is: ")
    assert reason in told
    assert not any("blockpool.integrations.vllm" in name for name in names)

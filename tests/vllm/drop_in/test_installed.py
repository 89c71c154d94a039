"""The plugin in the vLLM that is here: off unless asked for, found by its entry point, and back out when it must."""

from __future__ import annotations

import textwrap
from pathlib import Path

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
{after}
"""


def load(run: Run, before: str = "", after: str = "", **environment: str) -> list[str]:
    """What vLLM is told and has after it has loaded its plugins."""
    program = LOAD.format(before=textwrap.dedent(before), after=textwrap.dedent(after))
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


MIRRORED = """
    from blockpool.integrations.vllm.checked_pool import MIRRORED
    own = block_pool.BlockPool.__base__
    public = {name for name, value in vars(own).items() if callable(value) and not name.startswith("_")}
    print("IS", own.__module__, *sorted(public - set(MIRRORED)))
"""


def test_check_runs_all_methods_of_the_pool_in_step(run: Run) -> None:
    *_, left_out = load(run, after=MIRRORED, BLOCKPOOL_VLLM="check")
    assert left_out == "IS vllm.v1.core.block_pool get_num_free_blocks"


def test_check_says_so(run: Run) -> None:
    told, *names = load(run, BLOCKPOOL_VLLM="check")
    assert "comparing every result" in told
    assert all("blockpool.integrations.vllm" in name for name in names)


def test_a_word_without_meaning_changes_nothing(run: Run) -> None:
    told, *names = load(run, BLOCKPOOL_VLLM="2")
    assert told == "blockpool: BLOCKPOOL_VLLM=2 means nothing; vLLM is left as it is (1, check or 0)"
    assert names == OWN


AGAIN = """
    import os, vllm.plugins
    from blockpool.integrations.vllm import register
    ours = block_pool.BlockPool
    for switch in ("1", "check"):
        os.environ["BLOCKPOOL_VLLM"] = switch
        vllm.plugins.plugins_loaded = False
        load_general_plugins()
        register()
    print("IS", block_pool.BlockPool is ours)
"""


def test_loaded_again_it_does_nothing_more(run: Run) -> None:
    told, *names, same = load(run, after=AGAIN, BLOCKPOOL_VLLM="1")
    assert told.startswith("blockpool (")
    assert len(names) == 3
    assert same == "IS True"


SPAWNED = """
import multiprocessing


def child(queue):
    from vllm.plugins import load_general_plugins
    load_general_plugins()
    from vllm.v1.core import kv_cache_coordinator, kv_cache_utils
    queue.put([kv_cache_coordinator.BlockPool.__module__, kv_cache_utils.get_request_block_hasher.__module__])


if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=child, args=(queue,))
    process.start()
    print("IS", *queue.get(timeout=250))
    process.join()
"""


def test_it_is_in_processes_that_vllm_spawns(run: Run, tmp_path: Path) -> None:
    """An engine core is one: a new interpreter, which knows of the parent's no more than the environment."""
    (tmp_path / "spawned.py").write_text(SPAWNED, encoding="utf-8")
    printed = run(str(tmp_path / "spawned.py"), BLOCKPOOL_VLLM="1")
    [names] = [line for line in printed.splitlines() if line.startswith("IS ")]
    assert names.count("blockpool.integrations.vllm.") == 2


WRAPPED = """
    from functools import wraps
    from vllm.v1.core.single_type_kv_cache_manager import FullAttentionManager as manager
    own = manager.find_longest_cache_hit.__func__
    manager.find_longest_cache_hit = classmethod(wraps(own)(lambda *given, **named: own(*given, **named)))
"""

HALF_WAY = """
    from blockpool.integrations.vllm.replacement import Replacements
    put = Replacements._put
    def fail_at_the_third(self, owner, name, old, new):
        if len(self._done) == 2:
            raise OSError("no more")
        put(self, owner, name, old, new)
    Replacements._put = fail_at_the_third
"""


@pytest.mark.parametrize(
    ("before", "reason"),
    [
        ("import vllm.version; vllm.version.__version__ = '0.17.0'", "its version is 0.17.0"),
        ("import vllm.version; vllm.version.__version__ = 'dev'", "its version is dev"),
        ("block_pool.BlockPool = type('Mine', (), {})", "BlockPool is not vLLM's own any more, but of"),
        ("del kv_cache_utils.hash_block_tokens", "it has no hash_block_tokens"),
        (
            "block_pool.BlockPool.touch = lambda self, blocks: None",
            "BlockPool.touch is not vLLM's own any more",
        ),
        (
            "from unittest import mock; block_pool.BlockPool.touch = mock.MagicMock()",
            "BlockPool.touch is not vLLM's own any more, but of unittest.mock",
        ),
        (
            "pool = block_pool.BlockPool; import functools; pool.touch = functools.partialmethod(pool.touch)",
            "BlockPool.touch is not vLLM's own any more, but of functools",
        ),
        (
            "kv_cache_utils.KVCacheBlock.block_hash = property(lambda self: None)",
            "KVCacheBlock.block_hash is not vLLM's own any more, but of __main__",
        ),
        (
            "block_pool.BlockPool.touch = block_pool.BlockPool.free_blocks",
            "BlockPool.touch is not vLLM's own any more, but BlockPool.free_blocks",
        ),
        (
            "kv_cache_utils._gen_lora_extra_hash_keys = lambda request: ['tenant']",
            "_gen_lora_extra_hash_keys is not vLLM's own any more",
        ),
        (WRAPPED, "FullAttentionManager.find_longest_cache_hit is not vLLM's own any more, but of __main__"),
        (HALF_WAY, "replacing its parts failed"),
    ],
)
def test_anything_unexpected_leaves_vllm_as_it_is(run: Run, before: str, reason: str) -> None:
    told, *names = load(run, before, BLOCKPOOL_VLLM="1")
    assert told.startswith("blockpool: vLLM is left as it is: ")
    assert reason in told
    assert not any("blockpool.integrations.vllm" in name for name in names)

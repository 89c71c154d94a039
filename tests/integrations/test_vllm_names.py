"""Names, kinds, labels and buckets are those in vLLM's own source, when the peer package is there."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from benchmarks.peer import Peer
from blockpool.integrations.bucket_counts import RESIDENCY_BUCKETS
from blockpool.integrations.metric_families import VLLM_FAMILIES
from blockpool.integrations.prometheus import DEFAULT_LABEL_NAMES

pytestmark = pytest.mark.peer

KINDS = {"_gauge_cls": "gauge", "_counter_cls": "counter", "_histogram_cls": "histogram"}


class Source:
    """What `vllm/v1/metrics/loggers.py` makes: read, not imported, as that would need PyTorch."""

    def __init__(self, path: Path) -> None:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        self.lists: dict[str, Any] = {}
        self.made: dict[str, tuple[str, dict[str, ast.expr]]] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                try:
                    self.lists[node.targets[0].id] = ast.literal_eval(node.value)
                except ValueError:
                    continue
            elif (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in KINDS
            ):
                given = {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
                if isinstance(given["name"], ast.Constant):
                    self.made[given["name"].value] = (KINDS[node.func.attr], given)


@pytest.fixture(scope="module")
def source(peer: Peer) -> Source:
    return Source(Path(peer.location) / "v1" / "metrics" / "loggers.py")


@pytest.mark.parametrize("family", VLLM_FAMILIES, ids=lambda family: family.name)
def test_a_family(source: Source, family: Any) -> None:
    kind, given = source.made["vllm:" + family.name]
    assert family.kind == kind
    assert isinstance(given["labelnames"], ast.Name)
    assert tuple(source.lists[given["labelnames"].id]) == DEFAULT_LABEL_NAMES
    if kind == "histogram":
        assert isinstance(given["buckets"], ast.Name)
        assert tuple(source.lists[given["buckets"].id]) == RESIDENCY_BUCKETS


def test_no_name_of_the_cache_is_left_out(source: Source) -> None:
    """Of what vLLM shows of blocks and prefix cache; what its connectors and encoders cache is not in a pool."""
    theirs = {
        name.removeprefix("vllm:")
        for name in source.made
        if name.startswith(("vllm:kv_cache_", "vllm:kv_block_", "vllm:prefix_cache_"))
    }
    assert theirs == {family.name for family in VLLM_FAMILIES}

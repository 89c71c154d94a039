"""What goes wrong late, or with the manager itself: no block is left behind, and no second manager comes to be."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from blockpool import ArgumentError
from blockpool.core.metrics import KVCacheMetricsCollector

from .support import admit, assert_all_given_back, full, make_manager, make_request, window


class FailingHashes(Sequence[bytes]):
    """Hashes that can be read so often."""

    def __init__(self, hashes: list[bytes], num_reads: int) -> None:
        self.hashes = hashes
        self.num_reads = num_reads

    def __len__(self) -> int:
        return len(self.hashes)

    def __getitem__(self, at: Any) -> Any:
        self.num_reads -= 1
        if self.num_reads < 0:
            raise RuntimeError("no longer there")
        return self.hashes[at]


@pytest.mark.parametrize("num_reads", range(9))
def test_a_new_request_whose_hashes_fail_leaves_no_blocks(num_reads: int) -> None:
    manager = make_manager(full(4), window(8, 9), num_blocks=20, hash_block_size=4)
    request = make_request("a", range(16), manager)
    hashes = request.block_hashes
    request.block_hashes = FailingHashes(hashes, num_reads)  # type: ignore[assignment]
    try:
        manager.allocate_slots(request, 16)
    except RuntimeError:
        assert_all_given_back(manager)
    else:
        manager.free(request)
    request.block_hashes = hashes
    assert admit(manager, request) is not None
    manager.free(request)
    assert_all_given_back(manager)


@pytest.mark.parametrize("make_another", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_manager_cannot_be_copied(make_another: Callable[[object], object]) -> None:
    with pytest.raises(ArgumentError) as caught:
        make_another(make_manager(full(4)))
    assert "cannot be copied" in str(caught.value)


def test_the_collector_is_at_hand() -> None:
    collector = KVCacheMetricsCollector()
    assert make_manager(full(4), metrics_collector=collector).metrics_collector is collector
    assert make_manager(full(4)).metrics_collector is None

"""`Comparison` of the drop-in's check mode: needs no vLLM."""

import logging

import pytest

from blockpool.integrations.vllm.comparison import Comparison


def test_it_says_now_and_then_that_it_compares(caplog: pytest.LogCaptureFixture) -> None:
    comparison = Comparison("the block pool")
    with caplog.at_level(logging.INFO, "vllm.blockpool"):
        for number in range(1200):
            if number % 2:
                comparison.compare("touch", number, number)
            else:
                comparison.expect_error("touch", ValueError("theirs"), lambda: int("ours"))
    assert [record.getMessage() for record in caplog.records] == [
        "blockpool: 100 results of the block pool compared, all equal",
        "blockpool: 1000 results of the block pool compared, all equal",
    ]


def test_it_ends_at_the_first_mismatch(caplog: pytest.LogCaptureFixture) -> None:
    comparison = Comparison("the block pool")
    with caplog.at_level(logging.INFO, "vllm.blockpool"):
        comparison.compare("touch", 1, 1)
        comparison.compare("touch", 1, 2)
        comparison.compare("free_blocks", 1, 3)
        for number in range(200):
            comparison.compare("touch", number, number)
    (record,) = caplog.records
    assert (
        "MISMATCH in the block pool after 1 equal results: touch: vLLM has 1, blockpool has 2"
        in record.getMessage()
    )
    assert not comparison.running
    assert comparison.num_compared == 1

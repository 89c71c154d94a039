"""What `make test` shows once, on the interpreted build: tests of code that no build compiles, and of pages.

Whatever tests the pool, the managers, the replays and the passes of `blockpool curve` runs on both builds. Behind what
is listed here the compiled code only does what those have shown. Tests of it that are marked `both_builds` run on both
all the same: a report of each kind, written by its command and drawn in the browser.
"""

from __future__ import annotations

from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
# Files and folders in tests/.
ONCE = (
    "commands",
    "integrations/test_bucket_counts.py",
    "integrations/test_grafana.py",
    "integrations/test_metrics_doc.py",
    "integrations/test_prometheus_bad_input.py",
    "integrations/test_prometheus_server.py",
    "replay/attention/test_grammar.py",
    "replay/html",
    "replay/misses/test_key_scopes.py",
    "replay/misses/test_miss_model.py",
    "replay/misses/test_reasons.py",
    "replay/plans/test_model_config.py",
    "replay/plans/test_model_memory.py",
    "replay/plans/test_routing.py",
    "replay/test_arguments.py",
    "replay/test_block_map.py",
    "replay/test_histogram.py",
    "replay/test_sizes.py",
    "replay/test_whole_tables.py",
    "replay/timed/test_block_layout.py",
    "replay/timed/test_time_weighted.py",
    "replay/timed/test_timed_block_map.py",
    "replay/timed/test_timed_misses.py",
    "replay/timed/test_timed_settings.py",
    "test_cli_html.py",
    "test_cli_order.py",
    "test_documents.py",
    "test_layers.py",
    "test_report_browser.py",
    "trace",
)
_PLACES = tuple(TESTS / name for name in ONCE)


def runs_once(item: pytest.Item) -> bool:
    """Whether the second build leaves this test out."""
    if item.get_closest_marker("both_builds") is not None:
        return False
    return any(place == item.path or place in item.path.parents for place in _PLACES)


def leave_out(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Take those tests out of the collected ones."""
    left_out = [item for item in items if runs_once(item)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not runs_once(item)]

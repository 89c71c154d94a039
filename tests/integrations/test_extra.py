"""Without the extra the collector says what to install; snapshots need none."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys

sys.modules["prometheus_client"] = sys.modules["zmq"] = sys.modules["msgspec"] = None
import blockpool
from blockpool.integrations.pool_metrics import PoolMetrics

print(PoolMetrics(blockpool.BlockPool(5, True, 4)).snapshot.occupancy.blank)
try:
    import blockpool.integrations.prometheus
except blockpool.MissingExtraError as error:
    print(error.extra, error)
"""


def test_a_missing_package_is_named_by_its_extra() -> None:
    finished = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    lines = finished.stdout.splitlines()
    assert lines[0] == "4"
    assert lines[1].startswith("prometheus blockpool.integrations.prometheus needs")
    assert ".[prometheus]" in lines[1]

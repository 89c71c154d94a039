"""Without the extra the layer says what to install, and the rest of the package does not need it."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys

sys.modules[{module!r}] = None
import blockpool

try:
    import blockpool.events
except blockpool.MissingExtraError as error:
    print(error.extra, error)
"""


@pytest.mark.parametrize("module", ["zmq", "msgspec"])
def test_a_missing_package_is_named_by_its_extra(module: str) -> None:
    program = PROGRAM.format(module=module)
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert finished.stdout.startswith("events blockpool.events needs")
    assert ".[events]" in finished.stdout

"""`register`: what vLLM calls at its start. It replaces everything that fits the installed version, or nothing."""

from __future__ import annotations

import importlib
import logging
import os
import re
from typing import Final

from blockpool.core.build import COMPILED
from blockpool.integrations.vllm.replacement import Incompatible, Replacements

logger = logging.getLogger("vllm.blockpool")
"""Below vLLM's own logger, so that its handlers show it."""

SWITCH: Final = "BLOCKPOOL_VLLM"
OFF: Final = frozenset({"", "0", "off", "false", "no"})
ON: Final = frozenset({"1", "on", "true", "yes"})
CHECK: Final = "check"

LINES: Final = {(0, 16): "line_0_16", (0, 32): "line_0_32"}
"""The module for each supported line of vLLM, by the first two numbers of its version.

Each has `is_replaced` and `prepare`; see `line_0_32`.
"""


def register() -> None:
    """Replaces vLLM's parts if the environment asks for it. Says in one log line what was done, or why nothing was.

    It never raises: whatever goes wrong, vLLM is left as it was. A second call does nothing more.
    """
    wanted = os.environ.get(SWITCH, "").strip().lower()
    if wanted in OFF:
        return
    if wanted not in ON and wanted != CHECK:
        logger.warning(
            "blockpool: %s=%s means nothing; vLLM is left as it is (1, check or 0)", SWITCH, wanted
        )
        return
    replacements = Replacements()
    try:
        version = installed_version()
        _replace(replacements, version, wanted == CHECK)
    except Incompatible as reason:
        replacements.undo()
        logger.warning("blockpool: vLLM is left as it is: %s", reason)
    except Exception:
        replacements.undo()
        logger.warning("blockpool: vLLM is left as it is: replacing its parts failed", exc_info=True)


def installed_version() -> str:
    """The version that vLLM says it has."""
    version = importlib.import_module("vllm.version").__version__
    if not isinstance(version, str):
        raise Incompatible("it does not say its version")
    return version


def line_of(version: str) -> str:
    """The module for a version of vLLM.

    Raises:
        Incompatible: If that version is not among the tested ones.
    """
    numbers = re.match(r"(\d+)\.(\d+)(?:\.\d+)*(?:\.?post\d+)?(?:\+[\w.]+)?$", version)
    module = LINES.get((int(numbers[1]), int(numbers[2]))) if numbers else None
    if module is None:
        tested = " and ".join(f"{major}.{minor}.x" for major, minor in LINES)
        raise Incompatible(f"its version is {version}, and {tested} are supported")
    return module


def _replace(replacements: Replacements, version: str, check: bool) -> None:
    line = importlib.import_module(f"blockpool.integrations.vllm.{line_of(version)}")
    if line.is_replaced():
        return
    line.prepare(replacements, check)
    replacements.apply()
    logger.log(
        _level(),
        "blockpool (%s) in vLLM %s%s: replaced %s",
        "compiled" if COMPILED else "interpreted",
        version,
        ", comparing every result with vLLM's own pool (slow)" if check else "",
        ", ".join(replacements.names()),
    )


def _level() -> int:
    """At which the good news is told. vLLM 0.32 sets its logging up after it has loaded its plugins.

    Until then nothing below a warning is shown, so that is what it has to be, unless the environment wants less said.
    """
    if logging.getLogger("vllm").handlers:
        return logging.INFO
    wanted = os.environ.get("VLLM_LOGGING_LEVEL", "INFO").upper()
    return logging.WARNING if wanted in ("INFO", "DEBUG") else logging.INFO

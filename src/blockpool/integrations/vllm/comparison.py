"""`Comparison`: where results of vLLM's own code and of ours meet, for `BLOCKPOOL_VLLM=check`."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

logger = logging.getLogger("vllm.blockpool")

MAX_SHOWN = 2000
FIRST_TOLD = 100
"""After so many equal results, and then after ten times as many each time, the log says that they were compared."""


class Comparison:
    """Compares until something differs; tells that once, in full, and stops, for what follows would differ anyway.

    Attributes:
        num_compared: Results that were equal.
        mismatch: What differed, or None.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._next_told = FIRST_TOLD
        self.num_compared = 0
        self.mismatch: str | None = None

    @property
    def running(self) -> bool:
        """Whether nothing has differed yet."""
        return self.mismatch is None

    def compare(self, call: str, theirs: object, ours: object) -> None:
        """Compares two results of a call."""
        if not self.running:
            return
        if theirs == ours:
            self._agree()
        else:
            self.report(call, f"vLLM has {_short(theirs)}, blockpool has {_short(ours)}")

    def attempt(self, call: str, ours: Callable[[], Any]) -> Any:
        """Runs our side of a call; an exception is a mismatch, too, and the result then None."""
        try:
            return ours()
        except Exception as error:
            self.report(call, f"blockpool raises {type(error).__name__}: {error}")
            return None

    def expect_error(self, call: str, theirs: Exception, ours: Callable[[], Any]) -> None:
        """Runs our side of a call that vLLM's own refuses; ours must refuse it, too, for whatever reason it says."""
        try:
            given = ours()
        except Exception:
            self._agree()
            return
        self.report(call, f"vLLM raises {type(theirs).__name__}: {theirs}, blockpool has {_short(given)}")

    def _agree(self) -> None:
        self.num_compared += 1
        if self.num_compared == self._next_told:
            self._next_told *= 10
            logger.info("blockpool: %d results of %s compared, all equal", self.num_compared, self._what)

    def report(self, call: str, text: str) -> None:
        """Tells of a mismatch, if it is the first."""
        if not self.running:
            return
        self.mismatch = f"{call}: {text}"
        logger.error(
            "blockpool: MISMATCH in %s after %d equal results: %s. vLLM's own result is used, and comparing ends here."
            " Please report this line, docs/vllm.md says how.",
            self._what,
            self.num_compared,
            self.mismatch,
        )


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}... ({len(text)} characters)"

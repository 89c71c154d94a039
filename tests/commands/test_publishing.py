"""`blockpool replay --publish`: what it offers without its extra is what the extra has."""

from __future__ import annotations

import pytest

pytest.importorskip("click", reason="the extra cli is not installed")
pytest.importorskip("zmq", reason="the extra events is not installed")

from blockpool.commands import publishing
from blockpool.events.encoder import DIALECTS
from blockpool.events.fleet_settings import ROUTINGS


def test_the_choices_are_those_of_the_library() -> None:
    """The help lists them where the extra is missing, so they are written twice."""
    assert publishing._DIALECTS == DIALECTS
    assert publishing._ROUTINGS == ROUTINGS

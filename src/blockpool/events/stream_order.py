"""`StreamOrder`: the rules by which batches of one publisher are taken in order and exactly once."""

from __future__ import annotations

from enum import Enum
from typing import final

from blockpool.events.replay_protocol import NOTHING_YET


class Verdict(Enum):
    """What a live message is."""

    NEXT = "the one that was expected"
    KNOWN = "one that a replay or a snapshot has brought already"
    GAP = "one too far: something is missing before it"
    RESTART = "of a publisher that has begun to count anew"


@final
class StreamOrder:
    """Numbers of one publisher, as they were handed out and as they come in.

    Within one connection a publisher counts upwards, so a number that is not above the last live one means that another
    publisher has taken its place; one that is above it, but was handed out, came with a replay.

    Attributes:
        last: Number of the last batch that was handed out, or that a snapshot includes; -1 for none.
    """

    def __init__(self) -> None:
        self.last: int = NOTHING_YET
        self._last_live: int = NOTHING_YET
        self._synced_to: int = NOTHING_YET

    def judge(self, seq: int) -> Verdict:
        """What a message with that number is. Once for each message."""
        before = self._last_live
        self._last_live = seq
        return Verdict.RESTART if seq <= before else self.judge_again(seq)

    def judge_again(self, seq: int) -> Verdict:
        """The same for a message that had to wait for a replay."""
        if seq == self.last + 1:
            return Verdict.NEXT
        if seq > self.last:
            return Verdict.GAP
        return Verdict.KNOWN if seq <= self._synced_to else Verdict.RESTART

    def took(self, seq: int) -> None:
        """That batch was handed out."""
        self.last = seq

    def synced(self) -> None:
        """All up to `last` was had from the publisher that is connected now."""
        self._synced_to = self.last

    def connected(self) -> None:
        """A new connection: who is at its other end is not known yet."""
        self._last_live = NOTHING_YET
        self._synced_to = NOTHING_YET

    def forget(self) -> None:
        """It is another publisher: nothing of it was handed out."""
        self.last = NOTHING_YET
        self._synced_to = NOTHING_YET

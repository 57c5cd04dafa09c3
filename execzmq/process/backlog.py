"""Own when a command must wait for the one who started it (`backpressure="pause"`). Pure."""

from __future__ import annotations

from typing import Protocol

RELEASED = (1 << 63) - 1
"""Told as a seq: the starter does not follow any more, so nothing waits for it."""


_SHORT_BUDGET = 1024 * 1024
"""Bytes beyond the cursor at which a command must wait where the server's disk budget is short."""


class _Log(Protocol):
    last_seq: int
    ends: dict[str, int]

    def ends_at(self, seq: int) -> dict[str, int]:
        """Return the end of each stream after the event `seq`."""


class Backlog:
    """What the starter of a process has not yet told as received.

    Args:
        budget: bytes of output beyond the starter's cursor at which the command must wait.
    """

    __slots__ = (
        "_bytes",
        "budget",
        "gone",
        "is_short",
        "seq",
    )

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.seq = 0
        self.gone = False
        self.is_short = False
        self._bytes = 0

    def told(self, seq: int, log: _Log) -> bool:
        """Move the cursor to `seq`, never back; return whether it moved."""
        if seq <= self.seq:
            return False
        self.seq = seq
        if seq <= log.last_seq:
            self._bytes = sum(log.ends_at(seq).values())
        return True

    def unreceived(self, log: _Log) -> int:
        """Return the newest bytes that may not be dropped."""
        if self.gone or self.seq >= log.last_seq:
            return 0
        return sum(log.ends.values()) - self._bytes

    def must_pause(self, log: _Log) -> bool:
        """Tell whether the command must wait now."""
        return self.unreceived(log) >= (min(self.budget, _SHORT_BUDGET) if self.is_short else self.budget)

    @property
    def keep_after(self) -> int | None:
        """Return the seq after which nothing may be dropped, `None` where everything may."""
        return None if self.gone else self.seq

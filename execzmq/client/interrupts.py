"""Own what repeated interrupts of a waiting user do to the command: INT, then TERM, then KILL; pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(slots=True, frozen=True)
class Interrupt:
    """What one interrupt asks for.

    Args:
        signal: what the command's tree gets; KILL means every process of it, at once.
        words: one line that tells the user what was done and what the next interrupt will do.
    """

    signal: Literal["INT", "TERM", "KILL"]
    words: str


_STEPS = (
    Interrupt("INT", "sent SIGINT to the command; interrupt again to send SIGTERM"),
    Interrupt("TERM", "sent SIGTERM to the command; interrupt again to kill it"),
    Interrupt("KILL", "killing the command and all that it started"),
)


class InterruptLadder:
    """Counts the interrupts of one command that is being waited for."""

    def __init__(self) -> None:
        self._count = 0

    def next(self) -> Interrupt:
        """Return what this interrupt asks for; from the third on it is KILL."""
        step = _STEPS[min(self._count, len(_STEPS) - 1)]
        self._count += 1
        return step

"""Own how a connection stands: one word, and who is told when it becomes another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

Phase: TypeAlias = Literal["down", "greeting", "ready", "closed"]


class Standing:
    """The phase of a connection.

    Attributes:
        now: the phase; changed by `enter` alone.
        on_change: called after each change.
    """

    def __init__(self) -> None:
        self.now: Phase = "down"
        self.on_change: Callable[[], object] = lambda: None

    def enter(self, phase: Phase) -> None:
        """Be in that phase from now on."""
        self.now = phase
        self.on_change()

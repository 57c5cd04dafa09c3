"""Own the seam between a backend and whoever is told of the events of all its processes."""

from __future__ import annotations

from typing import Any, Protocol

from execzmq.process.index import Record
from execzmq.process.managed import ManagedProcess


class Listener(Protocol):
    """Who is told of the events of all processes; see the Observer of a process."""

    def event_recorded(self, process: ManagedProcess, record: Record, payload: dict[str, Any]) -> None:
        """An event stands in the log."""

    def ended(self, process: ManagedProcess) -> None:
        """Nothing follows in the log."""

    def paused(self, process: ManagedProcess) -> None:
        """The command waits for its starter."""


class Nobody:
    """A listener that is told in vain, where there is no server."""

    def event_recorded(self, process: ManagedProcess, record: Record, payload: dict[str, Any]) -> None:
        """Do nothing."""

    def ended(self, process: ManagedProcess) -> None:
        """Do nothing."""

    def paused(self, process: ManagedProcess) -> None:
        """Do nothing."""

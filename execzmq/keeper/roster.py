"""The commands whose end a keeper is yet to tell its server.

Owns who is told of commands and ends, each once. It must not know messages or sockets.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from execzmq.keeper.handover import Orphan, ProcessExit, SpawnedProcess

ExitCallback = Callable[[str, int | None, dict[str, float]], None]

_log = logging.getLogger(__name__)


class Roster:
    """The running commands of one keeper.

    Args:
        on_process: called for each command that the keeper has already.
        on_exit: called at each end; of one found ended, after `on_process`.
    """

    def __init__(self, on_process: Callable[[SpawnedProcess], None], on_exit: ExitCallback) -> None:
        self._on_process = on_process
        self._on_exit = on_exit
        self._running: dict[str, SpawnedProcess] = {}

    def spawned(self, process: SpawnedProcess) -> SpawnedProcess:
        """Note a command that was started for this server, and return it."""
        self._running[process.process_id] = process
        return process

    def found(self, process: SpawnedProcess) -> None:
        """Note a command of an earlier server, and tell of it."""
        self._on_process(process)
        if process.exit is None:
            self._running[process.process_id] = process
        else:
            self._on_exit(process.process_id, process.exit.status, process.exit.rusage)

    def adopted(self, orphan: Orphan) -> None:
        """Note a command that the keeper is to take over; its descriptors are the server's."""
        if orphan.exit is None:
            process = SpawnedProcess(orphan.process_id, orphan.pid, -1, {}, orphan.started_at)
            self._running[orphan.process_id] = process

    def refused(self, process_id: str, error: Exception) -> None:
        """Tell of one that the keeper cannot take over: nobody will know how it ends."""
        _log.error("the keeper cannot take over %s: %s", process_id, error)
        if self._running.pop(process_id, None):
            self._on_exit(process_id, None, {})

    def ended(self, end: ProcessExit) -> None:
        """Tell of an end; one that was found ended is not there: that has been told already."""
        if process := self._running.pop(end.process_id, None):
            process.exit = end
            self._on_exit(end.process_id, end.status, end.rusage)

    def drop(self, process_id: str) -> None:
        """Tell nothing more of a command."""
        self._running.pop(process_id, None)

    def clear(self) -> None:
        """Tell nothing more."""
        self._running.clear()

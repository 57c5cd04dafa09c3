"""Own what follows from the silence of clients: lapsed keyboards, ended processes, starters that are gone."""

from __future__ import annotations

from collections.abc import Callable

from execzmq.backends.local import LocalBackend
from execzmq.backends.local_process import LocalProcess
from execzmq.protocol.peers import Sessions
from execzmq.server.pages import PagesInFlight


class LeaseKeeper:
    """Looks at the sessions of a server from time to time.

    Args:
        clock: monotonic seconds, as `sessions` was told.
    """

    def __init__(
        self, backend: LocalBackend, sessions: Sessions, pages: PagesInFlight, clock: Callable[[], float]
    ) -> None:
        self._backend = backend
        self._sessions = sessions
        self._pages = pages
        self._clock = clock

    def look(self) -> None:
        """Do what the leases that have run out since the last look ask for."""
        now = self._clock()
        for session in self._sessions.expired(now):
            self._pages.forget(session)
            self._lapse(session)
        for process in self._backend.table.living():
            if process.streams.backlog is not None:
                process.streams.starter_gone(self._sessions.is_gone(process.spec.starter, now))

    def _lapse(self, session: str) -> None:
        for process in self._backend.table.living():
            if process.keyboard == session:
                process.keyboard = None
            if process.spec.lifetime == "client" and process.spec.starter == session:
                handle = LocalProcess(self._backend, process, session)
                self._backend.run_task(
                    handle.end("terminated", "lease", self._backend.settings.shutdown_grace)
                )

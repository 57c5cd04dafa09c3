"""Own the backend that runs commands on this machine: keeper, table, logs and journal of one state folder.

Serves a server and, without one, `execzmq.local()`. Knows nothing of ZeroMQ or of who is connected; a client
session is only a name to it.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import tempfile
import time
from collections.abc import Coroutine
from functools import partial
from pathlib import Path
from typing import Any

from execzmq.backends import orphans
from execzmq.backends.closing import cancel_all, end_all, start_or_give_up
from execzmq.backends.confining import Confiner
from execzmq.backends.keeping import Keeping
from execzmq.backends.listening import Listener, Nobody
from execzmq.backends.local_process import LocalProcess
from execzmq.backends.measuring import all_measured
from execzmq.backends.prepared import Prepared
from execzmq.backends.recording import Recording
from execzmq.backends.records import end_record, forget_record
from execzmq.backends.restore import restore
from execzmq.backends.starting import Begun, Starter, begin_when_prepared
from execzmq.backends.unshared import Unshared
from execzmq.errors import InvalidState
from execzmq.keeper.client import KeeperClient, SpawnedProcess
from execzmq.process import guards
from execzmq.process.census import Scope
from execzmq.process.ending import End
from execzmq.process.housekeeping import Housekeeping
from execzmq.process.index import Record
from execzmq.process.lifecycle import Life
from execzmq.process.managed import ManagedProcess
from execzmq.process.readers import Readers
from execzmq.process.scan import TreeScanner
from execzmq.process.screen import Screens
from execzmq.process.table import ProcessTable
from execzmq.sandbox.offer import Offer
from execzmq.settings import VERSION, Settings
from execzmq.types.params import ExecParams, SandboxIntent
from execzmq.types.results import ProcessInfo, ProfileInfo, ServerInfo

_JOURNAL_SLACK = 20_000


class LocalBackend(Unshared):
    """Runs commands here. Made by `open` or `open_private`."""

    is_local = True

    def __init__(self, folder: Path, settings: Settings, *, private: bool) -> None:
        self.folder, self.settings, self.offer = folder, settings, Offer(settings.profile)
        self.table, self.readers, self.screens = ProcessTable(), Readers(), Screens()
        self.scanner = TreeScanner(0, partial(_scopes_of, self.table))
        self.base_env, self.base_cwd = dict(os.environb), _base_folder()
        self.listener: Listener = Nobody()
        self.clock, self.started_at = time.time, time.time()
        self._ended = 0
        self._private = private
        self._housekeeping = Housekeeping(self.table, settings, folder, self._forget, self._tidy)
        self._tasks: set[asyncio.Task[object]] = set()
        self._discarding: set[ManagedProcess] = set()
        self._keeping = Keeping(
            folder,
            "end" if private else "keep",
            on_exit=self._exited,
            on_lost=lambda: self.run_task(orphans.prepare(self.table.living())),
            on_replaced=lambda keeper: self.confiner.cells.hand_over(keeper, self._held()),
            on_pid=partial(setattr, self.scanner, "keeper_pid"),
        )
        self.recording = Recording(folder, self.table, self._keeping, self._housekeeping.make_room)
        self.journal, self.memory = self.recording.journal, self.recording.memory
        self._starter = Starter(self)
        self.confiner = Confiner(self, lambda: self._keeping.client)
        self._closed = False

    @classmethod
    async def open(cls, folder: Path, settings: Settings) -> LocalBackend:
        """Open the backend of a state folder whose lock the caller holds.

        What an earlier life left there is taken over: finished logs can be read, running processes go on.
        """
        return await cls._open(cls(folder, settings, private=False))

    @classmethod
    async def open_private(cls, settings: Settings | None = None) -> LocalBackend:
        """Open a backend of this Python's own; closing it ends its processes and removes its logs."""
        folder = Path(tempfile.mkdtemp(prefix="execzmq-"))
        return await cls._open(cls(folder, settings or Settings(), private=True))

    @classmethod
    async def _open(cls, backend: LocalBackend) -> LocalBackend:
        records = backend.recording.replay()
        left: dict[str, SpawnedProcess] = {}

        def found(process: SpawnedProcess) -> None:
            left[process.process_id] = process  # the keeper's process_id is the key of our spec

        try:
            await backend._keeping.connect(found)
            restore(backend, records, backend.confiner.cells.without_companions(left))
            backend.confiner.cells.recover(backend.table)
        except BaseException:
            await backend.aclose()
            raise
        backend._housekeeping.start()
        backend.recording.start()
        return backend

    @property
    def keeper(self) -> KeeperClient:
        """Return the keeper's client. Raises InvalidState once the backend is closed."""
        self._require_open()
        return self._keeping.client

    def _require_open(self) -> None:
        if self._closed:
            raise InvalidState("this backend is closed; open another")

    def statistics(self) -> dict[str, int]:
        """Return what was counted since the start, and how much there is at the moment."""
        now = {"alive": self.table.alive, "processes": len(self.table)}
        past = {"ended": self._ended, "degraded": self.recording.degraded_count}
        return {**self._starter.counts, **now, **past}

    # ExecBackend

    def new_process_id(self) -> str:
        """Return an id that no process has; see ExecBackend."""
        return self.table.new_id()

    async def start(self, params: ExecParams, session: str = "local") -> LocalProcess:
        """Start a command for a session; see ExecBackend. Cancelling leaves the command running."""
        begun = begin_when_prepared(self, params, session, None, self.prepare(params))
        process, starting, repeated = await begun
        if starting is not None:
            await starting
        return LocalProcess(self, process, session, is_repeat=repeated)

    async def explain(self, params: ExecParams, share: SandboxIntent | None = None) -> dict[str, Any]:
        """Tell what a start would become; see ExecBackend."""
        self._require_open()
        return await self._starter.explain(params, share)

    async def profiles(self) -> list[ProfileInfo]:
        """Describe the permission profiles; see ExecBackend."""
        return self.offer.describe()

    async def attach(self, id_or_name: str, session: str = "local") -> LocalProcess:
        """Find a process; see ExecBackend."""
        return LocalProcess(self, self.table.find(id_or_name), session)

    async def list_processes(self, usage: bool = False) -> list[ProcessInfo]:
        """Describe every process, oldest first; see ExecBackend."""
        return await all_measured(self, list(self.table)) if usage else [p.info() for p in self.table]

    async def server_info(self) -> ServerInfo:
        """Describe this backend."""
        return _info_of(self)

    async def shutdown(self) -> None:
        """End every process by the ladder, then the backend itself."""
        await self.end_all("shutdown")
        await self.aclose()

    async def aclose(self) -> None:
        """Release everything; idempotent. A private backend ends its processes first."""
        if self._closed:
            return
        if self._private:
            await self.end_all("shutdown", grace=0.0)
        keeps = bool(self._held())
        self.recording.close()
        self._closed = True
        self._housekeeping.close()
        await cancel_all(self._tasks)
        for process in [*self.table, *self._discarding]:
            process.release()
            process.log.close()
        self.readers.close()
        self.confiner.cells.stop()
        await self._keeping.close(keeps=keeps)
        await self.confiner.cells.aclose()
        self.journal.close()
        self.scanner.close()
        if self._private:
            shutil.rmtree(self.folder, ignore_errors=True)

    async def end_all(self, asked_by: str, grace: float | None = None) -> None:
        """End all that is left of every process, as far as it can be in time, and start nothing any more."""
        self._starter.is_ending = True
        grace = self.settings.shutdown_grace if grace is None else grace
        ends = [self._end(process, asked_by, grace) for process in self._held()]
        await end_all(ends, grace, self._held)
        self.confiner.cells.kill_all()

    async def _end(self, process: ManagedProcess, asked_by: str, grace: float) -> None:
        """End a process; a start that the keeper does not answer is given up."""
        await start_or_give_up(self.wait_started(process), partial(self.keeper.give_up, process.spec.key))
        await LocalProcess(self, process, asked_by).end("terminated", asked_by, grace)

    def _held(self) -> list[ManagedProcess]:
        """Return the processes that are not over, and those whose streams others still hold."""
        closed = [process for process in self.table if process.is_discarding]
        return [*self.table.living(), *closed, *self._discarding]

    # How a process begins

    def prepare(
        self, params: ExecParams, share: SandboxIntent | None = None
    ) -> Coroutine[Any, Any, Prepared] | None:
        """Return what must be awaited before `begin` for a command that is to be confined, else `None`.

        Raises:
            InvalidRequest, LimitExceeded: the command cannot be confined so. InvalidState: it is closed.
        """
        self._require_open()
        return self._starter.prepare(params, share)

    def begin(self, params: ExecParams, session: str, prepared: Prepared | None = None) -> Begun:
        """Begin a start; `begin_when_prepared` does so as often as it must be prepared.

        Args:
            prepared: owned by this call.

        Raises:
            Conflict, InvalidRequest, LimitExceeded: nothing was begun.
            InvalidState: the backend is closed. ServerLost: it is ending.
        """
        if self._closed and prepared is not None:
            prepared.close()
        self._require_open()
        return self._starter.begin(params, session, prepared)

    async def wait_started(self, process: ManagedProcess) -> None:
        """Wait until it is known whether the command could be started."""
        await self._starter.wait_started(process)

    def cwd_of(self, params: ExecParams) -> bytes:
        """Return where a command will run; what is not absolute is below the base."""
        return self.base_cwd if params.cwd is None else os.path.join(self.base_cwd, params.cwd)

    def take_in(self, process: ManagedProcess) -> None:
        """Add a process to the table; a failed one of its id goes."""
        if (before := self.table.add(process)) is not None:
            self._drop(before)

    def log_folder(self, key: str) -> str:
        """Return where the log of one life of a process is kept."""
        return f"{self.folder}/p/{key}"

    # Observer of its processes

    def event_recorded(self, process: ManagedProcess, record: Record, payload: dict[str, Any]) -> None:
        """Pass an event on to the listener."""
        if process.log.store.trouble is None:
            self._housekeeping.grown(record.length)
            self.recording.stored(process, record)
        self.listener.event_recorded(process, record, payload)

    def ended(self, process: ManagedProcess) -> None:
        """Note the end of a process in the table and in the journal."""
        self.table.ended(process)
        self._ended += 1
        self.journal.note(end_record(process))
        if process.is_discarding and not self._closed:
            self.keeper.mark(process.spec.key, "discard")
        self._housekeeping.ended()
        self.listener.ended(process)

    def paused(self, process: ManagedProcess) -> None:
        """Pass on that a command waits for its starter."""
        self.listener.paused(process)

    def released(self, process: ManagedProcess) -> None:
        """Let the keeper give up what it holds of the process."""
        self._discarding.discard(process)
        self.confiner.cells.when_over(process, partial(self.recording.released, process))

    def degraded(self, process: ManagedProcess, error: OSError) -> None:
        """Go on in memory."""
        self.recording.degraded(process, error)

    def recovered(self, process: ManagedProcess) -> None:
        """Go on on disk."""
        self.recording.recovered(process)

    def time_is_over(self, process: ManagedProcess) -> None:
        """End the tree of a process whose time limit has struck."""
        handle = LocalProcess(self, process, "time limit")
        self.run_task(handle.end("timed_out", "time limit", process.spec.timeout_grace))

    def run_task(self, work: Coroutine[Any, Any, object]) -> None:
        """Run a coroutine that this backend owns until it is closed; afterwards none is begun."""
        if self._closed:
            work.close()
            return
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def forget(self, process: ManagedProcess) -> None:
        """Remove an ended process and its log.

        Raises:
            InvalidState: it has not ended.
        """
        guards.require_over(process)
        self._forget(process)

    def _forget(self, process: ManagedProcess) -> None:
        self.table.remove(process)
        self._drop(process)

    def _drop(self, process: ManagedProcess) -> None:
        """Remove what is kept of a process that the table has no longer."""
        process.is_forgotten = True
        self.screens.forget(process)
        self.recording.forgotten(process)
        if process.is_discarding:
            self._discarding.add(process)
        else:
            process.release()
        process.log.remove()
        self.journal.note(forget_record(process.spec))

    def _exited(self, key: str, status: int | None, rusage: dict[str, float]) -> None:
        if (process := self.table.get_by_key(key)) is not None:
            self.exited(process, End(status, rusage, self.clock()))

    def exited(self, process: ManagedProcess, end: End) -> None:
        """Take the end of a command; that of one which is being started, or in a sandbox, is told later."""
        if process.life is Life.STARTING:
            self._starter.ended_early(process, end)
        elif not process.has_begun:
            return  # it is not followed yet: who takes it over later tells its end
        elif process.confinement is None:
            process.exited(end)
        else:
            self.run_task(self.confiner.cells.see_out(process, end))

    def _tidy(self) -> None:
        """Write the journal anew when most of it speaks of what is forgotten, or it lacks something."""
        self.recording.shorten(_JOURNAL_SLACK)


def _info_of(backend: LocalBackend) -> ServerInfo:
    return ServerInfo(
        pid=os.getpid(),
        epoch="",
        version=VERSION,
        name="local",
        host=socket.gethostname(),
        role="owner",
        started_at=backend.started_at,
        statistics=backend.statistics(),
    )


def _scopes_of(table: ProcessTable) -> list[Scope]:
    return [process.scope for process in table if process.has_begun]


def _base_folder() -> bytes:
    """Return the folder of this process; the user's home where it has none: in the background that is `/`."""
    try:
        own = os.getcwdb()
    except FileNotFoundError:
        own = b"/"
    home = os.fsencode(os.path.expanduser("~"))
    return home if own == b"/" and os.path.isabs(home) and os.path.isdir(home) else own

"""Own how processes begin: from the parameters of a start to a running command, or to the reason why not.

Knows nothing of what becomes of them later.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from execzmq.backends import orphans
from execzmq.backends.launching import Home, check_params, digest_of, explain_plain, launch_of, spawn_error
from execzmq.backends.looking import Outdated
from execzmq.backends.prepared import Prepared
from execzmq.backends.wiring import connect_streams
from execzmq.errors import Conflict, ExecZMQError, ServerLost, to_wire
from execzmq.keeper.client import KeeperLost, SpawnedProcess
from execzmq.keeper.launch import SpawnError
from execzmq.keeper.outcome import Outcome
from execzmq.process.ending import End
from execzmq.process.lifecycle import Life
from execzmq.process.log import OutputLog
from execzmq.process.managed import ManagedProcess
from execzmq.process.spec import ProcessSpec, key_of, spec_of
from execzmq.types.params import ExecParams, SandboxIntent

if TYPE_CHECKING:
    from execzmq.backends.local import LocalBackend


Begun: TypeAlias = tuple[ManagedProcess, Outcome[None] | None, bool]
"""A process, what tells of the success of its start, and whether that is a repeat."""


async def begin_when_prepared(
    backend: LocalBackend,
    params: ExecParams,
    session: str,
    share: SandboxIntent | None,
    preparing: Coroutine[Any, Any, Prepared] | None,
    may_begin: Callable[[], object] = lambda: None,
) -> Begun:
    """Begin a start as soon as it is prepared, and prepare it anew where the disk has changed since.

    Args:
        share, preparing: what was given to `prepare` of the backend, and what that has returned.
        may_begin: raises where whoever asks may not any more; called when all is prepared.

    Raises:
        As `begin` of a backend, but Outdated; what `may_begin` raises: nothing was begun.
    """
    while True:
        prepared = None if preparing is None else await preparing
        with contextlib.ExitStack() as undoing:
            if prepared is not None:
                undoing.callback(prepared.close)
            may_begin()
            undoing.pop_all()
        try:
            return backend.begin(params, session, prepared)
        except Outdated:
            preparing = backend.prepare(params, share)


class Starter:
    """Starts the commands of one backend.

    Attributes:
        counts: starts and failures since the backend was opened.
        is_ending: nothing is started any more.
    """

    def __init__(self, backend: LocalBackend) -> None:
        self.counts = {"started": 0, "failed": 0}
        self.is_ending = False
        self._backend = backend
        self._starting: dict[str, Outcome[None]] = {}
        self._early_ends: dict[str, End] = {}

    def prepare(
        self, params: ExecParams, share: SandboxIntent | None
    ) -> Coroutine[Any, Any, Prepared] | None:
        """Return what must be awaited before `begin` for a command that is to be confined, else `None`.

        Nothing for one that has begun: it goes on, whatever has become of its roots.

        Args:
            share: as `Offer.permissions` has it.

        Raises:
            InvalidRequest, LimitExceeded: the command cannot be confined so.
        """
        return None if self._is_repeat(params) else self._preparing(params, share)

    def _preparing(
        self, params: ExecParams, share: SandboxIntent | None
    ) -> Coroutine[Any, Any, Prepared] | None:
        permissions = self._backend.confiner.permissions_for(params, share)
        return None if permissions is None else self._backend.confiner.prepare(permissions)

    def begin(self, params: ExecParams, session: str, prepared: Prepared | None = None) -> Begun:
        """Begin a start.

        Args:
            prepared: owned by this call.

        Raises:
            Conflict, InvalidRequest, LimitExceeded, SpawnFailed: nothing was begun. ServerLost: it is ending.
            Outdated: nothing was begun, and it must be prepared anew.
        """
        with contextlib.ExitStack() as undoing:
            if prepared is not None:
                undoing.callback(prepared.close)
            if self.is_ending:
                raise ServerLost("the server is ending and starts nothing any more")
            check_params(params)
            process_id = self._id_of(params)
            existing = self._repeated(params, process_id)
            if existing is not None:
                return existing, self._starting.get(process_id), True
            process, starting = self._begin(params, process_id, session, prepared, undoing)
            undoing.pop_all()
        return process, starting, False

    def _id_of(self, params: ExecParams) -> str:
        return self._backend.table.new_id() if params.process_id is None else params.process_id

    def _repeated(self, params: ExecParams, process_id: str) -> ManagedProcess | None:
        """Return the process that the same start has begun before; check that else a new one may begin."""
        existing = self._backend.table.get(process_id)
        if existing is None or existing.life is Life.FAILED:
            self._backend.table.check_new(process_id, params.name)
            return None
        if params.process_id is None or existing.spec.digest != digest_of(params):
            message = f"the process_id {process_id!r} is taken by another command; choose another"
            raise Conflict(f"{message}, or forget it", process_id=process_id)
        return existing

    def _is_repeat(self, params: ExecParams) -> bool:
        existing = None if params.process_id is None else self._backend.table.get(params.process_id)
        return (
            existing is not None
            and existing.life is not Life.FAILED
            and existing.spec.digest == digest_of(params)
        )

    async def explain(self, params: ExecParams, share: SandboxIntent | None) -> dict[str, Any]:
        """Return what a start would become, after all of its checks.

        Raises:
            Conflict, InvalidRequest, LimitExceeded, PermissionRefused, SandboxUnavailable: as a start.
        """
        check_params(params)
        self._repeated(params, self._id_of(params))
        base_env, cwd = self._backend.base_env, self._backend.cwd_of(params)
        while (preparing := self._preparing(params, share)) is not None:
            with contextlib.suppress(Outdated), contextlib.closing(await preparing) as prepared:
                prepared.looked.check()
                return prepared.explained(params, base_env, cwd)
        return explain_plain(params, base_env, cwd)

    def _begin(
        self,
        params: ExecParams,
        process_id: str,
        session: str,
        prepared: Prepared | None,
        undoing: contextlib.ExitStack,
    ) -> tuple[ManagedProcess, Outcome[None]]:
        instance = int.from_bytes(os.urandom(8))
        spec_of_it = partial(self._spec_of, params, process_id, instance, session, prepared)
        if prepared is None:
            process, spawned = self._begin_plain(params, spec_of_it())
        else:
            key = key_of(process_id, instance)
            process, spawned = self._begin_confined(params, key, prepared, spec_of_it, undoing)
        starting = self._starting[process_id] = Outcome()
        self.counts["started"] += 1
        spawned.then(partial(self._spawned, process, prepared), partial(self._failed, process, prepared))
        return process, starting

    def _spec_of(
        self, params: ExecParams, process_id: str, instance: int, session: str, prepared: Prepared | None
    ) -> ProcessSpec:
        backend = self._backend
        budget, cwd = self._budget_of(params, prepared), backend.cwd_of(params)
        digest, applied = digest_of(params), None if prepared is None else prepared.applied
        return spec_of(params, process_id, instance, cwd, budget, session, digest, backend.clock(), applied)

    def _budget_of(self, params: ExecParams, prepared: Prepared | None) -> int:
        wanted = params.log_budget if prepared is None else prepared.permissions.output_bytes
        return wanted or self._backend.settings.log_budget

    def _begin_plain(
        self, params: ExecParams, spec: ProcessSpec
    ) -> tuple[ManagedProcess, Outcome[SpawnedProcess]]:
        folder = self._backend.log_folder(spec.key)
        launch, files = launch_of(params, spec, self._backend.base_env, folder)
        try:
            return self._recorded(spec), self._backend.keeper.spawn(launch, files)
        finally:
            _close_all(files)

    def _begin_confined(
        self,
        params: ExecParams,
        key: str,
        prepared: Prepared,
        spec_of_it: Callable[[], ProcessSpec],
        undoing: contextlib.ExitStack,
    ) -> tuple[ManagedProcess, Outcome[SpawnedProcess]]:
        """Have the wrapper loaded first, which waits for its arguments, and make what it needs meanwhile."""
        backend, confiner = self._backend, self._backend.confiner
        confiner.occupy(key, prepared)
        undoing.callback(confiner.vacate, key, prepared)
        budget = self._budget_of(params, prepared)
        home = Home(key, backend.cwd_of(params), backend.log_folder(key), budget)
        try:
            launch, files = prepared.launch_of(params, home)
        except OSError as error:
            raise spawn_error(error) from None
        try:
            spawned = backend.keeper.spawn(launch, files)
        finally:
            _close_all(files)
        undoing.callback(spawned.cancel)
        prepared.looked.check()
        spec = spec_of_it()
        prepared.with_variables(params, spec.mark, backend.base_env)
        arguments = prepared.arguments(prepared.launched, prepared.numbers)
        confiner.hold(key, prepared)
        process = self._recorded(spec)
        prepared.tell(arguments)
        process.log.store.prepare()
        return process, spawned

    def _recorded(self, spec: ProcessSpec) -> ManagedProcess:
        """Write a start down, and take its process into the table."""
        backend = self._backend
        backend.recording.begun(spec)
        log = OutputLog(backend.log_folder(spec.key), spec.instance, spec.log_budget, backend.memory)
        process = ManagedProcess(spec, log, backend, backend.clock)
        backend.take_in(process)
        return process

    def _spawned(self, process: ManagedProcess, prepared: Prepared | None, spawned: SpawnedProcess) -> None:
        if prepared is None:
            self._run(process, spawned)
        else:
            self._backend.run_task(self._enter(process, prepared, spawned))

    async def _enter(self, process: ManagedProcess, prepared: Prepared, spawned: SpawnedProcess) -> None:
        """See a command into its sandbox; cancelled at the end of this process it waits there for its end."""
        try:
            process.confine(await self._backend.confiner.enter(process, prepared, spawned))
        except (ExecZMQError, KeeperLost, SpawnError, OSError) as error:
            spawned.close()
            self._backend.keeper.abandon(process.spec.key)
            self._failed(process, prepared, error)
        except BaseException:
            spawned.close()
            raise
        else:
            self._run(process, spawned)
            await asyncio.sleep(0)  # who waits for the start, and then for output, goes first
            self._backend.readers.look()
            self._backend.confiner.cells.hold_command(process)
        finally:
            prepared.close()

    def _run(self, process: ManagedProcess, spawned: SpawnedProcess) -> None:
        try:
            pumps, feeder = connect_streams(self._backend, process, spawned)
        except OSError as error:
            self._backend.keeper.abandon(process.spec.key)
            self._backend.confiner.cells.give_up(process)
            self._failed(process, None, error)
            return
        process.started(spawned.pid, spawned.pidfd, pumps, feeder)
        self._starting.pop(process.process_id).succeed(None)
        if (end := self._early_ends.pop(process.spec.key, None)) is not None:
            ended_at = max(end.ended_at, process.ending.started_at)
            self._backend.exited(process, end._replace(ended_at=ended_at))

    def _failed(self, process: ManagedProcess, prepared: Prepared | None, reason: Exception) -> None:
        if prepared is not None:
            prepared.close()
            self._backend.confiner.vacate(process.spec.key, prepared)
            if isinstance(reason, KeeperLost) and reason.was_asked:
                backend = self._backend
                backend.run_task(orphans.end_unreachable(process.spec, backend.scanner))
        self._early_ends.pop(process.spec.key, None)
        starting = self._starting.pop(process.process_id)
        error = reason if isinstance(reason, ExecZMQError) else spawn_error(reason)
        self.counts["failed"] += 1
        process.spawn_failed(to_wire(error))
        starting.fail(error)

    def ended_early(self, process: ManagedProcess, end: End) -> None:
        """Keep the end of a command that is being started, until it has."""
        self._early_ends[process.spec.key] = end

    async def wait_started(self, process: ManagedProcess) -> None:
        """Wait until it is known whether the command could be started."""
        starting = self._starting.get(process.process_id)
        if starting is not None:
            with contextlib.suppress(ExecZMQError):
                await starting


def _close_all(files: Mapping[str, int]) -> None:
    for fd in files.values():
        os.close(fd)

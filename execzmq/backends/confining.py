"""Own how commands of a backend are confined: what is prepared, and what is set while one waits at its gate.

Knows nothing of tables and sessions. What may wait for a file system is done aside of the loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from execzmq.backends import entering, internet
from execzmq.backends.cells import Cells, word_of
from execzmq.backends.confined import FIRST, NOBODY, Confined, close_all
from execzmq.backends.judging import Circumstances
from execzmq.backends.launching import is_shortage, spawn_error
from execzmq.backends.looking import Looker
from execzmq.backends.not_executed import error_of, terminal_error_of
from execzmq.backends.prepared import Prepared, check_confinable
from execzmq.backends.records import start_record
from execzmq.backends.trying import hidden_from_sandboxes, probe_of
from execzmq.backends.wrapper_status import WrapperStatus
from execzmq.errors import InvalidRequest, SpawnFailed
from execzmq.keeper import landlock
from execzmq.keeper.client import KeeperClient, SpawnedProcess
from execzmq.keeper.messages import PROXY
from execzmq.process.confinement import Leader
from execzmq.process.managed import ManagedProcess
from execzmq.sandbox import host, limits, slirp
from execzmq.sandbox.applied import applied_of
from execzmq.sandbox.model import Permissions
from execzmq.sandbox.variables import PROXY_PORT
from execzmq.types.finding import Finding
from execzmq.types.params import ExecParams, SandboxIntent

if TYPE_CHECKING:
    from execzmq.backends.local import LocalBackend


class Confiner:
    """Confines the commands of one backend.

    Args:
        keeper: returns the keeper's client, also while the backend is being closed.
    """

    def __init__(self, backend: LocalBackend, keeper: Callable[[], KeeperClient]) -> None:
        self.cells = Cells(backend.folder, backend.run_task, keeper)
        self._looker = Looker(hidden_from_sandboxes(backend.folder), lambda: self.cells.sweeper)
        self._backend = backend
        self.probe = probe_of(backend.folder, backend.offer.home, lambda: self._host)

    def findings(self) -> list[Finding]:
        """Look whether sandboxes can be enforced here, and which limits; takes some seconds at most."""
        held = limits.finding(self.cells.cgroups)
        return [*self.probe.look().findings, held, internet.finding(), self._backend.offer.finding()]

    def permissions_for(self, params: ExecParams, share: SandboxIntent | None) -> Permissions | None:
        """Return what a command may do, `None` where it is not confined.

        Args:
            share: the most that whoever asks may have; `None` = as much as the server gives.

        Raises:
            InvalidRequest, PermissionRefused: it cannot be confined so.
        """
        permissions = self._backend.offer.permissions(params, self._backend.cwd_of(params), share)
        if permissions is not None:
            check_confinable(params)
        return permissions

    async def prepare(self, permissions: Permissions) -> Prepared:
        """Find on this host what a command may see.

        Raises:
            InvalidRequest, LimitExceeded: a root is not there, or cannot be one.
            SandboxUnavailable: no sandbox can be enforced here, or a limit that is required, or there is no
                network as it asks for.
            SpawnFailed: there is no descriptor, thread or memory to look with.
        """
        try:
            return await self._prepared(permissions)
        except OSError as error:
            raise spawn_error(error) from None
        except InvalidRequest as error:
            raise self._backend.offer.explained(error, permissions.profile) from None

    async def _prepared(self, permissions: Permissions) -> Prepared:
        wrapper = await self.probe.require()
        if permissions.network.mode == "internet":
            slirp.find()
        plan = limits.plan(permissions.limits, self.cells.cgroups.controllers, os.geteuid())
        if permissions.require_limits:
            limits.check(plan, self.cells.cgroups.reason)
        looked = await self._looker.look(permissions, wrapper)
        applied = applied_of(
            permissions,
            looked.view,
            kind="bubblewrap",
            limits_enforced=plan.enforced,
            abstract_sockets="host" if reaches_host_sockets(permissions) else "own",
        )
        path = os.fsencode(wrapper.path)
        return Prepared(permissions, looked, path, self._host, applied)

    def occupy(self, key: str, prepared: Prepared) -> None:
        """Make the control group that a sandbox will be in, where it needs one."""
        prepared.cgroup = limits.group_for(word_of(key), prepared.permissions.limits, self.cells.cgroups)

    def hold(self, key: str, prepared: Prepared) -> None:
        """Take what a sandbox needs on the disk before anything of it is mounted.

        Raises:
            SpawnFailed: a disk is full or fails, or there is no descriptor; nothing was taken.
        """
        try:
            self.cells.sweeper.hold(key, prepared.view)
        except OSError as error:
            if is_shortage(error):
                raise spawn_error(error) from None
            message = f"the sandbox needs a file that cannot be written: {error.strerror}"
            path = os.fsdecode(error.filename)
            raise SpawnFailed(f"{message}: {path!r}; make room on its disk", reason="placeholders") from None

    def vacate(self, key: str, prepared: Prepared) -> None:
        """Give back what was taken for a sandbox that was not entered, and whose processes are ended."""
        self.cells.sweeper.release(key)
        if prepared.cgroup is not None:
            self._backend.run_task(prepared.cgroup.remove())

    @cached_property
    def _host(self) -> host.Host:
        return host.look_up(is_root=os.geteuid() == 0)

    async def enter(self, process: ManagedProcess, prepared: Prepared, spawned: SpawnedProcess) -> Confined:
        """See a command into its sandbox, from the wrapper's start to the command's execution.

        Cancelling leaves it at its gate, or running.

        Raises:
            CommandNotFound, NotExecutable, SandboxUnavailable …: it was not executed; nothing of it runs.
            KeeperLost, OSError: the same.
        """
        key, keeper = process.spec.key, self._backend.keeper
        stack = contextlib.ExitStack
        with stack() as closing, stack() as undoing, stack() as killing:
            status = prepared.watch()
            closing.callback(status.close)
            try:
                first = await entering.first_process(status)
                undoing.callback(os.close, first.pidfd)
                killing.callback(_kill, first)
                keeper.hold(key, FIRST, first.pidfd)
                around = await self._set_up(process, prepared, first, killing)
                undoing.callback(around.close)
                others = _others(around)
                undoing.callback(close_all, others)
                command = await self._let_go(key, prepared, spawned, status, first, killing)
            except entering.NotExecuted as failure:
                raise await error_of(prepared, spawned, failure) from None
            if command is NOBODY and (error := await terminal_error_of(prepared, spawned, status.exit_code)):
                raise error
            undoing.pop_all()
            killing.pop_all()
        return self.cells.take_in(process, spawned.pid, first, command, around, others)

    async def _let_go(
        self,
        key: str,
        prepared: Prepared,
        spawned: SpawnedProcess,
        status: WrapperStatus,
        first: Leader,
        killing: contextlib.ExitStack,
    ) -> Leader:
        """Let the command run, and wait until it does; return it, nobody where it has ended already.

        Cancelled it goes on, for the next server, or is ended by the keeper, which knows whether it runs.
        """
        try:
            await self._backend.keeper.release(key)
            fds, lines = spawned.fds, prepared.command_lines
            output = fds.get("stdout", fds.get("pty", -1))
            return await entering.executed(status, first.pid, lines, output, is_own="stderr" in fds)
        except asyncio.CancelledError:
            killing.pop_all()
            raise

    async def _set_up(
        self, process: ManagedProcess, prepared: Prepared, first: Leader, killing: contextlib.ExitStack
    ) -> Circumstances:
        """Set, while the command waits at its gate, what must hold before it runs."""
        key, permissions = process.spec.key, prepared.permissions
        enforced = await limits.enforce(
            first.pid,
            word_of(key),
            permissions.limits,
            self.cells.cgroups,
            os.geteuid(),
            required=permissions.require_limits,
            cgroup=prepared.cgroup,
        )
        prepared.cgroup = enforced.cgroup
        names = frozenset(enforced.plan.enforced)
        if names != frozenset(prepared.applied["limits_enforced"]):
            prepared.applied["limits_enforced"] = sorted(names)
            self._backend.journal.note(start_record(process.spec))
        around = Circumstances(permissions, prepared.sight, names, enforced.cgroup)
        if permissions.network.mode == "proxy":
            listener = await self._backend.keeper.listen(key, first.pidfd, PROXY_PORT)
            self.cells.proxies.serve(process, listener, around)
        elif permissions.network.mode == "internet":
            around.companion = await internet.connect(self._backend.keeper, key, first.pidfd)
            killing.callback(around.companion.end, self._backend.keeper)
        return around


def reaches_host_sockets(permissions: Permissions) -> bool:
    """Tell whether a command reaches the abstract sockets of this host."""
    return permissions.network.mode == "host" and not landlock.can_scope()


def _others(around: Circumstances) -> dict[str, int]:
    """Return copies of what a keeper must hold of a sandbox, besides who is in it."""
    found: dict[str, int] = {}
    if around.proxy is not None:
        found[PROXY] = around.proxy.fileno()
    if around.companion is not None:
        found[slirp.HELD] = around.companion.held
    copies: dict[str, int] = {}
    try:
        for name, fd in found.items():
            copies[name] = os.dup(fd)
    except OSError:
        close_all(copies)
        raise
    return copies


def _kill(first: Leader) -> None:
    """Kill a sandbox that was not entered."""
    with contextlib.suppress(OSError):
        signal.pidfd_send_signal(first.pidfd, signal.SIGKILL)

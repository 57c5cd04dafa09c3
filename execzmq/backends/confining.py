"""Own how commands of a backend are confined: what is prepared, and what is set while one waits at its gate.

Knows nothing of tables and sessions. What may wait for a file system is done aside of the loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import signal
import sys
from collections.abc import Callable
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from execzmq.aside import aside
from execzmq.backends import entering, internet
from execzmq.backends.cells import Cells, word_of
from execzmq.backends.confined import COMMAND, FIRST, Confined, close_all, pid_of
from execzmq.backends.judging import Circumstances
from execzmq.backends.launching import spawn_error
from execzmq.backends.not_executed import error_of, terminal_error_of
from execzmq.backends.prepared import Prepared, check_confinable
from execzmq.backends.records import start_record
from execzmq.backends.sweeping import Sweeper
from execzmq.backends.trying import hidden_from_sandboxes, probe_of
from execzmq.backends.wrapper_status import WrapperStatus
from execzmq.errors import SandboxUnavailable, SpawnFailed
from execzmq.keeper import landlock
from execzmq.keeper.client import KeeperClient, SpawnedProcess
from execzmq.keeper.messages import PROXY
from execzmq.process.managed import ManagedProcess
from execzmq.sandbox import host, limits, slirp
from execzmq.sandbox.applied import applied_of
from execzmq.sandbox.bwrap import PROXY_PORT
from execzmq.sandbox.layers import is_within
from execzmq.sandbox.model import Permissions, View
from execzmq.sandbox.paths import view_of
from execzmq.sandbox.wrapper import Wrapper, require_outside
from execzmq.types.finding import Finding
from execzmq.types.params import ExecParams, SandboxIntent

if TYPE_CHECKING:
    from execzmq.backends.local import LocalBackend

_PACKAGE = Path(__file__).parents[1]
_LOOK_SECONDS = 15.0
"""Time in which the folders that a request names, and a wrapper that is able, must be found."""


class Confiner:
    """Confines the commands of one backend.

    Args:
        keeper: returns the keeper's client, also while the backend is being closed.
    """

    def __init__(self, backend: LocalBackend, keeper: Callable[[], KeeperClient]) -> None:
        self.cells = Cells(backend.folder, backend.run_task, keeper)
        self._hidden = hidden_from_sandboxes(backend.folder)
        self._backend = backend
        self.probe = probe_of(backend.folder, backend.offer.home, lambda: self._host)

    def findings(self) -> list[Finding]:
        """Look whether sandboxes can be enforced here, and which limits; takes some seconds at most."""
        return [*self.probe.look().findings, limits.finding(self.cells.cgroups), internet.finding()]

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

    async def prepare(self, params: ExecParams, permissions: Permissions) -> Prepared:
        """Find on this host what a command may see.

        Raises:
            InvalidRequest, LimitExceeded: a root is not there, or cannot be one.
            SandboxUnavailable: no sandbox can be enforced here, or a limit that is required, or there is no
                network as it asks for.
            SpawnFailed: there is no descriptor, thread or memory to look with.
        """
        try:
            return await self._prepared(permissions, params)
        except OSError as error:
            raise spawn_error(error) from None

    async def _prepared(self, permissions: Permissions, params: ExecParams) -> Prepared:
        wrapper = await self.probe.require()
        if permissions.network.mode == "internet":
            slirp.find()
        plan = limits.plan(permissions.limits, self.cells.cgroups.controllers, os.geteuid())
        if permissions.require_limits:
            limits.check(plan, self.cells.cgroups.reason)
        try:
            look = partial(self._look, permissions, wrapper, self.cells.sweeper)
            view, starting = await aside(look, _LOOK_SECONDS, _drop)
        except TimeoutError:
            words = f"its folders were not found within {_LOOK_SECONDS:.0f} s: does a file system not answer?"
            raise SandboxUnavailable(words, reason="slow_folders") from None
        applied = applied_of(
            permissions,
            view,
            kind="bubblewrap",
            limits_enforced=plan.enforced,
            abstract_sockets="host" if reaches_host_sockets(permissions) else "own",
        )
        chosen = () if params.env_policy is None else tuple(map(os.fsencode, params.env_policy.set))
        path = os.fsencode(wrapper.path)
        return Prepared(permissions, view, path, self._host, applied, starting, chosen)

    def _look(self, permissions: Permissions, wrapper: Wrapper, sweeper: Sweeper) -> tuple[View, int]:
        with contextlib.ExitStack() as undoing:
            starting = sweeper.starting()
            undoing.callback(os.close, starting)
            view = view_of(with_own_code(permissions), server_dirs=self._hidden, placeholders=sweeper.paths)
            undoing.callback(view.close)
            require_outside(wrapper, view.roots)
            found = view, starting
            undoing.pop_all()
        return found

    def occupy(self, key: str, prepared: Prepared) -> None:
        """Take what a sandbox needs on the disk and in the kernel before it is started.

        Raises:
            SpawnFailed: the disk is full or fails; nothing was taken.
        """
        try:
            self.cells.sweeper.hold(key, prepared.view)
        except OSError as error:
            message = f"the sandbox cannot be written down in the server's state folder: {error.strerror}"
            raise SpawnFailed(f"{message}; make room on its disk", reason="placeholders") from None
        limited = prepared.permissions.limits
        prepared.cgroup = limits.group_for(word_of(key), limited, self.cells.cgroups)

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
                undoing.callback(os.close, first)
                killing.callback(_kill, first)
                keeper.hold(key, FIRST, first)
                around = await self._set_up(process, prepared, first, killing)
                undoing.callback(around.close)
                others = _others(around)
                undoing.callback(close_all, others)
                command = await self._let_go(key, prepared, spawned, status, first, killing)
            except entering.NotExecuted as failure:
                raise await error_of(prepared, spawned, failure) from None
            if command < 0 and (error := await terminal_error_of(prepared, spawned, status.exit_code)):
                raise error
            undoing.pop_all()
            killing.pop_all()
        if command >= 0:
            with contextlib.suppress(OSError):  # the next server finds it by its number inside
                keeper.hold(key, COMMAND, command)
        return self.cells.take_in(process, spawned.pid, first, command, around, others)

    async def _let_go(
        self,
        key: str,
        prepared: Prepared,
        spawned: SpawnedProcess,
        status: WrapperStatus,
        first: int,
        killing: contextlib.ExitStack,
    ) -> int:
        """Let the command run, and wait until it does; return its pidfd, -1 where it has ended already.

        Cancelled it goes on, for the next server, or is ended by the keeper, which knows whether it runs.
        """
        try:
            await self._backend.keeper.release(key)
            fds, lines = spawned.fds, prepared.command_lines
            output = fds.get("stdout", fds.get("pty", -1))
            return await entering.executed(status, pid_of(first), lines, output, is_own="stderr" in fds)
        except asyncio.CancelledError:
            killing.pop_all()
            raise

    async def _set_up(
        self, process: ManagedProcess, prepared: Prepared, first: int, killing: contextlib.ExitStack
    ) -> Circumstances:
        """Set, while the command waits at its gate, what must hold before it runs."""
        key, permissions = process.spec.key, prepared.permissions
        enforced = await limits.enforce(
            pid_of(first),
            word_of(key),
            permissions.limits,
            self.cells.cgroups,
            os.geteuid(),
            required=permissions.require_limits,
            cgroup=prepared.cgroup,
        )
        names = frozenset(enforced.plan.enforced)
        if names != frozenset(prepared.applied["limits_enforced"]):
            prepared.applied["limits_enforced"] = sorted(names)
            self._backend.journal.note(start_record(process.spec))
        around = Circumstances(permissions, prepared.sight, names, enforced.cgroup)
        if permissions.network.mode == "proxy":
            listener = await self._backend.keeper.listen(key, first, PROXY_PORT)
            self.cells.proxies.serve(process, listener, around)
        elif permissions.network.mode == "internet":
            around.companion = await internet.connect(self._backend.keeper, key, first)
            killing.callback(around.companion.end, self._backend.keeper)
        return around


def reaches_host_sockets(permissions: Permissions) -> bool:
    """Tell whether a command reaches the abstract sockets of this host."""
    return permissions.network.mode == "host" and not landlock.can_scope()


def with_own_code(permissions: Permissions) -> Permissions:
    """Return permissions that keep what the next server will execute as it is, where a root holds it."""
    roots = [os.path.realpath(root) for root in permissions.writable]
    code = {os.path.realpath(os.fsencode(path)) for path in (sys.prefix, sys.base_prefix, _PACKAGE)}
    kept = tuple(path for path in sorted(code) if is_within(path, roots) and path not in roots)
    return dataclasses.replace(permissions, readable=(*permissions.readable, *kept))


def _drop(found: tuple[View, int]) -> None:
    found[0].close()
    os.close(found[1])


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


def _kill(first: int) -> None:
    """Kill a sandbox that was not entered."""
    with contextlib.suppress(OSError):
        signal.pidfd_send_signal(first, signal.SIGKILL)

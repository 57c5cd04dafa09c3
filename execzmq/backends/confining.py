"""Own how commands of a backend are confined: what is prepared, set while one waits at its gate, tidied up.

Knows nothing of tables and sessions. What may wait for a file system is done aside of the loop.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from execzmq.backends import entering
from execzmq.backends.aside import aside
from execzmq.backends.confined import COMMAND, FIRST, Confined, pid_of
from execzmq.backends.not_executed import error_of, terminal_error_of
from execzmq.backends.prepared import Prepared, check_confinable
from execzmq.errors import SandboxUnavailable
from execzmq.keeper.client import SpawnedProcess
from execzmq.process.ending import End
from execzmq.process.managed import ManagedProcess
from execzmq.sandbox import host
from execzmq.sandbox.applied import applied_of
from execzmq.sandbox.model import Permissions
from execzmq.sandbox.narrowing import Place, permissions_for
from execzmq.sandbox.paths import view_of
from execzmq.sandbox.profile_store import ProfileStore
from execzmq.settings import Settings
from execzmq.types.params import ExecParams

if TYPE_CHECKING:
    from execzmq.backends.local import LocalBackend

_LOOK_SECONDS = 10.0
"""Time in which the folders that a request names must be found."""


class Confiner:
    """Confines the commands of one backend.

    Args:
        hidden: folders and files that no sandbox sees, the backend's own among them.
    """

    def __init__(self, hidden: Sequence[Path], settings: Settings, backend: LocalBackend) -> None:
        self.profiles = ProfileStore()
        self._hidden = [os.fsencode(path) for path in (*hidden, self.profiles.path.parent)]
        self._settings = settings
        self._backend = backend
        self._living: dict[str, Confined] = {}
        self._waiting: dict[str, Callable[[], None]] = {}

    def permissions_for(self, params: ExecParams) -> Permissions | None:
        """Return what a command may do, `None` where it is not confined.

        Raises:
            InvalidRequest, PermissionRefused: it cannot be confined so.
        """
        ceiling = self.profiles.get(self._settings.profile)
        if params.sandbox is None and not ceiling.is_confined:
            return None
        cwd = self._backend.base_cwd if params.cwd is None else params.cwd
        permissions = permissions_for(
            params.sandbox,
            ceiling=ceiling,
            profiles=self.profiles.all(),
            place=Place(cwd, self.profiles.home),
            limits=params.limits,
            log_budget=params.log_budget,
        )
        if permissions is not None:
            check_confinable(params)
        return permissions

    async def prepare(self, params: ExecParams, permissions: Permissions) -> Prepared:
        """Find on this host what a command may see.

        Raises:
            InvalidRequest, LimitExceeded: a root is not there, or cannot be one.
            SandboxUnavailable: no sandbox can be enforced here.
        """
        look = partial(view_of, permissions, server_dirs=self._hidden)
        try:
            view = await aside(look, _LOOK_SECONDS, lambda late: late.close())
        except TimeoutError:
            words = f"its folders were not found within {_LOOK_SECONDS:.0f} s: does a file system not answer?"
            raise SandboxUnavailable(words, reason="slow_folders") from None
        applied = applied_of(permissions, view, kind="bubblewrap", limits_enforced=())
        chosen = () if params.env_policy is None else tuple(map(os.fsencode, params.env_policy.set))
        return Prepared(permissions, view, b"/usr/bin/bwrap", self._host, applied, chosen)

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
        with contextlib.ExitStack() as undoing:
            status = prepared.watch()
            undoing.callback(status.close)
            try:
                first = await entering.first_process(status)
                undoing.callback(_end, first)
                keeper.hold(key, FIRST, first)
                await self._set_up(key, prepared, first)
                await keeper.release(key)
                outputs = [spawned.fds[name] for name in ("stdout", "pty") if name in spawned.fds]
                command = await entering.executed(status, pid_of(first), prepared.command_lines, outputs)
            except entering.NotExecuted as failure:
                raise await error_of(prepared, spawned, failure) from None
            if command < 0 and (error := await terminal_error_of(prepared, spawned, status.exit_code)):
                raise error
            undoing.pop_all()
        status.close()
        if command >= 0:
            keeper.hold(key, COMMAND, command)
        return self._take_in(process, spawned.pid, first, command)

    async def _set_up(self, key: str, prepared: Prepared, first: int) -> None:
        """Set, while the command waits at its gate, what must hold before it runs."""

    def resume(self, process: ManagedProcess, spawned: SpawnedProcess) -> None:
        """Take over the sandbox of a command that an earlier life of the backend has confined."""
        if process.spec.sandbox is not None:
            first, command = (spawned.fds.pop(name, -1) for name in (FIRST, COMMAND))
            process.confine(self._take_in(process, spawned.pid, first, command))

    async def see_out(self, process: ManagedProcess, end: End) -> None:
        """Tell a process how the command in its sandbox has ended, where the keeper tells of the wrapper."""
        confined = process.confinement
        assert isinstance(confined, Confined)
        process.exited(confined.status(end.status), end.rusage, end.ended_at)

    def when_empty(self, process: ManagedProcess, then: Callable[[], None]) -> None:
        """Call as soon as nothing is left in the process's sandbox, at once where it has none."""
        if process.spec.key in self._living:
            self._waiting[process.spec.key] = then
            return
        if isinstance(process.confinement, Confined):
            process.confinement.close()
        then()

    def _take_in(self, process: ManagedProcess, wrapper: int, first: int, command: int) -> Confined:
        key = process.spec.key
        ended = partial(self._ended, key)
        confined = Confined(wrapper, first, command, has_terminal=process.spec.tty, ended=ended)
        if not confined.is_over:
            self._living[key] = confined
        return confined

    def _ended(self, key: str, confined: Confined) -> None:
        """Tidy up after the last process of a sandbox."""
        del self._living[key]
        if (then := self._waiting.pop(key, None)) is not None:
            confined.close()
            then()

    def kill_all(self) -> None:
        """End all that is in any sandbox at once."""
        for confined in self._living.values():
            confined.kill()

    def close(self) -> None:
        """Let go of all sandboxes, which go on; idempotent."""
        self._waiting.clear()
        while self._living:
            self._living.popitem()[1].close()


def _end(first: int) -> None:
    """Kill a sandbox that was not entered."""
    with contextlib.suppress(OSError):
        signal.pidfd_send_signal(first, signal.SIGKILL)
    os.close(first)

"""Own how commands of a backend are confined: what is prepared, set while one waits at its gate, tidied up.

Knows nothing of tables and sessions. What may wait for a file system is done aside of the loop.
"""

from __future__ import annotations

import contextlib
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from execzmq.backends import entering
from execzmq.backends.aside import aside
from execzmq.backends.confined import COMMAND, FIRST, Confined, pid_of
from execzmq.backends.prepared import Prepared
from execzmq.errors import SandboxUnavailable
from execzmq.keeper.client import SpawnedProcess
from execzmq.process.managed import ManagedProcess
from execzmq.sandbox.applied import applied_of
from execzmq.sandbox.model import Permissions
from execzmq.sandbox.paths import view_of
from execzmq.settings import Settings
from execzmq.types.params import ExecParams

if TYPE_CHECKING:
    from execzmq.backends.local import LocalBackend

_LOOK_SECONDS = 10.0
"""Time in which the folders that a request names must be found."""


class Confiner:
    """Confines the commands of one backend.

    Args:
        folder: the backend's state folder, which no sandbox sees.
    """

    def __init__(self, folder: Path, settings: Settings, backend: LocalBackend) -> None:
        self._folder = folder
        self._settings = settings
        self._backend = backend
        self._living: dict[str, Confined] = {}

    def permissions_for(self, params: ExecParams) -> Permissions | None:
        """Return what a command may do, `None` where it is not confined.

        Raises:
            InvalidRequest, PermissionRefused: it cannot be confined so.
        """

    async def prepare(self, params: ExecParams, permissions: Permissions) -> Prepared:
        """Find on this host what a command may see.

        Raises:
            InvalidRequest, LimitExceeded: a root is not there, or cannot be one.
            SandboxUnavailable: no sandbox can be enforced here.
        """
        look = partial(view_of, permissions, server_dirs=self._server_dirs, home=self._home)
        try:
            view = await aside(look, _LOOK_SECONDS, lambda late: late.close())
        except TimeoutError:
            words = f"the folders of the sandbox were not found within {_LOOK_SECONDS:.0f} s"
            raise SandboxUnavailable(f"{words}; is a file system not answering?", reason="slow_folders") from None
        applied = applied_of(permissions, view, kind="bubblewrap", limits_enforced=())
        return Prepared(permissions, view, self._wrapper, applied)

    async def enter(
        self, process: ManagedProcess, prepared: Prepared, spawned: SpawnedProcess
    ) -> Confined:
        """See a command into its sandbox, from the wrapper's start to the command's execution.

        Cancelling leaves it at its gate, or running.

        Raises:
            CommandNotFound, NotExecutable, SandboxUnavailable …: it was not executed; nothing of it runs.
            KeeperLost, OSError: the same.
        """
        key = process.spec.key
        with contextlib.ExitStack() as undoing:
            status = prepared.watch()
            undoing.callback(status.close)
            try:
                first = await entering.first_process(status)
                undoing.callback(_end, first)
                await self._set_up(key, prepared, first)
                await self._backend.keeper.release(key)
                outputs = [spawned.fds[name] for name in ("stdout", "pty") if name in spawned.fds]
                lines = prepared.command_lines
                command = await entering.executed(status, pid_of(first), lines, outputs)
            except entering.NotExecuted as failure:
                raise prepared.reason_of(failure, spawned) from None
            undoing.pop_all()
        status.close()
        if command >= 0:
            self._backend.keeper.hold(key, COMMAND, command)
        return self._take_in(process, spawned.pid, first, command)

    async def _set_up(self, key: str, prepared: Prepared, first: int) -> None:
        """Set, while the command waits at its gate, what must hold before it runs."""
        self._backend.keeper.hold(key, FIRST, first)

    def resume(self, process: ManagedProcess, spawned: SpawnedProcess) -> None:
        """Take over the sandbox of a command that an earlier life of the backend has confined."""
        if process.spec.sandbox is not None:
            fds = [spawned.fds.pop(name, -1) for name in (FIRST, COMMAND)]
            process.confine(self._take_in(process, spawned.pid, *fds))

    def _take_in(self, process: ManagedProcess, wrapper: int, first: int, command: int) -> Confined:
        key = process.spec.key
        ended = partial(self._ended, key)
        confined = Confined(wrapper, first, command, has_terminal=process.spec.tty, ended=ended)
        self._living[key] = confined
        return confined

    def _ended(self, key: str, confined: Confined) -> None:
        """Tidy up after the last process of a sandbox."""
        del self._living[key]
        confined.close()

    def kill_all(self) -> None:
        """End all that is in any sandbox at once."""
        for confined in self._living.values():
            confined.kill()

    def close(self) -> None:
        """Let go of all sandboxes, which go on; idempotent."""
        while self._living:
            self._living.popitem()[1].close()


def _end(first: int) -> None:
    """Kill a sandbox that was not entered."""
    with contextlib.suppress(OSError):
        signal.pidfd_send_signal(first, signal.SIGKILL)
    os.close(first)

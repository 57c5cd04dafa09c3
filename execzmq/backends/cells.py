"""Own the sandboxes of a backend that are not over: what is tidied up after each, and who waits for that.

Knows nothing of how a command gets into one.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from execzmq.backends.confined import COMMAND, FIRST, Confined
from execzmq.backends.entering import inner_of
from execzmq.backends.judging import Circumstances, verdict_of
from execzmq.backends.proxies import Proxies
from execzmq.backends.sweeping import Sweeper, has_journal
from execzmq.keeper.client import SpawnedProcess
from execzmq.keeper.messages import PROXY
from execzmq.process.ending import End
from execzmq.process.managed import ManagedProcess
from execzmq.sandbox.applied import permissions_from, sight_from
from execzmq.sandbox.cgroups import Cgroup, Cgroups


@dataclass(slots=True, eq=False)
class _Cell:
    """A sandbox, and what surrounds it; `then` is called when it is over and nobody needs it any more."""

    confined: Confined
    around: Circumstances
    then: Callable[[], None] | None = None


class Cells:
    """All sandboxes of one backend.

    Args:
        folder: of the backend; tells its control groups from those of others, in all its lives.
        run: runs what must be waited for.
    """

    def __init__(self, folder: Path, run: Callable[[Coroutine[Any, Any, object]], None]) -> None:
        self._identity = str(folder)
        self._run = run
        self._folder = folder
        self._sweeper: Sweeper | None = None
        self.proxies = Proxies()
        self._cells: dict[str, _Cell] = {}
        self._groups: Cgroups | None = None
        self._found: dict[str, Cgroup] = {}

    @property
    def cgroups(self) -> Cgroups:
        """Return where control groups are made; those of an earlier life that nobody needs are gone then."""
        if self._groups is None:
            self._groups = Cgroups.find(self._identity)
            self._found = self._groups.recover([word_of(key) for key in self._cells]).known
        return self._groups

    @property
    def sweeper(self) -> Sweeper:
        """Return who removes what sandboxes leave on the disk."""
        if self._sweeper is None:
            self._sweeper = Sweeper(self._folder, self._run)
            self._sweeper.recover([key for key, cell in self._cells.items() if not cell.confined.is_over])
        return self._sweeper

    def recover(self) -> None:
        """Tidy up after sandboxes of an earlier life that have ended, when all are known that have not."""
        if self._cells or has_journal(self._folder):
            _ = self.sweeper

    def take_in(
        self, process: ManagedProcess, wrapper: int, first: int, command: int, around: Circumstances
    ) -> Confined:
        """Own a sandbox and its descriptors from now on."""
        key = process.spec.key
        ended = partial(self._ended, key)
        confined = Confined(wrapper, first, command, has_terminal=process.spec.tty, ended=ended)
        self._cells[key] = _Cell(confined, around)
        return confined

    def resume(self, process: ManagedProcess, spawned: SpawnedProcess) -> None:
        """Take over the sandbox of a command that an earlier life of the backend has confined."""
        if (applied := process.spec.sandbox) is None:
            return
        enforced = frozenset(applied["limits_enforced"])
        around = Circumstances(permissions_from(applied), sight_from(applied), enforced)
        first, command, listener = (spawned.fds.pop(name, -1) for name in (FIRST, COMMAND, PROXY))
        if command < 0 <= first:  # the earlier life was killed before it could hand it over
            command = inner_of(first)
        if listener >= 0:
            self.proxies.serve(process, listener, around)
        process.confine(self.take_in(process, spawned.pid, first, command, around))

    async def see_out(self, process: ManagedProcess, end: End) -> None:
        """Tell a process how the command in its sandbox has ended, where the keeper tells of the wrapper."""
        cell = self._cells[process.spec.key]
        status = cell.confined.status(end.status)
        cell.around.cgroup = cell.around.cgroup or self._left(process.spec.key, cell.around)
        verdict = await verdict_of(process, cell.around, status)
        if status != end.status and not cell.confined.knows_status:
            words = (
                f"the wrapper's exit code {(end.status or 0) >> 8} stands for a signal, or is the command's"
            )
            verdict = verdict._replace(evidence=(*verdict.evidence, words))
        process.exited(end._replace(status=status), verdict)

    def _left(self, key: str, around: Circumstances) -> Cgroup | None:
        """Return the control group that an earlier life has made, if there is one."""
        return self._found.get(word_of(key)) if around.enforced and self.cgroups.controllers else None

    def when_over(self, process: ManagedProcess, then: Callable[[], None]) -> None:
        """Call as soon as nothing is left in the process's sandbox, at once where it has none."""
        cell = self._cells.get(process.spec.key)
        if cell is None:
            then()
        elif cell.confined.is_over:
            self._let_go(process.spec.key, then)
        else:
            cell.then = then

    def kill_all(self) -> None:
        """End all that is in any sandbox at once."""
        for cell in self._cells.values():
            cell.confined.kill()

    def stop(self) -> None:
        """Watch no sandbox any more, and serve none; idempotent."""
        for cell in self._cells.values():
            cell.confined.stop()
            if cell.around.proxy is not None:
                cell.around.proxy.close()
        self.proxies.close()

    async def aclose(self) -> None:
        """Let go of all sandboxes, of which some may go on, and tidy up after the others. Idempotent."""
        self.stop()
        alive = []
        while self._cells:
            key, cell = self._cells.popitem()
            if cell.confined.has_ended():
                self.sweeper.release(key)
            else:
                alive.append(word_of(key))
            cell.confined.close()
        if self._sweeper is not None:
            await self._sweeper.aclose()
        if self._groups is not None:
            await self._groups.tidy(alive)

    def _ended(self, key: str) -> None:
        """Tidy up after the last process of a sandbox."""
        cell = self._cells[key]
        if cell.around.proxy is not None:
            cell.around.proxy.close()
            self._run(cell.around.proxy.wait_closed())
        self.sweeper.release(key)
        if cell.then is not None:
            self._let_go(key, cell.then)

    def _let_go(self, key: str, then: Callable[[], None]) -> None:
        cell = self._cells.pop(key)
        cell.confined.close()
        if cell.around.cgroup is not None:
            self._run(cell.around.cgroup.remove())
        then()


def word_of(key: str) -> str:
    """Name one life of a process in a word that a control group's name can have."""
    return key.replace(".", "_")

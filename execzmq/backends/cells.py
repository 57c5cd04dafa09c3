"""Own the sandboxes of a backend that are not over: what is tidied up after each, and who waits for that.

Knows nothing of how a command gets into one.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from execzmq.backends import internet, orphans
from execzmq.backends.confined import COMMAND, FIRST, Confined, leader_of
from execzmq.backends.entering import command_in
from execzmq.backends.internet import Companion
from execzmq.backends.judging import Circumstances, verdict_of
from execzmq.backends.proxies import Proxies
from execzmq.backends.sweeping import Sweeper, has_journal
from execzmq.keeper.client import KeeperClient, SpawnedProcess
from execzmq.keeper.messages import PROXY
from execzmq.process.confinement import Leader
from execzmq.process.ending import End
from execzmq.process.managed import ManagedProcess
from execzmq.sandbox.applied import permissions_from, sight_from
from execzmq.sandbox.cgroups import Cgroup, Cgroups
from execzmq.sandbox.slirp import HELD, companion_of, is_companion


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
        keeper: returns the keeper's client.
    """

    def __init__(
        self,
        folder: Path,
        run: Callable[[Coroutine[Any, Any, object]], None],
        keeper: Callable[[], KeeperClient],
    ) -> None:
        self._identity = str(folder)
        self._keeper = keeper
        self._companions: dict[str, SpawnedProcess] = {}
        self._run = run
        self._folder = folder
        self._sweeper: Sweeper | None = None
        self.proxies = Proxies()
        self._cells: dict[str, _Cell] = {}
        self._groups: Cgroups | None = None
        self._found: dict[str, Cgroup] = {}
        self._unseen: set[str] = set()

    @property
    def cgroups(self) -> Cgroups:
        """Return where control groups are made; those of an earlier life that nobody needs are gone then."""
        if self._groups is None:
            self._groups = Cgroups.find(self._identity)
            needed = [word_of(key) for key in (*self._cells, *self._unseen)]
            self._found = self._groups.recover(needed).known
        return self._groups

    @property
    def sweeper(self) -> Sweeper:
        """Return who removes what sandboxes leave on the disk."""
        if self._sweeper is None:
            self._sweeper = Sweeper(self._folder, self._run)
            self._sweeper.recover([key for key, cell in self._cells.items() if not cell.confined.is_over])
        return self._sweeper

    def without_companions(self, left: dict[str, SpawnedProcess]) -> dict[str, SpawnedProcess]:
        """Take what is no command out of what the keeper has; return the rest."""
        self._companions = {key: found for key, found in left.items() if is_companion(key)}
        return {key: found for key, found in left.items() if not is_companion(key)}

    def recover(self, processes: Iterable[ManagedProcess]) -> None:
        """Tidy up after sandboxes of an earlier life that have ended, when all are known that have not.

        Args:
            processes: which that life has left.
        """
        while self._companions:
            key, companion = self._companions.popitem()
            companion.close()
            self._keeper().abandon(key)
        had_limits = any((process.spec.sandbox or {}).get("limits_enforced") for process in processes)
        if self._cells or self._unseen or had_limits or has_journal(self._folder):
            _ = self.sweeper, self.cgroups

    async def hand_over(self, keeper: KeeperClient, processes: Iterable[ManagedProcess]) -> int:
        """Give a keeper the commands of one that has died, and what serves them; return how many it got."""
        count = await orphans.hand_over(keeper, processes)
        for cell in self._cells.values():
            if cell.around.companion is not None:
                cell.around.companion.hand_over(keeper)
        return count

    def take_in(
        self,
        process: ManagedProcess,
        wrapper: int,
        first: Leader,
        command: Leader,
        around: Circumstances,
        others: Mapping[str, int],
    ) -> Confined:
        """Own a sandbox and its descriptors from now on; see `Confined`."""
        key = process.spec.key
        ended = partial(self._ended, key)
        confined = Confined(
            wrapper, first, command, has_terminal=process.spec.tty, ended=ended, others=others
        )
        self._cells[key] = _Cell(confined, around)
        if around.companion is not None:
            around.companion.watch(partial(self._network_lost, process))
        return confined

    def hold_command(self, process: ManagedProcess) -> None:
        """Let the keeper hold the command, whose status is the one that counts.

        Without that the next server finds it by its number inside, as long as it runs.
        """
        cell = self._cells.get(process.spec.key)
        command = -1 if cell is None else cell.confined.descriptors().get(COMMAND, -1)
        if command >= 0:
            with contextlib.suppress(OSError):
                self._keeper().hold(process.spec.key, COMMAND, command)

    def _network_lost(self, process: ManagedProcess, words: str) -> None:
        cell = self._cells.get(process.spec.key)
        if cell is None or not cell.confined.has_ended():
            process.notice(internet.NOTICE, {"text": words})

    def resume(self, process: ManagedProcess, spawned: SpawnedProcess) -> None:
        """Take over the sandbox of a command that an earlier life of the backend has confined."""
        if (applied := process.spec.sandbox) is None:
            return
        around = _around(applied)
        first, command = (leader_of(spawned.fds.pop(name, -1)) for name in (FIRST, COMMAND))
        others = {name: spawned.fds.pop(name) for name in (PROXY, HELD) if name in spawned.fds}
        if first.pidfd >= 0 and command.pidfd < 0 and (command := command_in(first.pid)).pidfd >= 0:
            self._keeper().hold(process.spec.key, COMMAND, command.pidfd)
        if PROXY in others:
            self.proxies.serve(process, os.dup(others[PROXY]), around)
        around.companion = self._companion_of(process.spec.key, others)
        process.confine(self.take_in(process, spawned.pid, first, command, around, others))
        if around.permissions.network.mode == "internet" and around.companion is None:
            self._run(self._tell_lost(process))

    def _companion_of(self, key: str, others: Mapping[str, int]) -> Companion | None:
        found = self._companions.pop(companion_of(key), None)
        return (
            None if found is None else Companion(key, found, os.dup(others[HELD]) if HELD in others else -1)
        )

    async def _tell_lost(self, process: ManagedProcess) -> None:
        self._network_lost(
            process, "the sandbox has no network any more: its companion ended without a server"
        )

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

    def end_unseen(self, process: ManagedProcess, end: End) -> None:
        """Tell a process, soon, how the command in its sandbox has ended, and all in it, without a server."""
        self._unseen.add(process.spec.key)
        self._run(self._judge_unseen(process, end))

    async def _judge_unseen(self, process: ManagedProcess, end: End) -> None:
        key, applied = process.spec.key, process.spec.sandbox
        assert applied is not None
        around = _around(applied)
        around.cgroup = self._left(key, around)
        process.ended_unseen(end, await verdict_of(process, around, end.status))
        self._unseen.discard(key)
        if around.cgroup is not None:
            await around.cgroup.remove()

    def _left(self, key: str, around: Circumstances) -> Cgroup | None:
        """Return the control group that an earlier life has made, if there is one."""
        return self._found.get(word_of(key)) if around.enforced and self.cgroups.controllers else None

    def cgroup_of(self, process: ManagedProcess) -> Cgroup | None:
        """Return the control group of a process's sandbox, `None` where there is none."""
        cell = self._cells.get(process.spec.key)
        if cell is None:
            return None
        return cell.around.cgroup or self._left(process.spec.key, cell.around)

    def when_over(self, process: ManagedProcess, then: Callable[[], None]) -> None:
        """Call as soon as nothing is left in the process's sandbox, at once where it has none."""
        cell = self._cells.get(process.spec.key)
        if cell is None:
            then()
        elif cell.confined.is_over:
            self._let_go(process.spec.key, then)
        else:
            cell.then = then

    def give_up(self, process: ManagedProcess) -> None:
        """End all that is in the sandbox, if any, of a process that could not be started after all."""
        if (cell := self._cells.get(process.spec.key)) is not None:
            cell.confined.kill()
            self.when_over(process, lambda: None)

    def kill_all(self) -> None:
        """End all that is in any sandbox at once."""
        for cell in self._cells.values():
            cell.confined.kill()

    def stop(self) -> None:
        """Watch no sandbox any more, and serve none; idempotent."""
        for cell in self._cells.values():
            cell.confined.stop()
            cell.around.close()
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
        if cell.around.companion is not None:
            cell.around.companion.end(self._keeper())
        if cell.around.proxy is not None:
            cell.around.proxy.close()
            self._keeper().close_name(key, PROXY)
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


def _around(applied: dict[str, Any]) -> Circumstances:
    """Return what surrounds a command, as far as an earlier life has told it."""
    enforced = frozenset(applied["limits_enforced"])
    return Circumstances(permissions_from(applied), sight_from(applied), enforced)


def word_of(key: str) -> str:
    """Name one life of a process in a word that a control group's name can have."""
    return key.replace(".", "_")

"""Own the signals to a command's processes: to its group, to its terminal's foreground, to its whole tree.

They go by pidfd, so that a number that has come back is never hit. Knows nothing of lifecycles and results.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import signal
import sys
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass

from execzmq.process.census import Entry, Identity, Scope
from execzmq.process.scan import Family, Member, TreeScanner, command_of, read_entry, stream_id, streams_of
from execzmq.types.results import ProcessRef, TerminateReport

RESCAN = 0.1
"""Seconds after which one looks for newcomers, at first and while killing."""
RESCAN_SLOWEST = 1.0
"""The same in a long grace, in which the time between two looks grows."""
KILL_LIMIT = 2.0
"""Seconds after KILL at which what is still there is reported as surviving."""

_BATCH = 64
"""Processes that get their signal before other work of the loop has its turn."""
_PROCESS_GROUP = 4
"""Linux 6.9: PIDFD_SIGNAL_PROCESS_GROUP, which also reaches the group of a leader that was reaped."""
_TIOCSIG = 0x40045436
"""Linux: signal to the foreground group of the terminal that this is the master of."""


async def terminate(scope: Scope, scanner: TreeScanner, grace: float) -> TerminateReport:
    """End everything that belongs to a command: TERM, up to `grace` seconds, KILL.

    Returns as soon as nothing of it is left, or 2 s after KILL; zombies count as ended. Also works when the
    command itself is gone. Cancelling sends no further signal.

    Args:
        grace: seconds; 0.0 = KILL at once.
    """
    ladder = _Ladder(scope, scanner)
    try:
        if grace <= 0 or not await ladder.step(signal.SIGTERM, grace, RESCAN_SLOWEST):
            await ladder.step(signal.SIGKILL, KILL_LIMIT, RESCAN)
        return ladder.report()
    finally:
        ladder.close()


async def kill(scope: Scope, scanner: TreeScanner) -> TerminateReport:
    """End everything that belongs to a command at once; see `terminate`."""
    return await terminate(scope, scanner, 0.0)


def signal_group(pidfd: int, pid: int, signo: int) -> None:
    """Send a signal to the process group that a command leads.

    Args:
        pidfd: of the command; -1 on a system that has none.

    Raises:
        ProcessLookupError: nobody is in the group, or nobody knows which it is, or the command was reaped and
            this kernel cannot tell whose group it is. PermissionError: all of them are another user's.
    """
    if sys.platform == "linux" and pidfd != -1:
        try:
            signal.pidfd_send_signal(pidfd, signo, None, _PROCESS_GROUP)
            return
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
        signal.pidfd_send_signal(pidfd, 0)  # until it is reaped its number is its own
    if pid <= 0:  # which would be this process's own group
        raise ProcessLookupError(errno.ESRCH, "the process group is not known")
    os.killpg(pid, signo)


def signal_foreground(master: int, signo: int) -> None:
    """Send a signal to the foreground process group of a terminal, whatever its settings.

    Raises:
        ProcessLookupError: the terminal has none.
    """
    if sys.platform == "linux":
        with suppress(OSError):  # it takes INT, QUIT and TSTP, what keys send
            fcntl.ioctl(master, _TIOCSIG, signo)
            return
    group = foreground_group(master)
    if group == 0:
        raise ProcessLookupError(errno.ESRCH, "the terminal has no foreground process group")
    os.killpg(group, signo)


def foreground_group(master: int) -> int:
    """Return the foreground process group of a terminal, 0 where there is none."""
    try:
        return max(os.tcgetpgrp(master), 0)
    except OSError:
        return 0


def holders_of(fds: Iterable[int], skip: Collection[int] = ()) -> list[tuple[int, str]]:
    """Return pid and words of those who can write to one of these pipes or terminals; looks at all of /proc.

    Args:
        fds: our ends.
        skip: pids not to look at, besides this process.
    """
    wanted = {stream_id(fd) for fd in fds}
    if not wanted or not os.path.isdir("/proc/self/fd"):
        return []
    passed_over = {os.getpid(), *skip}
    pids = (int(name) for name in os.listdir("/proc") if name.isdecimal())
    return [(pid, command_of(pid)) for pid in pids if pid not in passed_over and _holds(pid, wanted)]


def _holds(pid: int, wanted: set[tuple[int, int]]) -> bool:
    try:
        return any(stream in wanted for stream in streams_of(pid, writers=True))
    except OSError:
        return False


@dataclass(slots=True, eq=False)
class _Target:
    """One process that is being ended. `pidfd` is owned; -1 where there is none (yet, or any more)."""

    identity: Identity
    ref: ProcessRef
    pidfd: int
    signalled: bool = False
    ended: bool = False


class _Ladder:
    """The ending of one tree: who was found, who got which signal, who is gone."""

    def __init__(self, scope: Scope, scanner: TreeScanner) -> None:
        self._scope = scope
        self._scanner = scanner
        self._loop = asyncio.get_running_loop()
        self._targets: dict[Identity, _Target] = {}
        self._strays: tuple[Member, ...] = ()
        self._ended = asyncio.Event()

    async def step(self, signo: signal.Signals, seconds: float, slowest: float) -> bool:
        """Send a signal to everybody, newcomers too; return whether nobody is left before the time is over.

        Only a look that finds nobody tells that: who is ending may have left a child since the last one.
        """
        deadline = self._loop.time() + seconds
        reached: set[Identity] = set()
        pause = RESCAN
        while True:
            self._ended.clear()
            family = await self._look(signo)
            if family is not None:
                self._note(family)
                await self._send(family, signo, reached)
            is_empty = family is not None and not family.members
            left = deadline - self._loop.time()
            if is_empty or left <= 0:
                return is_empty
            await self._wait_for_an_end(min(pause, left))
            pause = min(pause * 1.5, slowest)

    async def _look(self, signo: signal.Signals) -> Family | None:
        """Return who is there; where no descriptor is free to look, signal the command's own group."""
        try:
            return await self._scanner.family(self._scope)
        except OSError:
            # Its end frees descriptors: those of its streams.
            with suppress(OSError):
                pidfd = -1 if self._scope.pidfd is None else self._scope.pidfd
                signal_group(pidfd, self._scope.pid, signo)
            return None

    def report(self) -> TerminateReport:
        """Say what became of everybody."""
        targets = self._targets.values()
        return TerminateReport(
            signalled=tuple(target.ref for target in targets if target.signalled),
            ended=tuple(target.ref for target in targets if target.signalled and target.ended),
            survivors=tuple(target.ref for target in targets if not target.ended),
            unattributed=tuple(member.ref for member in self._strays),
        )

    def close(self) -> None:
        """Close every pidfd. Idempotent."""
        for target in self._targets.values():
            self._let_go(target)

    def _note(self, family: Family) -> None:
        """Take the newcomers in, and cross out who is not there any more."""
        living = {member.entry.identity for member in family.members}
        for target in self._targets.values():
            if target.identity not in living and not target.ended:
                self._cross_out(target)
        for member in family.members:
            known = self._targets.get(member.entry.identity)
            if known is None or (known.pidfd == -1 and not known.ended):
                self._take_in(member)
        self._strays = family.unattributed

    def _take_in(self, member: Member) -> None:
        pidfd = open_pidfd(member.entry)
        if pidfd is None:
            return
        target = _Target(member.entry.identity, member.ref, pidfd)
        self._targets[target.identity] = target
        if pidfd != -1:
            self._loop.add_reader(pidfd, self._cross_out, target)

    async def _send(self, family: Family, signo: signal.Signals, reached: set[Identity]) -> None:
        for count, member in enumerate(family.members, 1):
            target = self._targets.get(member.entry.identity)
            if target is None or target.ended:
                continue
            if signo != signal.SIGKILL and target.identity.pid in self._scope.wrappers:
                continue  # what it is around ends first, and it by itself
            if target.identity not in reached and _send_to(target, signo):
                reached.add(target.identity)
                target.signalled = True
            if member.entry.is_stopped:
                _send_to(target, signal.SIGCONT)  # a stopped process takes no TERM
            if count % _BATCH == 0:
                await asyncio.sleep(0)

    async def _wait_for_an_end(self, seconds: float) -> None:
        # Python 3.11's `wait_for` loses a cancellation that comes together with the event.
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._ended.wait()

    def _cross_out(self, target: _Target) -> None:
        target.ended = True
        self._let_go(target)
        self._ended.set()

    def _let_go(self, target: _Target) -> None:
        pidfd, target.pidfd = target.pidfd, -1
        if pidfd != -1:
            self._loop.remove_reader(pidfd)
            os.close(pidfd)


def open_pidfd(entry: Entry) -> int | None:
    """Return a pidfd of exactly this process, -1 where none can be had; `None` if the process is gone."""
    if sys.platform != "linux":
        return -1
    try:
        pidfd = os.pidfd_open(entry.pid)
    except ProcessLookupError:
        return None
    except OSError:  # too many descriptors: the next look tries again
        return -1
    now = read_entry(entry.pid)
    if now is None or now.identity != entry.identity:
        os.close(pidfd)
        return None
    return pidfd


def _send_to(target: _Target, signo: signal.Signals) -> bool:
    """Send a signal and return whether it was delivered."""
    try:
        if sys.platform == "linux":
            signal.pidfd_send_signal(target.pidfd, signo)
        else:
            os.kill(target.identity.pid, signo)
    except OSError:
        return False
    return True

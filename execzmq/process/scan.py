"""Own the looking at the machine's processes: one pass over /proc, in a thread, for all who wait for one.

Knows nothing of signals. Where there is no /proc psutil is asked, which tells neither marks nor streams.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import stat
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from execzmq.process.census import Census, Entry, Evidence, Scope, StreamId
from execzmq.process.environ import MARK_NAME
from execzmq.types.results import ProcessRef

if TYPE_CHECKING:
    import psutil

STUCK_AFTER = 5.0
"""Seconds after which a pass counts as stuck."""
HAS_PROC = os.path.exists("/proc/self/stat")
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_COMMAND_MOST = 4096
_LISTINGS = 10
"""Most lists of /proc in one look, should others start processes all the time."""
_PIECE = 64 * 1024
_ANSWERS = 8
"""Requests that are answered in one turn of the loop."""
_TIOCGPTN = 0x80045430
"""Linux: the number of a terminal by its master (`os.ptsname` comes with Python 3.13)."""


class Member(NamedTuple):
    """A process of a command, and its words."""

    entry: Entry
    command: str

    @property
    def ref(self) -> ProcessRef:
        """Name the process as reports do."""
        return ProcessRef(self.entry.pid, self.command)


class Family(NamedTuple):
    """The living members of a scope, and what may be of it but cannot be attributed."""

    members: tuple[Member, ...]
    unattributed: tuple[Member, ...]


_Request = tuple[Scope, "asyncio.Future[Family]"]


class TreeScanner:
    """Looks at all processes, once for everybody who asks meanwhile.

    Args:
        keeper_pid: parent of all commands and, as a subreaper, of whatever loses its parent; may be changed
            when another keeper takes over.
        living: return the scopes of all commands of which something may still be alive.
    """

    def __init__(self, keeper_pid: int, living: Callable[[], Iterable[Scope]]) -> None:
        self.keeper_pid = keeper_pid
        self._living = living
        self._waiting: list[_Request] = []
        self._running: _Run | None = None
        self._stuck = 0
        self._closed = False

    async def family(self, scope: Scope) -> Family:
        """Look at the machine and return who belongs to `scope`; remembers them in `scope.known`.

        Cancelling leaves the pass to the others who wait for it.

        Raises:
            RuntimeError: the scanner is closed.
        """
        if self._closed:
            raise RuntimeError("the scanner is closed")
        answer: asyncio.Future[Family] = asyncio.get_running_loop().create_future()
        self._waiting.append((scope, answer))
        if self._running is None:
            self._start_pass()
        return await answer

    def close(self) -> None:
        """Look no more; whoever waits is cancelled. Idempotent."""
        self._closed = True
        run, self._running = self._running, None
        waiting, self._waiting = self._waiting, []
        if run is not None:
            run.timer.cancel()
            waiting += run.requests
        for _, answer in waiting:
            answer.cancel()

    def _start_pass(self) -> None:
        requests, self._waiting = self._waiting, []
        wanted = dict.fromkeys(scope for scope, _ in requests)
        scopes = dict.fromkeys([*self._living(), *wanted])
        unmet = [scope for scope in scopes if _has_leader(scope)]
        work = Pass(list(scopes), list(wanted), unmet, self.keeper_pid, shallow=self._stuck > 0)
        loop = asyncio.get_running_loop()
        run = _Run(requests, loop.call_later(STUCK_AFTER, self._is_stuck))
        self._running = run
        # Not a pool: at its exit Python waits for the threads of pools, also for one that is stuck.
        threading.Thread(target=self._work, args=(loop, run, work), name="execzmq-scan", daemon=True).start()

    def _work(self, loop: asyncio.AbstractEventLoop, run: _Run, work: Pass) -> None:
        outcome: dict[Scope, Look] | Exception
        try:
            outcome = work.look()
        except Exception as error:
            outcome = error
        with suppress(RuntimeError):  # the loop may have ended meanwhile
            loop.call_soon_threadsafe(self._end_pass, run, outcome)

    def _end_pass(self, run: _Run, outcome: dict[Scope, Look] | Exception) -> None:
        if run.is_stuck:
            self._stuck -= 1
        if run is not self._running:
            return
        run.timer.cancel()
        self._running = None
        if isinstance(outcome, Exception):
            for _, answer in _unanswered(run.requests):
                answer.set_exception(outcome)
        else:
            for scope, seen in outcome.items():
                scope.known = frozenset(member.entry.identity for member in seen.family.members)
                scope.session_over = seen.session_over
            _answer(outcome, run.requests)
        if self._waiting:
            self._start_pass()

    def _is_stuck(self) -> None:
        """Look again without what can hang: the memory of a process that waits for a dead disk."""
        run, self._running = self._running, None
        if run is not None:
            run.is_stuck = True
            self._stuck += 1
            self._waiting = [*_unanswered(run.requests), *self._waiting]
            self._start_pass()


@dataclass(slots=True, eq=False)
class _Run:
    """A pass under way: who waits for it, and what happens if it takes too long."""

    requests: list[_Request]
    timer: asyncio.TimerHandle
    is_stuck: bool = False


class Look(NamedTuple):
    """What one pass has found for one scope."""

    family: Family
    session_over: bool


def _answer(found: dict[Scope, Look], requests: list[_Request]) -> None:
    """Answer a few and then the others, so that not all of them act in one turn of the loop."""
    now, later = requests[:_ANSWERS], requests[_ANSWERS:]
    for scope, answer in _unanswered(now):
        answer.set_result(found[scope].family)
    if later:
        asyncio.get_running_loop().call_soon(_answer, found, later)


def _unanswered(requests: list[_Request]) -> list[_Request]:
    return [(scope, answer) for scope, answer in requests if not answer.done()]


@dataclass(slots=True)
class Pass:
    """One pass over the machine.

    Args:
        scopes: all commands of which something may be alive.
        wanted: those of them whose members are asked for.
        unmet: those whose number is that of the command, as its pidfd has just vouched, and whose start is
            not known yet.
        keeper: pid of the keeper.
        shallow: look at nothing that can hang; orphans are then known by their session alone, or from before.
    """

    scopes: list[Scope]
    wanted: list[Scope]
    unmet: list[Scope]
    keeper: int
    shallow: bool = False

    def look(self) -> dict[Scope, Look]:
        """Return what belongs to each scope that is wanted; may take long."""
        entries = read_entries()
        for scope in self.unmet:
            leader = entries.get(scope.pid)
            scope.start = 0 if leader is None else leader.start
        protected = ancestors(entries, os.getpid()) | ancestors(entries, self.keeper)
        oldest = min(scope.start for scope in self.wanted)

        def evidence(pid: int) -> Evidence | None:
            return read_evidence(pid) if entries[pid].start >= oldest and not self.shallow else None

        census = Census(entries, self.scopes, protected=protected, keeper=self.keeper, look=evidence)
        return {scope: self._look_for(scope, census) for scope in self.wanted}

    def _look_for(self, scope: Scope, census: Census) -> Look:
        members, strays = census.of(scope)
        strays = tuple(stray for stray in strays if _is_there(stray))  # the dying carry nothing
        family = Family(self._with_commands(members), self._with_commands(strays))
        return Look(family, census.session_is_over(scope))

    def _with_commands(self, entries: Iterable[Entry]) -> tuple[Member, ...]:
        name = name_of if self.shallow else command_of
        return tuple(Member(entry, name(entry.pid)) for entry in entries)


def _is_there(entry: Entry) -> bool:
    now = read_entry(entry.pid) if HAS_PROC else entry
    return now is not None and now.identity == entry.identity and now.state not in "ZX"


def ancestors(entries: dict[int, Entry], pid: int) -> set[int]:
    """Return `pid` and all its ancestors."""
    found: set[int] = set()
    while pid not in found and pid in entries:
        found.add(pid)
        pid = entries[pid].ppid
    return found


def _has_leader(scope: Scope) -> bool:
    """Tell whether its start can be learnt: the command is not reaped, so its number is its own."""
    if scope.start or scope.pidfd is None or scope.pidfd < 0:
        return False
    try:
        signal.pidfd_send_signal(scope.pidfd, 0)
    except PermissionError:
        return True  # another user's, and there
    except OSError:
        return False
    return True


def start_time(pid: int) -> int:
    """Return when a process started, in the system's ticks; 0 where there is none."""
    entry = read_entry(pid) if HAS_PROC else _entries_by_psutil().get(pid)
    return 0 if entry is None else entry.start


def stream_id(fd: int) -> StreamId:
    """Return the device and inode by which whoever holds this pipe or terminal is known.

    `fd` is either end of a pipe, or the master or slave of a terminal.
    """
    status = os.fstat(fd)
    if stat.S_ISCHR(status.st_mode):
        with suppress(OSError):  # a slave is no master and names itself
            status = os.stat(_slave_of(fd))
    return status.st_dev, status.st_ino


def _slave_of(master: int) -> str:
    number = fcntl.ioctl(master, _TIOCGPTN, bytes(4))
    return f"/dev/pts/{int.from_bytes(number, sys.byteorder)}"


# What one process shows


def read_entries() -> dict[int, Entry]:
    """Return the living processes of the machine by pid.

    Lists again until nobody is new: who forks and ends during the look leaves a child that the first list has
    not. So if a tree seems to be empty it is.
    """
    if not HAS_PROC:
        return _entries_by_psutil()
    found: dict[int, Entry] = {}
    listed: set[int] = set()
    for _ in range(_LISTINGS):
        new = {int(name) for name in os.listdir("/proc") if name.isdecimal()} - listed
        if not new:
            break
        listed |= new
        entries = (read_entry(pid) for pid in new)
        found.update((entry.pid, entry) for entry in entries if entry is not None and entry.state not in "ZX")
    return found


def read_entry(pid: int) -> Entry | None:
    """Return what /proc shows of a process, a zombie too; `None` where there is none."""
    text = _read(pid, "stat", 1024)
    # The command's name stands in brackets and may hold blanks and brackets itself.
    fields = text[text.rfind(b")") + 2 :].split(b" ", 22)
    if len(fields) < 22:
        return None
    cpu = sum(map(int, fields[11:15])) / _TICKS
    memory = int(fields[21]) * _PAGE
    return Entry(pid, int(fields[1]), int(fields[3]), int(fields[19]), fields[0].decode(), cpu, memory)


def read_evidence(pid: int) -> Evidence | None:
    """Return the mark of a process of the same user and the streams that it may write to.

    `None` where it may not be asked.
    """
    try:
        if os.stat(f"/proc/{pid}").st_uid != os.geteuid():
            return None
        # Not those that it reads: until it executes its program, a child of the keeper has a copy of the
        # keeper's ends of every stream, and would be taken for a member of whatever is being ended.
        return Evidence(_mark_of(pid), frozenset(streams_of(pid, writers=True)))
    except OSError:
        return None


def _mark_of(pid: int) -> bytes | None:
    wanted = MARK_NAME + b"="
    for entry in _read(pid, "environ", _PIECE).split(b"\0"):
        if entry.startswith(wanted):
            return entry[len(wanted) :]
    return None


def streams_of(pid: int, *, writers: bool = False) -> Iterable[StreamId]:
    """Yield the pipes and character devices that a process holds; with `writers`, those it may write to.

    Raises:
        OSError: it is gone, or of another user.
    """
    for number in os.listdir(f"/proc/{pid}/fd"):
        path = f"/proc/{pid}/fd/{number}"
        with suppress(OSError):
            status = os.stat(path)
            if not (stat.S_ISFIFO(status.st_mode) or stat.S_ISCHR(status.st_mode)):
                continue
            if not writers or os.lstat(path).st_mode & stat.S_IWUSR:  # the link's mode is that of the opening
                yield status.st_dev, status.st_ino


def command_of(pid: int) -> str:
    """Return the words of a process, or its name in brackets where it shows none."""
    words = (
        _read(pid, "cmdline", _PIECE)[:_COMMAND_MOST].replace(b"\0", b" ").decode(errors="replace").strip()
    )
    return words or name_of(pid)


def name_of(pid: int) -> str:
    """Return the name of a process in brackets."""
    return f"[{_read(pid, 'comm', 64).decode(errors='replace').strip()}]"


def _read(pid: int, name: str, piece: int) -> bytes:
    """Return a file of a process's folder, empty where it is gone or closed to us."""
    data = b""
    try:
        fd = os.open(f"/proc/{pid}/{name}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return data
    try:
        while len(more := os.read(fd, piece)) == piece:
            data += more
        return data + more
    except OSError:
        return data
    finally:
        os.close(fd)


def _entries_by_psutil() -> dict[int, Entry]:
    import psutil

    found: dict[int, Entry] = {}
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if process.status() != psutil.STATUS_ZOMBIE:
                state = "T" if process.status() == psutil.STATUS_STOPPED else "S"
                start = int(process.create_time() * 100)
                session = os.getsid(process.pid)
                found[process.pid] = Entry(
                    process.pid, process.ppid(), session, start, state, *_use_by_psutil(process)
                )
    return found


def _use_by_psutil(process: psutil.Process) -> tuple[float, int]:
    """Return processor seconds and resident bytes; zeros where another user's are not told."""
    import psutil

    with suppress(psutil.Error, OSError):
        times = process.cpu_times()
        used = times.user + times.system + getattr(times, "children_user", 0.0)
        return used + getattr(times, "children_system", 0.0), process.memory_info().rss
    return 0.0, 0

"""What one test left behind: processes, descriptors, threads, ZeroMQ sockets.

A snapshot is taken before the test and compared after it. Things that are just closing get a short bounded
time. Reads /proc, so processes and descriptors are found on Linux only.
"""

import gc
import os
import signal
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support import ms, wait_until

PROC = Path("/proc")


@dataclass(frozen=True)
class Snapshot:
    """What was there before a test. Whatever descends from `apart` comes and goes without the test."""

    pids: frozenset[int]
    apart: frozenset[int]
    descriptors: dict[int, str]
    threads: frozenset[threading.Thread]
    zmq_sockets: int


def take(apart: frozenset[int] = frozenset()) -> Snapshot:
    """Record what is there now.

    `apart` are processes that several tests share and that start and end children as they please: a browser.
    """
    threads = frozenset(threading.enumerate())
    return Snapshot(frozenset(_pids()), apart, _descriptors(), threads, len(_open_zmq_sockets()))


def find(before: Snapshot, home: Path, seconds: float = 1.0) -> list[str]:
    """Return one line for each thing that is new and still there after `seconds`.

    `home` is the test's private folder: a process that mentions it is of the test, whoever its parent is.
    """
    if not _left(before, home):
        return []
    gc.collect()
    try:
        wait_until(lambda: not _left(before, home), seconds)
    except TimeoutError:
        return _left(before, home)
    return []


def kill_left(before: Snapshot, home: Path) -> None:
    """End what a test left running, so that it disturbs neither the next test nor the machine."""
    for pid in _strays(before, home):
        _kill(pid)


def _kill(pid: int) -> None:
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        signal.pidfd_send_signal(fd, signal.SIGKILL)
    except ProcessLookupError:
        pass
    finally:
        os.close(fd)


def _left(before: Snapshot, home: Path) -> list[str]:
    lines = [f"process {pid}: {_command(pid)}" for pid in _strays(before, home)]
    lines += [f"thread {t.name}" for t in threading.enumerate() if t not in before.threads]
    sockets = _open_zmq_sockets()
    if len(sockets) > before.zmq_sockets:
        lines += [f"zmq socket {socket!r}" for socket in sockets]
    elif not sockets:
        _end_idle_zmq_context()  # its own descriptors are no leak, and gone with it
    now = _descriptors()
    lines += [f"descriptor {fd}: {what}" for fd, what in now.items() if before.descriptors.get(fd) != what]
    return lines


def _descriptors() -> dict[int, str]:
    try:
        numbers = os.listdir("/proc/self/fd")
    except FileNotFoundError:
        return {}
    found = ((int(number), _readlink(f"/proc/self/fd/{number}")) for number in numbers)
    return {fd: what for fd, what in found if what}  # the listing's own descriptor is gone by now


def _open_zmq_sockets() -> list[object]:
    zmq = sys.modules.get("zmq")
    shared = zmq.Context._instance if zmq else None
    return [socket for socket in shared._sockets if not socket.closed] if shared else []


def _end_idle_zmq_context() -> None:
    """Terminate the shared context where no socket of it is open: the next user makes a new one.

    So is the thread that frees what was sent without a copy.
    """
    garbage = sys.modules.get("zmq.utils.garbage")
    if garbage is not None:
        garbage.gc.stop()
    zmq = sys.modules.get("zmq")
    shared = zmq.Context._instance if zmq else None
    if shared is not None and not shared.closed:
        terminator = threading.Thread(
            target=shared.term, daemon=True
        )  # a message on its way out can hold it up
        terminator.start()
        terminator.join(ms(1000))


def _strays(before: Snapshot, home: Path) -> list[int]:
    new = [pid for pid in _pids() if pid not in before.pids]
    found = {pid for pid in new if _is_ours(pid, before.apart) or _mentions(pid, os.fsencode(home))}
    found |= {pid for pid in new if _parent(pid) in found}
    return sorted(found)


def _pids() -> Iterator[int]:
    if PROC.is_dir():
        yield from (int(name) for name in os.listdir(PROC) if name.isdecimal())


def _is_ours(pid: int, apart: frozenset[int]) -> bool:
    """Tell whether a process descends from this one, and not by way of one that is apart."""
    while pid > 1 and pid not in apart:
        pid = _parent(pid)
        if pid == os.getpid():
            return True
    return False


def _parent(pid: int) -> int:
    """Return the parent's pid, 0 for a process that has gone."""
    # The command's name stands in brackets and may hold blanks and brackets itself.
    fields = _read(pid, "stat").rpartition(b") ")[2].split()
    return int(fields[1]) if fields else 0


def _mentions(pid: int, folder: bytes) -> bool:
    """Tell whether the process's words, environment, folder or descriptors name `folder`."""
    if folder in _read(pid, "environ") or folder in _read(pid, "cmdline"):
        return True
    return any(folder in os.fsencode(target) for target in _links(pid))


def _links(pid: int) -> Iterator[str]:
    yield _readlink(f"/proc/{pid}/cwd")
    try:
        numbers = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return
    yield from (_readlink(f"/proc/{pid}/fd/{number}") for number in numbers)


def _command(pid: int) -> str:
    words = _read(pid, "cmdline").replace(b"\0", b" ").decode(errors="replace").strip()
    return words[:200] or _read(pid, "stat").decode(errors="replace")[:60]


def _read(pid: int, name: str) -> bytes:
    try:
        return (PROC / str(pid) / name).read_bytes()
    except OSError:
        return b""


def _readlink(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""

"""All that descends from this process, found in /proc, and its end.

Owns nothing. As a subreaper the keeper inherits whoever loses a parent, so that ancestry finds also what
made a session of its own.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time

from execzmq.keeper import procfs

_LOOKS = 3
"""Times that one looks for who was being forked at the last look."""
_STILL: tuple[list[bytes], ...] = ([], [b"T"], [b"t"], [b"Z"], [b"X"])
"""States in which a process has no more children."""
_STOP_SECONDS, _LOOK_AGAIN = 1.0, 0.0005
"""How long a process may need to stand still, which takes as long as its system call, and a busy machine."""


def parent_of(pid: int) -> int:
    """Return the parent of a process, 0 if there is no such process."""
    try:
        return int(_stat(pid)[procfs.PARENT])
    except (IndexError, ValueError):
        return 0


def _stat(pid: int) -> list[bytes]:
    """Return what the kernel tells of a process from its state on; nothing if there is none."""
    with contextlib.suppress(OSError):
        return procfs.stat_of(pid)
    return []


def is_descendant(pid: int, ancestor: int) -> bool:
    """Tell whether a process is below another one (or is it)."""
    while pid > 1:
        if pid == ancestor:
            return True
        pid = parent_of(pid)
    return False


def descendants(ancestor: int) -> list[int]:
    """List all processes below one, in no particular order."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            children.setdefault(parent_of(int(name)), []).append(int(name))
    found: list[int] = []
    pending = [ancestor]
    while pending:
        below = children.get(pending.pop(), [])
        found += below
        pending += below
    return found


def kill_from(pid: int) -> None:
    """Send KILL to a child of this process and to all below it; the child cannot fork meanwhile."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGSTOP)
        _wait_stopped(pid)
        for _ in range(_LOOKS):
            if kill_descendants(pid):
                break
        os.kill(pid, signal.SIGKILL)


def _wait_stopped(pid: int) -> None:
    """Wait until a process stands still: one that makes namespaces finishes that, and has a child then."""
    end = time.monotonic() + _STOP_SECONDS
    while _stat(pid)[:1] not in _STILL and time.monotonic() < end:
        time.sleep(_LOOK_AGAIN)


def kill_left(session: int) -> None:
    """Send KILL to whom the leader of a session has left: who has lost its parent is this process's child."""
    for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
        _, parent, _, found = (*_stat(pid)[:4], b"", b"", b"", b"")[:4]
        if pid != session and (parent, found) == (b"%d" % os.getpid(), b"%d" % session):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)


def kill_descendants(ancestor: int) -> bool:
    """Send KILL to all processes below one; True if there was none.

    Who is forked meanwhile is found by the next call: it must be repeated until it returns True.
    """
    found = descendants(ancestor)
    for pid in found:
        # Only the caller reaps its children, and whoever lost a parent is its child: the numbers are still
        # theirs.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    return not found

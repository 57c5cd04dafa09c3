"""All that descends from this process, found in /proc, and its end.

Owns nothing. As a subreaper the keeper inherits whoever loses a parent, so that ancestry finds also what
made a session of its own.
"""

from __future__ import annotations

import contextlib
import os
import signal

_LOOKS = 3
"""Times that one looks for who was being forked at the last look."""


def parent_of(pid: int) -> int:
    """Return the parent of a process, 0 if there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The name in parentheses may have spaces and parentheses itself.
            return int(file.read().rpartition(b")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return 0


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
        for _ in range(_LOOKS):
            if kill_descendants(pid):
                break
        os.kill(pid, signal.SIGKILL)


def kill_session(leader: int) -> None:
    """Send KILL to all below this process that are in the session of one that has ended."""
    for pid in descendants(os.getpid()):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if os.getsid(pid) == leader:
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

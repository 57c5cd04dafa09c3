"""Own the label of a control group that names the process which needs it, so that others know when none does.

A group's name tells one server from another, not whether that server lives. Knows nothing of what is in a
group.
"""

from __future__ import annotations

import os
from contextlib import suppress

_LABEL = "user.execzmq.owner"
"""Extended attribute of the group's folder: process id, when it was started, and the namespace of the id."""

_STATE, _STARTED = 0, 19
"""Places in /proc/PID/stat, counted after the name."""
_ENDED = (b"Z", b"X")


def claim(folder: str) -> None:
    """Label a group as needed by this process; the kernel keeps no labels before Linux 5.7."""
    with suppress(OSError):
        pid = os.getpid()
        os.setxattr(folder, _LABEL, b" ".join((b"%d" % pid, _started(pid), _namespace())))


def is_abandoned(folder: str) -> bool:
    """Tell whether a group of this user's was needed by a process that has ended.

    False where that cannot be told: there is no label, or its process is one of another container.
    """
    try:
        if os.stat(folder).st_uid != os.geteuid():
            return False
        pid, started, namespace = os.getxattr(folder, _LABEL).split()
        return namespace == _namespace() and _started(int(pid)) != started
    except (OSError, ValueError):
        return False


def _namespace() -> bytes:
    return os.fsencode(os.readlink("/proc/self/ns/pid"))


def _started(pid: int) -> bytes:
    """Return when a process was started, as the kernel counts; empty where it has ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b") ")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return b""
    return b"" if fields[_STATE] in _ENDED else fields[_STARTED]

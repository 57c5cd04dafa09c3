"""Own what is done to one control group by its files: made, read, written, emptied by force, and removed.

Knows nothing of sandboxes, nor of which groups belong together.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress

from execzmq.sandbox import cgroup_owner
from execzmq.sandbox.cgroup_plan import Write

_KILL_ROUNDS = 16


def make(folder: str) -> None:
    """Make a group of this process's; an empty one of that name has wrong counts and is made anew.

    Raises:
        OSError: it cannot be made, or is there and busy.
    """
    try:
        os.mkdir(folder)
    except FileExistsError:
        os.rmdir(folder)
        os.mkdir(folder)
    cgroup_owner.claim(folder)


def remove(folder: str) -> bool:
    """Remove a group if no process is in it, and tell whether it is gone."""
    try:
        os.rmdir(folder)
    except FileNotFoundError:
        pass
    except OSError:
        return False
    return True


def set_value(folder: str, one: Write) -> None:
    """Write one value into a group. Raises OSError: it cannot, and was not optional."""
    try:
        write(folder, one.file, one.value)
    except OSError:
        if not one.optional:
            raise


def write(folder: str, name: str, value: str) -> None:
    """Write into a file of a group, which must be there. Raises OSError: it cannot."""
    fd = os.open(f"{folder}/{name}", os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, value.encode())
    finally:
        os.close(fd)


def read(folder: str, name: str) -> str:
    """Return what a file says; empty if it cannot be read."""
    try:
        with open(f"{folder}/{name}", encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except OSError:
        return ""


def kill(folder: str, version: int, *, may_stop_growth: bool) -> None:
    """Send KILL to every process that is seen in a group.

    One that is just being made is listed nowhere until who makes it goes on: so it takes another look later
    to know that there is none.

    Args:
        may_stop_growth: it is a group of version 1 that counts processes.

    Raises:
        OSError: this user may not, or there is no such group.
    """
    if version == 2:
        write(folder, "cgroup.kill", "1")
    else:
        _kill_one_by_one(folder, may_stop_growth)


def _kill_one_by_one(folder: str, may_stop_growth: bool) -> None:
    killed: set[str] = set()
    for _ in range(_KILL_ROUNDS):
        fresh = set(read(folder, "cgroup.procs").split()) - killed - {"0"}
        if not fresh:
            return
        for pid in fresh:
            _kill_member(folder, pid)
        if may_stop_growth:
            # Not before: who cannot fork may end by itself, with a code of its own and not by this signal.
            write(folder, "pids.max", "0")
        killed |= fresh


def _kill_member(folder: str, pid: str) -> None:
    """Kill a process by pidfd, if it is a member still: a number may have come back meanwhile."""
    with suppress(OSError):
        fd = os.pidfd_open(int(pid))
        try:
            if pid in read(folder, "cgroup.procs").split():
                signal.pidfd_send_signal(fd, signal.SIGKILL)
        finally:
            os.close(fd)

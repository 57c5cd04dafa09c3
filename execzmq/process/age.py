"""Own how long a process has lived, by the kernel's account: no step of the wall clock changes it."""

from __future__ import annotations

import os
import time

from execzmq.keeper import procfs


def age_of(pid: int) -> float | None:
    """Return the seconds since a process was started; `None` where it is gone or the system does not tell."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    if clock is None:
        return None
    try:
        started = int(procfs.stat_of(pid)[procfs.STARTED])
    except (OSError, ValueError, IndexError):
        return None
    return max(0.0, time.clock_gettime(clock) - started / os.sysconf("SC_CLK_TCK"))

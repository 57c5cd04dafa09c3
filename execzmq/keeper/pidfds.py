"""What the kernel tells of a process to who holds its pidfd: its end, and its status (Linux 6.15).

Owns nothing.
"""

from __future__ import annotations

import fcntl
import select
import struct

from execzmq.keeper import procfs

_GET_INFO = 0xC040FF0B
"""PIDFD_GET_INFO for the first form of `struct pidfd_info`."""
_INFO = struct.Struct("QQ11Ii")
_INFO_EXIT = 1 << 3


def pid_of(pidfd: int) -> int:
    """Return the process id that a pidfd stands for, below 1 where it has ended or is of another namespace.

    Raises:
        OSError: there is no such descriptor, or none to look with.
        ValueError: it is no pidfd.
    """
    for line in procfs.read(f"/proc/self/fdinfo/{pidfd}").splitlines():
        if line.startswith(b"Pid:"):
            return int(line[4:])
    raise ValueError(f"descriptor {pidfd} is no pidfd")


def is_over(pidfd: int) -> bool:
    """Tell whether a process has ended."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(0))


def exit_status(pidfd: int) -> int | None:
    """Return the status, as from wait(2), of a process that has been reaped; None where it is not known."""
    info = bytearray(_INFO.pack(_INFO_EXIT, *[0] * 13))
    try:
        fcntl.ioctl(pidfd, _GET_INFO, info)
    except OSError:
        return None
    mask, *_, status = _INFO.unpack(info)
    return status if mask & _INFO_EXIT else None

"""What the kernel tells of a process to who holds its pidfd: its end, and its status (Linux 6.15).

Owns nothing.
"""

from __future__ import annotations

import fcntl
import select
import struct

_GET_INFO = 0xC040FF0B
"""PIDFD_GET_INFO for the first form of `struct pidfd_info`."""
_INFO = struct.Struct("QQ11Ii")
_INFO_EXIT = 1 << 3


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

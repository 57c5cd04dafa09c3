"""How a file of the kernel's is read: without Python's files, which cost more than the reading.

Owns nothing.
"""

from __future__ import annotations

import os

STATE, PARENT, STARTED = 0, 1, 19
"""Places in what `stat_of` returns; the last is when the process was started, in ticks after the boot."""

_PIECE = 64 * 1024


def read(path: str, most: int | None = None) -> bytes:
    """Return the content of a file below `/proc`.

    Args:
        most: bytes that are wanted of it; `None` = all.

    Raises:
        OSError: there is no such file or process, or no descriptor to read it with.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        content = os.read(fd, most or _PIECE)
        while most is None and (piece := os.read(fd, _PIECE)):
            content += piece
        return content
    finally:
        os.close(fd)


def stat_of(pid: int) -> list[bytes]:
    """Return what `/proc/PID/stat` says of a process from its state on: see `STATE`, `PARENT`, `STARTED`.

    Raises:
        OSError: as `read`.
    """
    # The name in parentheses may have spaces and parentheses itself.
    return read(f"/proc/{pid}/stat").rpartition(b")")[2].split()

"""The way of bytes from the master of a terminal into a pipe, since a terminal cannot be spliced into a file.

Keeper and server go it with the same pipe, one after the other. Owns no descriptor. It must not know logs.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import termios

_COPY_BYTES = 4096
"""Bytes that an empty pipe takes in any case."""


def fill(master: int, pipe_read: int, pipe_write: int, limit: int) -> int:
    """Move what a terminal has, at most `limit` bytes, into a pipe; 0 where nobody has it open any more.

    Raises:
        BlockingIOError: nothing is there now, or the pipe has no room; what was not moved is still there.
    """
    try:
        return os.splice(master, pipe_write, limit, flags=os.SPLICE_F_NONBLOCK)
    except OSError as error:
        if error.errno == errno.EIO:
            return 0
        if error.errno == errno.EINVAL:
            return _copy(master, pipe_read, pipe_write, limit)
        raise


def _copy(master: int, pipe_read: int, pipe_write: int, limit: int) -> int:
    """Do by read and write what kernels without a terminal's splice refuse.

    Into an empty pipe only: what was read could not be put back.
    """
    if unread_bytes(pipe_read):
        raise BlockingIOError(errno.EAGAIN, "the pipe is in use")
    data = read(master, min(limit, _COPY_BYTES))
    return os.write(pipe_write, data) if data else 0


def read(master: int, limit: int) -> bytes:
    """Read from a terminal; nothing where nobody has it open any more.

    Raises:
        BlockingIOError: nothing is there now.
    """
    try:
        return os.read(master, limit)
    except OSError as error:
        if error.errno == errno.EIO:
            return b""
        raise


def unread_bytes(fd: int) -> int:
    """Count the bytes that wait in a pipe or terminal."""
    (count,) = struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, b"\0" * 4))
    return int(count)

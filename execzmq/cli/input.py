"""Own how our stdin is read: never ahead of what is wanted, never blocking the loop."""

from __future__ import annotations

import array
import asyncio
import contextlib
import errno
import fcntl
import os
import stat
import termios


class Input:
    """Reads descriptor 0 as it becomes readable."""

    def __init__(self, fd: int = 0) -> None:
        from execzmq.client.sources import Descriptor

        self._fd = fd
        self._source = Descriptor(fd)
        self._is_file = stat.S_ISREG(os.fstat(fd).st_mode)

    async def read(self) -> bytes:
        """Return what is there, waiting for the first of it; nothing at the end. Cancelling loses nothing.

        Raises:
            OSError: it cannot be read.
        """
        if not self._is_file:
            try:
                await readable(self._fd)
            except PermissionError:  # such as /dev/null, which is always readable
                self._is_file = True
        try:
            return self._source.read()
        except OSError as error:
            if error.errno == errno.EIO:  # the terminal has gone, or is no longer ours
                return b""
            raise


async def readable(fd: int) -> None:
    """Wait until a descriptor is readable.

    Raises:
        PermissionError: nobody ever waits for such a one, as for a file.
    """
    loop = asyncio.get_running_loop()
    event = asyncio.Event()
    loop.add_reader(fd, event.set)
    try:
        await event.wait()
    finally:
        loop.remove_reader(fd)


def is_waiting(fd: int = 0) -> bool:
    """Tell whether a pipe or file has something that would be left unread."""
    try:
        status = os.fstat(fd)
        if stat.S_ISREG(status.st_mode):
            return os.lseek(fd, 0, os.SEEK_CUR) < status.st_size
        if not stat.S_ISFIFO(status.st_mode) and not stat.S_ISSOCK(status.st_mode):
            return False
        count = array.array("i", [0])
        fcntl.ioctl(fd, termios.FIONREAD, count)
    except OSError:
        return False
    return count[0] > 0


def is_terminal(fd: int = 0) -> bool:
    """Tell whether a descriptor is a terminal."""
    with contextlib.suppress(OSError):
        return os.isatty(fd)
    return False

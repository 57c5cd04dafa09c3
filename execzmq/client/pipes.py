"""Own the loop's ends of the real pipes that a `Popen` hands out: non-blocking, without a thread."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
from collections.abc import Callable

from execzmq import settings

PIPE_SIZE = 256 * settings.KIB
"""Bytes that a pipe holds, where the system grants so many; the fewer wake-ups the faster."""


def open_pipe(size: int = -1) -> tuple[int, int]:
    """Return the read and the write end of a pipe of `size` bytes, if that is granted (-1 = `PIPE_SIZE`)."""
    read_end, write_end = os.pipe()
    with contextlib.suppress(OSError, AttributeError):  # a user has a quota of them; not every system can
        fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, PIPE_SIZE if size < 0 else size)
    return read_end, write_end


class PipeSink:
    """The write end of a pipe whose reader may sleep.

    `fd` is owned from now on. `on_blocked` is told when the pipe is full (True) and when no more (False).
    """

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self._fd = fd
        self.on_blocked: Callable[[bool], None] = lambda _: None

    async def write(self, data: bytes) -> None:
        """Write all of `data`, as fast as it is read.

        Raises:
            BrokenPipeError: nobody reads any more.
        """
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(self._fd, rest) :]
            except BlockingIOError:
                self.on_blocked(True)
                await _writable(self._fd)
                self.on_blocked(False)

    async def finish(self) -> None:
        """Do nothing: what was written is in the pipe."""

    def close(self) -> None:
        """Let the reader see the end; idempotent."""
        fd, self._fd = self._fd, -1
        if fd != -1:
            os.close(fd)


class PipeSource:
    """The read end of a pipe; `fd` is owned from now on."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self._fd = fd

    async def read(self) -> bytes:
        """Return the next bytes, none when every writer has closed. Cancelling loses nothing."""
        while True:
            try:
                return os.read(self._fd, PIPE_SIZE)
            except BlockingIOError:
                await _readable(self._fd)

    def close(self) -> None:
        """Let writers see that nobody reads; idempotent."""
        fd, self._fd = self._fd, -1
        if fd != -1:
            os.close(fd)


async def _writable(fd: int) -> None:
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    loop.add_writer(fd, _settle, ready)
    try:
        await ready
    finally:
        loop.remove_writer(fd)


async def _readable(fd: int) -> None:
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    loop.add_reader(fd, _settle, ready)
    try:
        await ready
    finally:
        loop.remove_reader(fd)


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)

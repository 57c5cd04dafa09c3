"""Own the way of a command's bytes to our stdout and stderr: in order, exactly, never blocking the loop.

A loop that is held up by a stopped pager would renew no lease, and the server would take the client for gone.
"""

from __future__ import annotations

import asyncio
import errno
import os
import select
import stat
from functools import partial

from execzmq.client.worker import Worker
from execzmq.types.events import Stream

MOST_WAITING = 1024 * 1024
"""Bytes that may wait for a slow reader before the copying pauses."""

_FD_OF: dict[Stream, int] = {"stdout": 1, "stderr": 2}


class Output:
    """Writes to descriptors 1 and 2, in the order of the calls; what would block is a thread's."""

    def __init__(self) -> None:
        self._worker = Worker("execzmq-output")
        self._waiting: list[tuple[int, bytes]] = []
        self._size = 0
        self._task: asyncio.Task[None] | None = None
        self._room = {fd: _room_of(fd) for fd in _FD_OF.values()}

    async def write(self, stream: Stream, data: bytes) -> None:
        """Take `data`; wait while too much is on its way.

        Raises:
            OSError: it, or what was taken before, cannot be written; BrokenPipeError where nobody reads.
        """
        fd = _FD_OF[stream]
        if self._task is not None and self._task.done():
            await self.finish()
        if self._task is None and self._has_room(fd, len(data)):
            _write(fd, data)
            return
        self._waiting.append((fd, data))
        self._size += len(data)
        if self._task is None:
            self._task = asyncio.create_task(self._copy())
        elif self._size > MOST_WAITING:
            await self.finish()

    async def finish(self) -> None:
        """Wait until everything is written; raises as `write`."""
        if self._task is not None:
            await asyncio.wait((self._task,))
            task, self._task = self._task, None
            task.result()

    def close(self) -> None:
        """Stop; what the thread is writing goes on until it is written or this program ends."""
        if self._task is not None and not self._task.cancel() and not self._task.cancelled():
            self._task.exception()  # of no interest any more
        self._worker.close(lambda: None)

    def _has_room(self, fd: int, size: int) -> bool:
        room = self._room[fd]
        if room is None or size > room:
            return room is None
        poll = select.poll()
        poll.register(fd, select.POLLOUT)
        return any(event & select.POLLOUT for _, event in poll.poll(0))

    async def _copy(self) -> None:
        while self._waiting:
            pieces, self._waiting, self._size = self._waiting, [], 0
            await self._worker.run(partial(_write_pieces, pieces))


def _room_of(fd: int) -> int | None:
    """Return the bytes that can be written at once when `poll` says so; `None` where a write never blocks."""
    mode = os.fstat(fd).st_mode
    if stat.S_ISFIFO(mode):
        return select.PIPE_BUF
    return None if stat.S_ISREG(mode) or (stat.S_ISCHR(mode) and not os.isatty(fd)) else 0


def _write_pieces(pieces: list[tuple[int, bytes]]) -> None:
    for fd, data in pieces:
        _write(fd, data)


def _write(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    try:
        while rest:
            rest = rest[_write_some(fd, rest) :]
    except OSError as error:
        if error.errno == errno.EIO:  # a terminal that is gone is like a pipe whose reader has gone
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE)) from None
        raise


def _write_some(fd: int, data: memoryview) -> int:
    try:
        return os.write(fd, data)
    except BlockingIOError:  # somebody who shares it with us has made it so
        poll = select.poll()
        poll.register(fd, select.POLLOUT)
        poll.poll()
        return 0

"""Own where output can go in the caller: nowhere, memory, anything that may block."""

from __future__ import annotations

import asyncio
import io
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol

from execzmq import settings
from execzmq.client.worker import Worker

MOST_WAITING = 1 * settings.MIB
"""Bytes that may wait for a slow file before the copying pauses."""


class Sink(Protocol):
    """Where the bytes of a stream go."""

    async def write(self, data: bytes) -> None:
        """Take `data`; wait while too much is on its way.

        Raises:
            OSError: the file cannot be written. Cancelling loses nothing that was taken before.
        """

    async def finish(self) -> None:
        """Wait until everything is written; raises as `write`."""

    def close(self) -> None:
        """Release what is held, after what is on its way; waits for nothing. Idempotent."""


class Null:
    """Drops everything."""

    async def write(self, data: bytes) -> None:
        """Drop `data`."""

    async def finish(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class Capture:
    """Keeps everything in memory, or the first and the newest half of `limit` bytes (`None` = no limit)."""

    def __init__(self, limit: int | None = None) -> None:
        self._limit = limit
        self._head = io.BytesIO()  # grows in place and hands its bytes over without a copy
        self._head_room = 0 if limit is None else limit - limit // 2
        self._tail: deque[bytes] = deque()
        self._tail_room = 0 if limit is None else limit // 2
        self._tail_size = 0
        self._dropped = 0

    @property
    def omitted(self) -> int:
        """Bytes that `value` is without."""
        too_many = self._tail_size - self._tail_room
        return self._dropped + too_many if too_many > 0 else self._dropped

    async def write(self, data: bytes) -> None:
        """Keep `data`."""
        if self._limit is None:
            self._head.write(data)
            return
        if self._head_room:
            self._head.write(data[: self._head_room])
            data, self._head_room = data[self._head_room :], max(self._head_room - len(data), 0)
        if data:
            self._keep_newest(data)

    async def finish(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""

    def value(self) -> bytes:
        """Return what is kept; a mark says what is missing."""
        if not self._tail_size and not self._dropped:
            return self._head.getvalue()
        mark = b"\n[... %d bytes omitted ...]\n" % self.omitted if self.omitted else b""
        tail = b"".join(self._tail)
        return b"".join((self._head.getvalue(), mark, tail[max(len(tail) - self._tail_room, 0) :]))

    def _keep_newest(self, data: bytes) -> None:
        self._tail.append(data)
        self._tail_size += len(data)
        while self._tail and self._tail_size - len(self._tail[0]) >= self._tail_room:
            oldest = len(self._tail.popleft())
            self._tail_size -= oldest
            self._dropped += oldest


class FileSink:
    """Writes to something that may block, on a thread; what arrives meanwhile is written in one go.

    Args:
        write: writes all of what it is given; on the thread.
        close: releases the file; on the thread, or at once where nothing was written.
        complete: writes what `write` has kept back (half a character); on the thread.
    """

    def __init__(
        self,
        write: Callable[[list[bytes]], None],
        close: Callable[[], None],
        complete: Callable[[], None] | None = None,
    ) -> None:
        self._write = write
        self._release = close
        self._complete = complete
        self._worker = Worker("execzmq-writer")
        self._waiting: list[bytes] = []
        self._size = 0
        self._task: asyncio.Task[None] | None = None

    async def write(self, data: bytes) -> None:
        """Hand `data` to the thread; wait while more than `MOST_WAITING` bytes are on their way."""
        if self._task is None or self._task.done():
            await self._catch_up()
            self._waiting.append(data)
            self._task = asyncio.create_task(self._copy())
            return
        self._waiting.append(data)
        self._size += len(data)
        if self._size > MOST_WAITING:
            await self._catch_up()

    async def finish(self) -> None:
        """Wait until all is written."""
        await self._catch_up()
        if self._complete is not None:
            await self._worker.run(self._complete)

    async def _catch_up(self) -> None:
        if self._task is not None:
            await asyncio.wait((self._task,))  # cancelling the waiter does not stop the copying
            self._task.result()

    def close(self) -> None:
        """Close the file after what is being written."""
        if self._task is not None and not self._task.cancel() and not self._task.cancelled():
            self._task.exception()  # told by `finish`, or of no interest any more
        self._worker.close(self._release)

    async def _copy(self) -> None:
        while self._waiting:
            pieces, self._waiting, self._size = self._waiting, [], 0
            await self._worker.run(partial(self._write, pieces))

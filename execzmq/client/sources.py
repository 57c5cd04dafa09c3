"""Own where stdin can come from in the caller: anything that may block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from execzmq.client.worker import Worker


class Source(Protocol):
    """Where the bytes of stdin come from."""

    async def read(self) -> bytes:
        """Return the next bytes, none at the end.

        Raises:
            OSError: the file cannot be read.
        """

    def close(self) -> None:
        """Stop reading and release what is held; idempotent."""


class FileSource:
    """Reads from something that may block, on a thread.

    Args:
        read: returns the next bytes, none at the end; on the thread.
        interrupt: makes a `read` under way return early.
        close: releases the file; on the thread, or at once where nothing was read.
    """

    def __init__(
        self, read: Callable[[], bytes], interrupt: Callable[[], object], close: Callable[[], None]
    ) -> None:
        self._closed = False
        self._read = read
        self._interrupt = interrupt
        self._release = close
        self._worker = Worker("execzmq-reader")

    async def read(self) -> bytes:
        """Return the next bytes, none at the end. Cancelling may lose the bytes that were being read.

        Raises:
            OSError: the file cannot be read.
        """
        return await self._worker.run(self._read)

    def close(self) -> None:
        """Stop reading and release the file; idempotent."""
        if not self._closed:
            self._closed = True
            self._interrupt()
            self._worker.close(self._release)

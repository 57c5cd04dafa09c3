"""Own where stdin can come from in the caller: anything that may block."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable
from typing import Protocol

from execzmq import settings
from execzmq.client.worker import Worker

_SMALL = 64 * settings.KIB
"""Bytes that a pipe holds unless it is told to hold more."""


class Descriptor:
    """Reads a descriptor that is somebody else's: small pieces, and large ones once there was a full one.

    Each piece is a request, so a pipe that brings much is made to hold as much as one request can carry. What
    comes while that is under way is read at once then, and nothing before it is wanted.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._size = _SMALL

    def read(self) -> bytes:
        """Return what is there, waiting for the first of it; nothing at the end.

        Raises:
            OSError: it cannot be read.
        """
        data = os.read(self._fd, self._size)
        if len(data) == _SMALL:
            self._widen()
        return data

    def _widen(self) -> None:
        self._size = settings.WRITE_PIECE
        with contextlib.suppress(OSError, AttributeError):  # no pipe, none to spare, or not this system
            if fcntl.fcntl(self._fd, fcntl.F_GETPIPE_SZ) < self._size:
                fcntl.fcntl(self._fd, fcntl.F_SETPIPE_SZ, self._size)


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

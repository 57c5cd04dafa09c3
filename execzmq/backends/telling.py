"""Own how a wrapper is told its arguments: it is loaded while they are made, and reads them as they come.

They go through a socket, whose end is told: that of a pipe comes when nobody can write there any more, which
a child that somebody forks meanwhile could delay. Knows nothing of what they say.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket

_NO_SIGNAL = int(socket.MSG_NOSIGNAL)


class Telling:
    """Two ends of a socket, of which a wrapper reads one.

    Raises:
        OSError: there is no descriptor.
    """

    def __init__(self) -> None:
        self._socket, reader = socket.socketpair()
        self._socket.setblocking(False)
        self._reader = reader.detach()
        self._left = memoryview(b"")
        self._loop: asyncio.AbstractEventLoop | None = None

    def take_reader(self) -> int:
        """Return the end to read at, which is the caller's from now on."""
        reader, self._reader = self._reader, -1
        return reader

    def tell(self, data: bytes) -> None:
        """Send all of it and the end: at once what there is room for, the rest as it is read."""
        self._left = memoryview(data)
        self._send()
        if self._left:
            self._loop = asyncio.get_running_loop()
            self._loop.add_writer(self._socket, self._go_on)

    def close(self) -> None:
        """Tell nothing more; idempotent."""
        self._stop()
        self._socket.close()
        if (reader := self.take_reader()) >= 0:
            os.close(reader)

    def _go_on(self) -> None:
        self._send()
        if not self._left:
            self._stop()

    def _stop(self) -> None:
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.remove_writer(self._socket)

    def _send(self) -> None:
        try:
            while self._left:
                self._left = self._left[self._socket.send(self._left, _NO_SIGNAL) :]
        except BlockingIOError:
            return
        except OSError:  # the wrapper has ended, which others tell
            self._left = memoryview(b"")
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

"""Own the writing end of a process's stdin on the loop: feeds it from its queue and tells who waits for room.

Knows nothing of sessions; exactly-once is the queue's business.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

from execzmq.process.stdin import StdinQueue


class StdinFeeder:
    """Feeds accepted input to a pipe or terminal as fast as it is read.

    Args:
        queue: owned from now on.
        fd: the writing end, owned from now on where `owns_fd`; a terminal's master belongs to its pump.
        drained: called once when the end was asked for and everything before it has been fed.
    """

    def __init__(self, queue: StdinQueue, fd: int, *, owns_fd: bool, drained: Callable[[], None]) -> None:
        self.queue = queue
        self._fd = fd
        self._owns_fd = owns_fd
        self._drained = drained
        self._loop = asyncio.get_running_loop()
        self._writing = False
        self._waiters: list[asyncio.Future[None]] = []

    def poke(self) -> None:
        """Feed what can be fed now, and go on when the reader has made room."""
        if self._fd == -1:
            return
        more = self.queue.feed()
        self._wake()
        if more and not self.queue.broken:
            self._listen()
            return
        self._deafen()
        if self.queue.ended or self.queue.broken:
            self._finish()

    async def wait_room(self, size: int) -> None:
        """Wait until `size` more bytes may be accepted or nobody can read them any more."""
        while self._fd != -1 and not self.queue.broken and not self.queue.has_room(size):
            waiter = self._loop.create_future()
            self._waiters.append(waiter)
            await waiter

    def give_up(self) -> None:
        """Drop what is unread, since nobody will read it, and close; idempotent."""
        if self._fd != -1:
            self.queue.discard()
        self.close()

    def close(self) -> None:
        """Stop feeding; what is unread stays for a later server. Idempotent."""
        self._deafen()
        fd, self._fd = self._fd, -1
        if fd != -1 and self._owns_fd:
            os.close(fd)
        self.queue.close()
        self._wake()

    def _finish(self) -> None:
        self._drained()
        if self._owns_fd:
            self.close()

    def _listen(self) -> None:
        if not self._writing:
            self._loop.add_writer(self._fd, self.poke)
            self._writing = True

    def _deafen(self) -> None:
        if self._writing:
            self._loop.remove_writer(self._fd)
            self._writing = False

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

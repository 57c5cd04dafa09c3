"""Own the writing end of a process's stdin on the loop: feeds it, and lets writes wait for room.

Knows nothing of sessions; exactly-once is the queue's business.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from execzmq.errors import ExecZMQError, StdinClosed
from execzmq.process.stdin import StdinQueue

Data = bytes | memoryview


@dataclass(slots=True, eq=False)
class _Waiting:
    """A write that came when there was no room; `offset` as in `StdinFeeder.write`."""

    session: str
    offset: int | None
    data: Data
    end: bool
    accepted: asyncio.Future[int]


class StdinFeeder:
    """Feeds accepted input to a pipe or terminal as fast as it is read.

    Args:
        queue: owned from now on.
        fd: the writing end, owned from now on.
        drained: called once when the end was asked for and everything before it has been fed.
    """

    def __init__(self, queue: StdinQueue, fd: int, *, drained: Callable[[], None]) -> None:
        self.queue = queue
        self._fd = fd
        self._drained = drained
        self._loop = asyncio.get_running_loop()
        self._writing = False
        self._waiting: deque[_Waiting] = deque()

    def poke(self) -> None:
        """Feed what can be fed now, and go on when the reader has made room."""
        if self._fd == -1:
            return
        more = self.queue.feed()
        more |= self._admit()
        if more and not self.queue.broken:
            self._listen()
            return
        self._deafen()
        if self.queue.ended or self.queue.broken:
            self._finish()

    def descriptors(self) -> dict[str, int]:
        """Return what is open by the names that a keeper gives it; they stay this feeder's."""
        named = {"stdin": self._fd, "in": self.queue.feeding_fd}
        return {name: fd for name, fd in named.items() if fd != -1}

    def write(self, session: str, offset: int | None, data: Data, end: bool) -> int | asyncio.Future[int]:
        """Accept input for a session and return its accepted offset, or a future of it where room is lacking.

        Writes are accepted whole and in the order in which they came. A cancelled future is not accepted.

        Args:
            offset: of what this session has written; `None` = after all that it has written so far.

        Raises:
            StdinClosed, InvalidRequest, LimitExceeded: as `StdinQueue.accept` has them; the future likewise.
        """
        if not self._waiting and self._has_room(data):
            taken = self._accept(session, offset, data, end)
            self.poke()
            return taken
        accepted: asyncio.Future[int] = self._loop.create_future()
        self._waiting.append(_Waiting(session, offset, data, end, accepted))
        return accepted

    def give_up(self) -> None:
        """Drop what is unread, since nobody will read it, and close; idempotent."""
        if self._fd != -1:
            self.queue.discard()
        self.close()

    def close(self) -> None:
        """Stop feeding; what is unread stays for a later server. Idempotent."""
        self._deafen()
        fd, self._fd = self._fd, -1
        if fd != -1:
            os.close(fd)
        self.queue.close()
        self._admit()

    def _finish(self) -> None:
        self._drained()
        self.close()

    def _listen(self) -> None:
        if not self._writing:
            self._loop.add_writer(self._fd, self.poke)
            self._writing = True

    def _deafen(self) -> None:
        if self._writing:
            self._loop.remove_writer(self._fd)
            self._writing = False

    def _has_room(self, data: Data) -> bool:
        return self._fd == -1 or self.queue.broken or self.queue.has_room(len(data))

    def _accept(self, session: str, offset: int | None, data: Data, end: bool) -> int:
        if self._fd == -1 and not (self.queue.ended or self.queue.broken):
            raise StdinClosed("stdin is closed: this backend does not run any more")
        start = self.queue.offset_of(session) if offset is None else offset
        return self.queue.accept(session, start, data, end)

    def _admit(self) -> bool:
        """Accept what waited, as far as there is room; return whether anything was accepted."""
        accepted = False
        while self._waiting and self._has_room(self._waiting[0].data):
            waiting = self._waiting.popleft()
            if waiting.accepted.done():
                continue
            try:
                offset = self._accept(waiting.session, waiting.offset, waiting.data, waiting.end)
            except ExecZMQError as error:
                waiting.accepted.set_exception(error)
            else:
                waiting.accepted.set_result(offset)
                accepted = True
        return accepted

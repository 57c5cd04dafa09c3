"""Own which descriptors are read for all streams together, and how much they take in one turn of the loop.

On Linux they stand behind one epoll of their own: to add and remove a reader of the loop costs more than all
else that a short command's streams need. Knows nothing of what is read.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable
from typing import TypeAlias

Reader: TypeAlias = Callable[[], None]

_TURN = 1024 * 1024
"""Bytes that all streams together take in one turn of the loop: two or three milliseconds."""
_DRIBBLE = 16 * 1024
"""Bytes that cost less than to count them."""


class Readers:
    """Calls the reader of each descriptor that has something, or has ended. Made on a running loop.

    A reader may add and remove any, itself too. Those that find no room in a turn come first in the next.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._left = _TURN
        self._waiting: dict[Reader, None] = {}
        self._readers: dict[int, Reader] = {}
        self._epoll = select.epoll() if hasattr(select, "epoll") else None
        if self._epoll is not None:
            self._loop.add_reader(self._epoll.fileno(), self.look)

    def add(self, fd: int, reader: Reader) -> None:
        """Call `reader` whenever there is something to read from `fd`."""
        if self._epoll is None:
            self._loop.add_reader(fd, reader)
        else:
            self._readers[fd] = reader
            self._epoll.register(fd, select.EPOLLIN)

    def remove(self, fd: int) -> None:
        """Call the reader of `fd` no more; to be done before `fd` is closed."""
        if self._epoll is None:
            self._loop.remove_reader(fd)
        elif self._readers.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def has_room_for(self, reader: Reader) -> bool:
        """Tell whether `reader` may take bytes now; otherwise it is called again in the next turn."""
        if self._left > 0:
            return True
        self._waiting[reader] = None
        return False

    def took(self, size: int) -> None:
        """Count what was taken."""
        if size < _DRIBBLE:
            return
        if self._left == _TURN:
            self._loop.call_soon(self._next_turn)
        self._left -= size

    def close(self) -> None:
        """Call nobody any more; idempotent."""
        epoll, self._epoll = self._epoll, None
        if epoll is not None:
            self._loop.remove_reader(epoll.fileno())
            epoll.close()

    def look(self) -> None:
        """Call the readers of what is there already; the loop does so as well."""
        for fd, _ in self._epoll.poll(0) if self._epoll is not None else ():
            reader = self._readers.get(fd)
            if reader is not None:
                reader()

    def _next_turn(self) -> None:
        self._left = _TURN
        waiting, self._waiting = self._waiting, {}
        for reader in waiting:
            reader()

"""Where the output of a command waits: its pipe, or its terminal with the pipe in between.

Owns no descriptor of the command, only the open file that bytes are moved to. It must not know when it is
asked, or how much may be stored.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select

from execzmq.keeper import terminal
from execzmq.keeper.store import Store
from execzmq.keeper.terminal import unread_bytes

_PIPE_BYTES = 1 << 16


class PipeOutlet:
    """The reading end of a pipe.

    Attributes:
        fd: whose events tell that there is something to do.
        has_rest: bytes wait that no event of `fd` will tell of.
    """

    has_rest = False

    def __init__(self, fd: int, store: Store) -> None:
        self.fd = fd
        self._store = store

    def move(self, limit: int) -> int:
        """Move at most `limit` bytes into the file; 0 at the end.

        Raises:
            BlockingIOError: nothing is there now.
            OSError: the disk takes nothing; what was not moved is still there.
        """
        if has_ended(self.fd):
            return 0
        return _move(self.fd, self._store, limit)

    def discard(self) -> int:
        """Read and drop; 0 at the end. Raises BlockingIOError like `move`."""
        return len(os.read(self.fd, _PIPE_BYTES))

    def close(self) -> None:
        """Close the file; the pipe stays open."""
        self._store.close()


class TerminalOutlet:
    """The master of a terminal, which can be spliced into a pipe only, and that pipe."""

    def __init__(self, master: int, pipe_read: int, pipe_write: int, store: Store) -> None:
        self.fd = master
        self._pipe_read = pipe_read
        self._pipe_write = pipe_write
        self._store = store

    @property
    def has_rest(self) -> bool:
        """Tell whether bytes wait in the pipe."""
        return unread_bytes(self._pipe_read) > 0

    def move(self, limit: int) -> int:
        """Move at most `limit` bytes into the file; see PipeOutlet."""
        ended = False
        with contextlib.suppress(BlockingIOError):  # nothing is there, or the pipe is full
            moved = terminal.fill(self.fd, self._pipe_read, self._pipe_write, min(limit, _PIPE_BYTES))
            ended = moved == 0
        if ended and not self.has_rest:
            return 0
        return _move(self._pipe_read, self._store, limit)

    def discard(self) -> int:
        """Read and drop; see PipeOutlet."""
        if self.has_rest:
            return len(os.read(self._pipe_read, _PIPE_BYTES))
        return len(terminal.read(self.fd, _PIPE_BYTES))

    def close(self) -> None:
        """Close the file; terminal and pipe stay open."""
        self._store.close()


Outlet = PipeOutlet | TerminalOutlet


def outlets_of(fds: dict[str, int], folder: bytes, segment_bytes: int) -> list[Outlet]:
    """Return the outputs among the descriptors of a command."""

    def store(prefix: bytes) -> Store:
        return Store(folder, prefix, segment_bytes)

    if {"pty", "mid_r", "mid_w"} <= fds.keys():
        return [TerminalOutlet(fds["pty"], fds["mid_r"], fds["mid_w"], store(b"out"))]
    names = (("stdout", b"out"), ("stderr", b"err"))
    return [PipeOutlet(fds[name], store(prefix)) for name, prefix in names if name in fds]


def has_ended(fd: int) -> bool:
    """Tell whether nobody writes to a pipe or terminal any more, and everything has been read."""
    poll = select.poll()
    poll.register(fd, 0)
    return any(event & select.POLLHUP for _, event in poll.poll(0)) and not unread_bytes(fd)


def _move(pipe: int, store: Store, limit: int) -> int:
    if not unread_bytes(pipe):  # or a file would be made for nothing
        raise BlockingIOError(errno.EAGAIN, "nothing to read")
    return store.splice_from(pipe, limit)

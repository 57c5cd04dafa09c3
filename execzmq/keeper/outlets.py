"""Where the output of a command waits: its pipe, or its terminal with the pipe in between.

Owns no descriptor of the command, only the open file that bytes are moved to. It must not know when it is
asked, or how much may be stored.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import select
import struct
import termios

from execzmq.keeper.store import Store

_PIPE_BYTES = 1 << 16
_TERMINAL_BYTES = 4096


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
            ended = self._fill(min(limit, _PIPE_BYTES)) == 0
        if ended and not self.has_rest:
            return 0
        return _move(self._pipe_read, self._store, limit)

    def discard(self) -> int:
        """Read and drop; see PipeOutlet."""
        if self.has_rest:
            return len(os.read(self._pipe_read, _PIPE_BYTES))
        return len(self._read(_PIPE_BYTES))

    def close(self) -> None:
        """Close the file; terminal and pipe stay open."""
        self._store.close()

    def _fill(self, limit: int) -> int:
        try:
            return os.splice(self.fd, self._pipe_write, limit, flags=os.SPLICE_F_NONBLOCK)
        except OSError as error:
            if error.errno == errno.EIO:  # nobody has it open any more
                return 0
            if error.errno == errno.EINVAL:
                return self._copy(min(limit, _TERMINAL_BYTES))
            raise

    def _copy(self, limit: int) -> int:
        """Do by read and write what kernels without a terminal's splice refuse, if the pipe is empty."""
        if unread_bytes(self._pipe_read):
            raise BlockingIOError(errno.EAGAIN, "the pipe is in use")
        data = self._read(limit)
        return os.write(self._pipe_write, data) if data else 0

    def _read(self, limit: int) -> bytes:
        try:
            return os.read(self.fd, limit)
        except OSError as error:
            if error.errno == errno.EIO:
                return b""
            raise


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


def unread_bytes(fd: int) -> int:
    """Count the bytes that wait in a pipe or terminal."""
    (count,) = struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, b"\0" * 4))
    return int(count)


def _move(pipe: int, store: Store, limit: int) -> int:
    if not unread_bytes(pipe):  # or a file would be made for nothing
        raise BlockingIOError(errno.EAGAIN, "nothing to read")
    return store.splice_from(pipe, limit)

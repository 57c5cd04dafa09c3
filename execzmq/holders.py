"""Own the pipe by which a server knows that somebody wants it: held open and locked by each who does.

The kernel counts: whoever dies, however that be, holds it no more. Knows nothing of who holds it or why.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from pathlib import Path

from execzmq.errors import ConnectionFailed


class Hold:
    """One of those who want the server; it is held from the first moment to `close`.

    Raises:
        ConnectionFailed: something else has the pipe's place. OSError: it cannot be made.
    """

    def __init__(self, path: Path) -> None:
        with contextlib.suppress(FileExistsError):
            os.mkfifo(path, 0o600)
        # Read and write: so it opens without anybody at its other end. Linux and macOS allow it.
        self._fd = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            _check_pipe(path, self._fd)
            fcntl.flock(self._fd, fcntl.LOCK_SH)  # who has it alone, has it for a moment: see `let_go`
        except BaseException:
            self.close()
            raise

    def is_whole(self, path: Path) -> bool:
        """Tell whether the pipe at `path` is still this one: an ending server may have removed it."""
        try:
            return os.path.samestat(os.fstat(self._fd), os.lstat(path))
        except OSError:
            return False

    def let_go(self) -> bool:
        """Hold it no more; return whether nobody else does. `False` where it is held no more."""
        if self._fd < 0:
            return False
        is_last = _lock_alone(self._fd)
        self.close()
        return is_last

    def close(self) -> None:
        """Hold it no more; idempotent."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


class Watch:
    """The server's end: readable when somebody has let go.

    Raises:
        ConnectionFailed: it is no pipe. OSError: it cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            _check_pipe(path, self._fd)
        except BaseException:
            self.close()
            raise

    def fileno(self) -> int:
        """Return the descriptor, for the loop."""
        return self._fd

    def is_held(self) -> bool:
        """Tell whether anybody holds it now."""
        if not _lock_alone(self._fd):
            return True
        fcntl.flock(self._fd, fcntl.LOCK_UN)
        return False

    def close(self) -> None:
        """Watch no more; idempotent."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


def _lock_alone(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EAGAIN, errno.EACCES):
            raise
        return False
    return True


def _check_pipe(path: Path, fd: int) -> None:
    if not stat.S_ISFIFO(os.fstat(fd).st_mode):
        raise ConnectionFailed(f"{path} is no pipe: remove it and start again")

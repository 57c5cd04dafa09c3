"""Own the folder of one ssh connection: its sockets, out of others' reach, and gone with their user."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import shutil
from pathlib import Path

from execzmq.connection import private_folder, shared_folder, socket_folder
from execzmq.errors import ConnectionFailed
from execzmq.settings import DEFAULT_NAME

# No server's folder has a name with a dot.
_PREFIX = ".ssh-"
_NEW = ".new-ssh-"
_PLAIN = re.compile(r"[A-Za-z0-9/._-]{1,50}\Z")
"""Folders in which ssh takes a socket's path for what it is, and to which it can add its own words."""


class SshFolder:
    """A new folder, held by a lock, so that whoever makes the next one knows which have no user any more.

    Raises:
        ConnectionFailed: it cannot be made.
    """

    def __init__(self) -> None:
        base = socket_folder(DEFAULT_NAME).parent
        self._base = base if _PLAIN.match(str(base)) else shared_folder()
        self._token = secrets.token_hex(8)
        self._pid = os.getpid()
        self._lock = -1
        self.path = self._base / f"{_PREFIX}{self._token}"
        self._make()

    @property
    def control(self) -> str:
        """Return the path of the socket by which ssh takes orders."""
        return str(self.path / "c")

    def clear(self) -> None:
        """Remove what an ssh that was killed has left, which would be in the next one's way.

        Where others have removed the folder it is made anew.

        Raises:
            ConnectionFailed: it cannot be.
        """
        if not self.path.is_dir():
            self._make()
        for name in os.listdir(self.path):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.path / name)

    def close(self) -> None:
        """Remove the folder; idempotent. In a forked child it stays: it is the parent's."""
        lock, self._lock = self._lock, -1
        if lock == -1:
            return
        os.close(lock)
        if os.getpid() == self._pid:
            shutil.rmtree(self.path, ignore_errors=True)

    def _make(self) -> None:
        """Make the folder, which has its name once it is locked."""
        if self._lock != -1:
            os.close(self._lock)
            self._lock = -1
        _sweep(private_folder(self._base))
        made = self._base / f"{_NEW}{self._token}"
        try:
            os.mkdir(made, 0o700)
            self._lock = os.open(made, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            os.rename(made, self.path)
        except OSError as error:
            self.close()
            shutil.rmtree(made, ignore_errors=True)
            raise ConnectionFailed(f"no folder for ssh's sockets in {self._base}: {error.strerror}") from None


def _sweep(base: Path) -> None:
    """Remove the folders whose users were killed."""
    for path in base.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(fd)

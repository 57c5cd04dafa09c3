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


_UP = "up"
_DOWN = "down"
"""One of these files is there, as the connection is or is not; its content is the environment's name."""


class SshFolder:
    """A new folder, held by a lock, so that whoever makes the next one knows which have no user any more.

    Args:
        name: of the environment.

    Raises:
        ConnectionFailed: it cannot be made.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._base = _base()
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
        for name in {*os.listdir(self.path)} - {_DOWN}:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.path / name)

    def tell(self, *, is_up: bool) -> None:
        """Let others know whether the connection is there; a full disk keeps that from them."""
        with contextlib.suppress(OSError):
            (self.path / (_DOWN if is_up else _UP)).unlink(missing_ok=True)
            (self.path / (_UP if is_up else _DOWN)).write_text(self._name)

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


def connections_of(name: str) -> list[bool]:
    """Tell of each connection that programs of this user have to an environment whether it is there now."""
    found = []
    for path in _base().glob(f"{_PREFIX}*"):
        for is_up in (True, False):
            with contextlib.suppress(OSError, ValueError):
                if (path / (_UP if is_up else _DOWN)).read_text() == name and not _is_left(path):
                    found.append(is_up)
    return found


def _base() -> Path:
    folder = socket_folder(DEFAULT_NAME).parent
    return folder if _PLAIN.match(str(folder)) else shared_folder()


def _sweep(base: Path) -> None:
    """Remove the folders whose users were killed."""
    for path in base.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            if _is_left(path):
                shutil.rmtree(path, ignore_errors=True)


def _is_left(path: Path) -> bool:
    """Tell whether a folder has no user any more; nobody will lock it again."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(fd)
    return True

"""Own the state folder of a server: its lock, its format, and the connection files that point to it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import secrets
from pathlib import Path

from execzmq import connection
from execzmq.connection import ConnectionInfo
from execzmq.errors import Conflict, ConnectionFailed, VersionMismatch

log = logging.getLogger("execzmq.server")

FORMAT = 1


class StateFolder:
    """The folder of one server name, locked for this process.

    Args:
        name: of the server.

    Raises:
        Conflict: a server of that name runs; `pid` is its process id where it is known.
        ConnectionFailed: the folder is not this user's own.
        VersionMismatch: a later version of execzmq has written it.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.path = connection.private_folder(connection.state_folder(name))
        self.sockets = connection.private_folder(connection.socket_folder(name))
        self._locks: list[int] = []
        try:
            # Two homes may share one runtime folder: whoever binds there must be alone there too.
            for folder in (self.path, self.sockets):
                self._take_lock(folder / "lock")
            self._check_format()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Give the locks back; idempotent."""
        while self._locks:
            os.close(self._locks.pop())

    def key(self) -> str:
        """Return the key of all lives of this name, so that clients come back; the first one makes it."""
        path = self.path / "key"
        with contextlib.suppress(FileNotFoundError):
            if found := path.read_text(encoding="ascii").strip():
                return found
        key = secrets.token_hex(32)
        temporary = path.with_suffix(".tmp")
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(key + "\n")
        os.replace(temporary, path)
        return key

    @property
    def connection_file(self) -> Path:
        """Return where `connect(name)` looks first."""
        return self.path / "connection.json"

    def announce(self, info: ConnectionInfo) -> None:
        """Write the connection files, the one for Jupyter's readers too.

        Raises:
            ConnectionFailed: one cannot be written, as on a full disk.
        """
        for path in (self.connection_file, connection.runtime_file(self.name)):
            try:
                connection.write_connection_file(path, info)
            except OSError as error:
                message = f"{path} cannot be written: {error.strerror}; make room on its disk and start again"
                raise ConnectionFailed(message) from error

    def withdraw(self, info: ConnectionInfo) -> None:
        """Remove the connection files as far as they are of this life, and as that is possible."""
        for path in (self.connection_file, connection.runtime_file(self.name)):
            try:
                connection.remove_connection_file(path, pid=info.pid, epoch=info.epoch)
            except OSError as error:
                log.warning("the connection file %s cannot be removed: %s", path, error.strerror)

    def _take_lock(self, path: Path) -> None:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._locks.append(lock)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = os.pread(lock, 32, 0).decode("ascii", "replace").strip()
            message = (
                f"a server named {self.name!r} runs already (pid {pid or 'unknown'}); use it or end it first"
            )
            raise Conflict(message, name=self.name, pid=int(pid) if pid.isdigit() else None) from None
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)

    def _check_format(self) -> None:
        path = self.path / "state.json"
        with contextlib.suppress(FileNotFoundError, ValueError):
            found = json.loads(path.read_text()).get("format")
            if found != FORMAT:
                message = (
                    f"{path} has format {found}, this version writes {FORMAT}; use the version that wrote it"
                )
                raise VersionMismatch(message, ours=FORMAT, theirs=found)
        text = json.dumps({"format": FORMAT, "host": connection.host_id()}) + "\n"
        with contextlib.suppress(FileNotFoundError):
            if path.read_text() == text:  # on a full disk it could not be written again
                return
        temporary = path.with_suffix(".tmp")
        temporary.write_text(text)
        os.replace(temporary, path)

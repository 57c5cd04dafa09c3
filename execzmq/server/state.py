"""Own the state folder of a server: its lock, its format, and the connection files that point to it."""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import secrets
from pathlib import Path

from execzmq import connection
from execzmq.connection import ConnectionInfo
from execzmq.errors import Conflict, ConnectionFailed, VersionMismatch
from execzmq.server.locks import FolderLock, Held

log = logging.getLogger("execzmq.server")

FORMAT = 1
FORMAT_NAME = "state.json"


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
        self.sockets = self._socket_folder()
        self._locks: list[FolderLock] = []
        self._written: dict[Path, tuple[int, ...] | None] = {}
        try:
            # Two homes may share one runtime folder: whoever binds there must be alone there too.
            for folder in (self.path, self.sockets):
                self._locks.append(FolderLock(folder))
            check_format(self.path)
            self._write_format()
        except Held as held:
            self.close()
            raise _conflict(name, held.pid) from None
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Give the locks back; idempotent."""
        while self._locks:
            self._locks.pop().close()

    def key(self) -> str:
        """Return the key of all lives of this name, so that clients come back; the first one makes it."""
        with contextlib.suppress(FileNotFoundError, UnicodeDecodeError):
            if found := self._key_file.read_text(encoding="ascii").strip():
                return found
        key = secrets.token_hex(32)
        self._write_key(key)
        return key

    def make_again(self, key: str) -> bool:
        """Make folders, locks and files anew where they were removed; return whether the state was emptied.

        Args:
            key: of this server, for those who come after it.

        Raises:
            Conflict: another server has one of the folders by now.
            ConnectionFailed: something else has its place. OSError: the disk refuses.
        """
        for folder, lock in zip((self.path, self.sockets), self._locks, strict=True):
            if not lock.is_whole():
                connection.private_folder(folder)
                self._lock_again(lock)
        if self._key_file.exists():
            return False
        self._write_format()
        self._write_key(key)
        return True

    def _lock_again(self, lock: FolderLock) -> None:
        try:
            lock.mend()
        except Held as held:
            raise _conflict(self.name, held.pid) from None

    @property
    def connection_file(self) -> Path:
        """Return where `connect(name)` looks first."""
        return self.path / "connection.json"

    @property
    def plain_file(self) -> Path:
        """Return where the file for tcp without CURVE is, while the server listens so."""
        return self.path / "connection-tcp.json"

    def announce(self, info: ConnectionInfo, plain: ConnectionInfo | None = None) -> None:
        """Write the connection files, the one for Jupyter's readers too.

        Args:
            plain: what reaches the server over tcp without CURVE; `None` = nothing does.

        Raises:
            ConnectionFailed: one cannot be written, as on a full disk.
        """
        files = dict.fromkeys(self._connection_files, info)
        if plain is not None:
            files[self.plain_file] = plain
        for path, content in files.items():
            try:
                self._announce_in(path, content)
            except ConnectionFailed:
                raise
            except OSError as error:
                message = f"{path} cannot be written: {error.strerror}; make room on its disk and start again"
                raise ConnectionFailed(message) from error

    def announce_again(self, info: ConnectionInfo) -> list[Path]:
        """Write the connection files that were removed or spoilt since; return them. Another's file stays.

        Raises:
            ConnectionFailed, OSError: one could not be written.
        """
        spoilt = [path for path in self._connection_files if self._is_spoilt(path, info)]
        for path in spoilt:
            self._announce_in(path, info)
        return spoilt

    def withdraw(self, info: ConnectionInfo) -> None:
        """Remove the connection files as far as they are of this life, and as that is possible."""
        for path in self._connection_files:
            try:
                connection.remove_connection_file(path, pid=info.pid, epoch=info.epoch)
            except OSError as error:
                log.warning("the connection file %s cannot be removed: %s", path, error.strerror)
        with contextlib.suppress(OSError):
            if self.plain_file in self._written:
                os.unlink(self.plain_file)

    @property
    def _connection_files(self) -> tuple[Path, Path]:
        return self.connection_file, connection.runtime_file(self.name)

    def _announce_in(self, path: Path, info: ConnectionInfo) -> None:
        connection.write_connection_file(path, info)
        self._written[path] = _signature(path)

    def _is_spoilt(self, path: Path, info: ConnectionInfo) -> bool:
        signature = _signature(path)
        if signature is not None and signature == self._written.get(path):
            return False
        try:
            found = connection.load(path)
        except ConnectionFailed:
            return True
        if found == info:
            self._written[path] = signature
        return found != info and found.host == info.host and not _is_alive(found.pid)

    @property
    def _key_file(self) -> Path:
        return self.path / "key"

    def _write_key(self, key: str) -> None:
        temporary = self._key_file.with_suffix(".tmp")
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(key + "\n")
        os.replace(temporary, self._key_file)

    def _socket_folder(self) -> Path:
        """Return the folder for the sockets: where clients of a life that ended by force wait."""
        with contextlib.suppress(ConnectionFailed, OSError):
            before = connection.load(self.connection_file)
            if (before.transport, before.host) == ("ipc", connection.host_id()):
                return connection.private_folder(Path(before.ip).parent)
        return connection.private_folder(connection.socket_folder(self.name))

    def _write_format(self) -> None:
        path = self.path / FORMAT_NAME
        text = json.dumps({"format": FORMAT, "host": connection.host_id()}) + "\n"
        with contextlib.suppress(FileNotFoundError, UnicodeDecodeError):
            if path.read_text() == text:  # on a full disk it could not be written again
                return
        temporary = path.with_suffix(".tmp")
        temporary.write_text(text)
        os.replace(temporary, path)


def check_format(folder: Path) -> None:
    """Return if this version can read a state folder; it may be empty, or not be there.

    Raises:
        VersionMismatch: a later version has written it.
    """
    path = folder / FORMAT_NAME
    with contextlib.suppress(FileNotFoundError, ValueError):
        read = json.loads(path.read_text())
        found = read.get("format") if isinstance(read, dict) else FORMAT  # junk is written anew
        if found != FORMAT:
            message = (
                f"{path} has format {found}, this version writes {FORMAT}; use the version that wrote it"
            )
            raise VersionMismatch(message, ours=FORMAT, theirs=found)


def _conflict(name: str, pid: int | None) -> Conflict:
    message = f"a server named {name!r} runs already (pid {pid or 'unknown'}); use it or end it first"
    return Conflict(message, name=name, pid=pid)


def _signature(path: Path) -> tuple[int, ...] | None:
    """Return what changes when a file is written or replaced, `None` where there is none."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_mode, status.st_size, status.st_mtime_ns


def _is_alive(pid: int) -> bool:
    """Tell whether there is a process of that number other than this one."""
    if pid == os.getpid() or pid < 1:
        return False
    try:
        os.kill(pid, 0)
    except OSError as error:
        return error.errno == errno.EPERM
    return True

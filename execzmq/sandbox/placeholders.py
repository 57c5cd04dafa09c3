"""Own the empty folders that sandboxes leave on the disk: who uses each, and when it goes.

A name that must stay missing is covered in the sandbox, and what is covered has to exist. To remove it while
another sandbox uses it would take that one's cover away, whichever server started that: so what is removed is
mounted nowhere, and nobody is starting meanwhile. A journal tells the server's next life of those whose
sandboxes ended when no server lived. Knows nothing of processes: their ids are keys.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import stat
from collections.abc import Collection, Iterable, Iterator

from execzmq.sandbox.model import View
from execzmq.sandbox.mounted import mounted_elsewhere
from execzmq.sandbox.repositories import HERE

_MOST_BYTES = 1 << 20


class Placeholders:
    """What the sandboxes of one server have left on the disk, and which of them need it.

    Args:
        journal: file in the server's state folder; made when it is needed.
        lock: file that all servers of this user share; made when it is needed.
    """

    def __init__(self, journal: bytes, lock: bytes) -> None:
        self._journal = journal
        self._lock = lock
        self._held: dict[str, frozenset[bytes]] = {}
        self._leaving: set[bytes] = set()
        self._files: set[bytes] = set()

    def __len__(self) -> int:
        return len(self._held)

    @property
    def paths(self) -> frozenset[bytes]:
        """Return what is left on the disk now: for `view_of`, to which it counts as missing."""
        held = [path for paths in list(self._held.values()) for path in paths]
        return frozenset((*held, *list(self._leaving)))

    @property
    def has_left(self) -> bool:
        """Tell whether there is something that nobody here needs any more, for `sweep`."""
        return bool(self._leaving)

    def starting(self, *, waits: bool = True) -> int:
        """Return a descriptor that keeps every server from removing anything until it is closed.

        It is to be had from before the look at the disk until all is mounted.

        Args:
            waits: for a `sweep`, however long that takes.

        Raises:
            BlockingIOError: there is one, and it is not waited for. OSError: the lock cannot be had.
        """
        return _locked(self._lock, fcntl.LOCK_SH | (0 if waits else fcntl.LOCK_NB))

    def hold(self, key: str, view: View) -> None:
        """Count a sandbox as a user of what its view leaves on the disk; to be called while it is `starting`.

        Args:
            key: of the sandbox, not yet in use.
            view: what it will see.

        Raises:
            OSError: the journal, or a file that is needed, cannot be written; nothing is held then.
        """
        known = self.paths
        used = {m.path: m for m in view.mounts if m.is_missing or (m.fd >= 0 and m.path in known)}
        if not used:
            return
        files = [path for path, mount in used.items() if mount.is_missing and not mount.is_dir]
        self._held[key] = frozenset(used)
        self._files.update(files)
        try:
            self._note(key)
            for path in files:
                _make_file(path)
        except BaseException:
            self.release(key)
            raise

    def release(self, key: str) -> None:
        """Need no more what a sandbox has left; to be called when all of it has ended. Idempotent."""
        self._leaving |= self._held.pop(key, frozenset())

    def sweep(self) -> bool:
        """Remove what nobody needs; nothing while a sandbox of this user is being started anywhere.

        Return whether it could be looked: not while one is being started, or another looks. What is not an
        empty folder any more, or a file with other content, is somebody's and stays. Looks at all processes
        and may wait for a file system: to be called aside of the loop, not twice at a time.
        """
        try:
            lock = _locked(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        with contextlib.suppress(OSError), _closing(lock):
            wanted = {path for paths in list(self._held.values()) for path in paths}
            free = set(self._leaving) - wanted
            for path in free - mounted_elsewhere(free):
                _remove(path, is_file=path in self._files)
                self._leaving.discard(path)
                self._files.discard(path)
            self._leaving -= wanted
            self._shorten()
        return True

    def recover(self, alive: Collection[str]) -> None:
        """Take over what earlier lives of this server have left; what no sandbox needs now is for `sweep`.

        Args:
            alive: keys of the sandboxes that still run.
        """
        for key, paths, files in self._noted():
            self._held.setdefault(key, frozenset(paths))
            self._files.update(files)
        for key in [key for key in self._held if key not in alive]:
            self.release(key)

    def _note(self, key: str) -> None:
        line = self._line(key)
        fd = os.open(
            self._journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
        )
        try:
            if os.write(fd, line) != len(line):
                raise OSError(f"the disk of {os.fsdecode(self._journal)!r} is full")
        finally:
            os.close(fd)

    def _line(self, key: str) -> bytes:
        paths = self._held[key]
        noted = {"key": key, "paths": _shown(paths), "files": _shown(paths & self._files)}
        # A line that was cut off by a full disk ends here.
        return b"\n" + json.dumps(noted).encode() + b"\n"

    def _shorten(self) -> None:
        """Take out of the journal what has ended: all at once when nothing is held, else when it is large.

        Nothing depends on it: what it says too much is looked at and found gone.
        """
        with contextlib.suppress(OSError):
            if not self._held and not self._leaving:
                os.truncate(self._journal, 0)
            elif os.stat(self._journal).st_size > _MOST_BYTES:
                self._write_anew()

    def _write_anew(self) -> None:
        temporary = self._journal + b".new"
        with open(temporary, "wb") as file:
            file.writelines(map(self._line, self._held))
        os.replace(temporary, self._journal)

    def _noted(self) -> Iterator[tuple[str, list[bytes], list[bytes]]]:
        try:
            with open(self._journal, "rb") as file:
                lines = file.read().splitlines()
        except OSError:
            return
        for line in lines:
            with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
                noted = json.loads(line)
                yield (
                    str(noted["key"]),
                    [*map(os.fsencode, noted["paths"])],
                    [*map(os.fsencode, noted["files"])],
                )


def _shown(paths: Iterable[bytes]) -> list[str]:
    return sorted(os.fsdecode(path) for path in paths)


def _make_file(path: bytes) -> None:
    """Make the file that keeps Git from reading another one of its name."""
    with contextlib.suppress(FileExistsError):
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        try:
            os.write(fd, HERE)
        finally:
            os.close(fd)


def _remove(path: bytes, *, is_file: bool) -> None:
    """Remove what a sandbox left at a path, if that is still all there is, and if it is still there."""
    folder, name = os.path.split(path)
    with contextlib.suppress(OSError), _opened(folder, os.O_PATH | os.O_DIRECTORY) as parent:
        # A command may have put a link in place of a folder of the path.
        if os.readlink(b"/proc/self/fd/%d" % parent) != folder:
            return
        if not is_file:
            os.rmdir(name, dir_fd=parent)
        elif _content(name, parent) == HERE:
            os.unlink(name, dir_fd=parent)


def _content(name: bytes, parent: int) -> bytes:
    with _opened(name, os.O_RDONLY | os.O_NONBLOCK, parent) as fd:
        return os.read(fd, len(HERE) + 1) if stat.S_ISREG(os.fstat(fd).st_mode) else b""


def _locked(path: bytes, kind: int) -> int:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(fd, kind)
    except BaseException:
        os.close(fd)
        raise
    return fd


@contextlib.contextmanager
def _closing(fd: int) -> Iterator[None]:
    try:
        yield
    finally:
        os.close(fd)


@contextlib.contextmanager
def _opened(path: bytes, flags: int, parent: int | None = None) -> Iterator[int]:
    fd = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        yield fd
    finally:
        os.close(fd)

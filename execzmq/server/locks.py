"""Own the lock of a folder: that one process has it, which one, and that it is still that folder.

Knows nothing of what is kept in the folder.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import stat
from collections.abc import Iterator
from pathlib import Path

LOCK_NAME = "lock"


class Held(Exception):
    """Another process has the lock; `pid` as it says so itself, which proves nothing."""

    def __init__(self, pid: int | None) -> None:
        super().__init__(f"held by {pid}")
        self.pid = pid


class FolderLock:
    """The lock of a folder that is there.

    The file in it, which names the holder, could be removed and made anew by another process; so the folder
    itself is locked too, where its file system can (NFS locks files only).

    Raises:
        Held: by `pid`. OSError: the folder or its file cannot be opened.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._locked: dict[Path, int] = {}
        try:
            self.mend()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Give the lock back; idempotent."""
        while self._locked:
            os.close(self._locked.popitem()[1])

    def is_whole(self) -> bool:
        """Tell whether the folder and its file are still those that are locked."""
        return all(self._is_same(path) for path in (self._folder, self._file))

    def mend(self) -> None:
        """Lock what has taken the place of the folder or of its file; without change, do nothing.

        Raises:
            Held: it is another process's now; what was locked before stays so. OSError: as at the beginning.
        """
        if not self._is_same(self._folder):
            self._replace(self._folder, self._lock_folder())
        if not self._is_same(self._file):
            self._replace(self._file, self._lock_file())

    @property
    def _file(self) -> Path:
        return self._folder / LOCK_NAME

    def _is_same(self, path: Path) -> bool:
        fd = self._locked.get(path)
        if fd is None:
            return False
        try:
            return os.path.samestat(os.fstat(fd), os.lstat(path))
        except OSError:
            return False

    def _replace(self, path: Path, lock: int) -> None:
        before = self._locked.get(path)
        self._locked[path] = lock
        if before is not None:
            os.close(before)

    def _lock_folder(self) -> int:
        fd = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            with contextlib.suppress(OSError):
                _flock(fd, self._file)
        except BaseException:
            os.close(fd)
            raise
        return fd

    def _lock_file(self) -> int:
        fd = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            _flock(fd, self._file)
            # In this order, since on a full disk there would be no room again.
            os.ftruncate(fd, os.pwrite(fd, f"{os.getpid()}\n".encode(), 0))
        except BaseException:
            os.close(fd)
            raise
        return fd


def _flock(fd: int, file: Path) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise Held(_pid_in(file)) from None


class Holder:
    """The process that holds a lock, by a descriptor that never means another process."""

    def __init__(self, pid: int, pidfd: int) -> None:
        self.pid = pid
        self.pidfd = pidfd

    def has_ended(self, seconds: float = 0.0) -> bool:
        """Wait until it has ended, at most so long; tell whether it has."""
        poll = select.poll()
        poll.register(self.pidfd, select.POLLIN)
        return bool(poll.poll(1000 * seconds))


@contextlib.contextmanager
def holder_of(folder: Path) -> Iterator[Holder | None]:
    """Find who holds a folder's lock; `None` where nobody does, or it is none that can be seen from here.

    The file's word is not enough: a process of that number may be a stranger by now. It must have the file
    open and locked, and be alive after that was seen, so that the number was its own all the time.
    """
    pid = _pid_in(folder / LOCK_NAME)
    try:
        pidfd = os.pidfd_open(pid) if pid else -1
    except OSError:
        pidfd = -1
    if pid is None or pidfd < 0:
        yield None
        return
    holder = Holder(pid, pidfd)
    try:
        yield holder if _has_locked(pid, folder / LOCK_NAME) and not holder.has_ended() else None
    finally:
        os.close(pidfd)


def _has_locked(pid: int, file: Path) -> bool:
    try:
        wanted = os.stat(file)
        numbers = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return False
    return any(_is_lock(pid, number, wanted) for number in numbers)


def _is_lock(pid: int, number: str, wanted: os.stat_result) -> bool:
    try:
        status = os.stat(f"/proc/{pid}/fd/{number}")
        if not stat.S_ISREG(status.st_mode) or not os.path.samestat(status, wanted):
            return False
        # Who only tries for the lock has the file open too.
        return "FLOCK" in Path(f"/proc/{pid}/fdinfo/{number}").read_text()
    except OSError:
        return False


def _pid_in(file: Path) -> int | None:
    try:
        text = file.read_bytes()[:32].decode("ascii", "replace").strip()
    except OSError:
        return None
    return int(text) if text.isascii() and text.isdigit() else None

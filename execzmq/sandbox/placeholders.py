"""Own the empty folders that sandboxes leave on the disk: who uses each, and when it goes.

A name that must stay missing is covered in the sandbox, and what is covered has to exist. To remove it while
another sandbox uses it would take that one's cover away, whichever server started that: so what is removed is
mounted nowhere, and nobody is starting meanwhile. A journal tells the server's next life of those whose
sandboxes ended when no server lived, by the paths that they had. Knows nothing of processes: their ids are
keys.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import threading
from collections.abc import Collection, Iterable, Iterator

from execzmq.sandbox.anchors import Anchors, open_folder
from execzmq.sandbox.disk import check_not_scarce
from execzmq.sandbox.model import View
from execzmq.sandbox.mounted import mounted_elsewhere
from execzmq.sandbox.placeholder_journal import Noted, PlaceholderJournal, write_whole
from execzmq.sandbox.repositories import HERE


class Placeholders:
    """What the sandboxes of one server have left on the disk, and which of them need it.

    To be closed.

    Args:
        journal: file in the server's state folder; made when it is needed.
        lock: file that all servers of this user share; made when it is needed.
    """

    def __init__(self, journal: bytes, lock: bytes) -> None:
        self._journal = PlaceholderJournal(journal)
        self._lock = lock
        self._held: dict[str, frozenset[bytes]] = {}
        self._leaving: set[bytes] = set()
        self._files: set[bytes] = set()
        self._anchors = Anchors()
        self._is_closed, self._looks = False, 0
        self._changing = threading.Lock()  # never held while the disk is looked at

    def __len__(self) -> int:
        return len(self._held)

    @property
    def paths(self) -> frozenset[bytes]:
        """Return what is left on the disk now: for `view_of`, to which it counts as missing."""
        with self._changing:
            return frozenset(self._needed() | self._leaving)

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
            OSError: a file that is needed, which `filename` names, cannot be written, or there is no
                descriptor; nothing is held then.
        """
        known = self.paths
        used = {m.path: m for m in view.mounts if m.is_missing or (m.fd >= 0 and m.path in known)}
        if not used:
            return
        files = [path for path, mount in used.items() if mount.is_missing and not mount.is_dir]
        with self._changing:
            self._held[key] = frozenset(used)
            self._files.update(files)
        try:
            self._anchor(view, used)
            self._journal.note(Noted(key, self._held[key], frozenset(files)))
            for path in files:
                _make_file(path)
        except BaseException:
            self.release(key)
            raise

    def release(self, key: str) -> None:
        """Need no more what a sandbox has left; to be called when all of it has ended. Idempotent."""
        with self._changing:
            self._leaving |= self._held.pop(key, frozenset())

    def sweep(self) -> bool:
        """Remove what nobody needs; nothing while a sandbox of this user is being started anywhere.

        Return whether it could be looked: not while one is being started, or another looks. What is not an
        empty folder any more, or a file with other content, is somebody's and stays. Looks at all processes
        and may wait for a file system: to be called aside of the loop, not twice at a time.
        """
        if not self._may_look():
            return False
        try:
            lock = _locked(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with _closing(lock), contextlib.suppress(OSError):
                self._look()
        except OSError:
            return False
        finally:
            self._has_looked()
        return True

    def find(self) -> None:
        """Find the folders of what earlier lives have left, to know where they are when they are moved later.

        May wait for a file system, as `sweep`.
        """
        if self._may_look():
            try:
                self._find()
            finally:
                self._has_looked()

    def close(self) -> None:
        """Leave what is there to the server's next life; idempotent. Does not wait for a look under way."""
        with self._changing:
            self._is_closed = True
            self._let_go_if_idle()

    def _may_look(self) -> bool:
        with self._changing:
            self._looks += not self._is_closed
            return not self._is_closed

    def _has_looked(self) -> None:
        with self._changing:
            self._looks -= 1
            self._let_go_if_idle()

    def _let_go_if_idle(self) -> None:
        if self._is_closed and not self._looks:
            self._anchors.let_go()

    def _anchor(self, view: View, paths: Iterable[bytes]) -> None:
        """Note the folders of these paths: as a command may write to them, each is a mount of the view."""
        folders = {os.path.dirname(path) for path in paths}
        with self._changing:
            for mount in view.mounts:
                if mount.fd >= 0 and mount.path in folders:
                    self._anchors.add(mount.path, os.dup(mount.fd))

    def _find(self) -> None:
        with self._changing:
            folders = {os.path.dirname(path) for path in self._needed() | self._leaving}
            unknown = [folder for folder in folders if folder not in self._anchors]
        for folder in unknown:
            try:
                fd = open_folder(folder)
            except OSError as error:  # what cannot be looked at now must not be taken for gone
                check_not_scarce(error)
                continue
            with self._changing:
                self._anchors.add(folder, fd)

    def _look(self) -> None:
        self._find()
        with self._changing:
            self._leaving -= self._needed()
            free = set(self._leaving)
        left = [(path, anchor) for path in free for anchor in self._anchors.at(os.path.dirname(path))]
        places = {(path, anchor): os.path.join(anchor.place, os.path.basename(path)) for path, anchor in left}
        mounted = mounted_elsewhere({*free, *places.values()})
        busy = {path for (path, _), place in places.items() if {path, place} & mounted} | (free & mounted)
        for path, anchor in left:
            if path not in busy:
                _remove(os.path.basename(path), anchor.fd, is_file=path in self._files)
        self._forget(free - busy)

    def _forget(self, removed: set[bytes]) -> None:
        with self._changing:
            self._leaving -= removed
            self._files -= removed
            known = self._needed() | self._leaving
            self._anchors.let_go(but={os.path.dirname(path) for path in known})
            held, files = dict(self._held), set(self._files)
        self._journal.shorten(held, files, is_over=not known)

    def _needed(self) -> set[bytes]:
        return {path for paths in self._held.values() for path in paths}

    def recover(self, alive: Collection[str]) -> None:
        """Take over what earlier lives of this server have left; what no sandbox needs now is for `sweep`.

        Args:
            alive: keys of the sandboxes that still run.
        """
        for key, paths, files in self._journal.read():
            with self._changing:
                self._held.setdefault(key, paths)
                self._files.update(files)
        for key in [key for key in self._held if key not in alive]:
            self.release(key)


def _make_file(path: bytes) -> None:
    """Make the file that keeps Git from reading another one of its name, whole or not at all."""
    with contextlib.suppress(FileExistsError):
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        try:
            write_whole(fd, HERE, path)
        except BaseException:
            os.unlink(path)
            raise
        finally:
            os.close(fd)


def _remove(name: bytes, folder: int, *, is_file: bool) -> None:
    """Remove what a sandbox left in a folder, if that is still all there is."""
    with contextlib.suppress(OSError):
        if not is_file:
            os.rmdir(name, dir_fd=folder)
        elif _is_ours(name, folder):
            os.unlink(name, dir_fd=folder)


def _is_ours(name: bytes, folder: int) -> bool:
    """Tell whether a file is one of `_make_file`, which may have been killed before it had written it."""
    fd = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    with _closing(fd):
        return stat.S_ISREG(os.fstat(fd).st_mode) and HERE.startswith(os.read(fd, len(HERE) + 1))


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

"""Own the questions to the disk that a view is planned from, and their answers.

Each is asked once in the life of a `Disk`, so that one plan rests on one answer. Which were asked is told, so
that another `Disk` can be asked the same later. Knows nothing of permissions: what the answers mean is for
`places`, `repositories` and `planning`. To find a path missing is an answer; to have no descriptor to look at
it with is an error.
"""

from __future__ import annotations

import errno
import functools
import os
import stat
from collections.abc import Callable, Collection
from itertools import islice
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeAlias, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

Answers: TypeAlias = dict[tuple[Any, ...], object]
"""Question, with what it is about, to answer, in the order in which they were asked."""

_MOUNTS = "/proc/self/mountinfo"
_ACL = "system.posix_acl_access"
_SCARCE = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
_MOST_CHECKED = 200
_MOST_LINKS = 40
"""Links that a path may go through, as for the kernel."""
_PIECE = 64 * 1024
_UNASKED = object()


def check_not_scarce(error: OSError) -> None:
    """Raise an error that says nothing of a path, but that this process cannot look at it now."""
    if error.errno in _SCARCE:
        raise error


def _question(look: Callable[Concatenate[Disk, P], T]) -> Callable[Concatenate[Disk, P], T]:
    """Make a look at the disk a question: it is done once, and its answer noted whenever it is asked for."""

    def ask(disk: Disk, /, *about: P.args, **named: P.kwargs) -> T:
        key = (look, *about)
        answer: Any = disk.known.get(key, _UNASKED)
        if answer is _UNASKED:
            answer = disk.known[key] = look(disk, *about, **named)
        disk.answers[key] = answer
        return answer  # type: ignore[no-any-return]  # what `look` has returned

    functools.update_wrapper(ask, look)
    return ask


class Listing(NamedTuple):
    """What was found in a folder.

    Attributes:
        folders: by their paths, in order.
        entries: how many were looked at, in whole hundreds: a file more or less is mostly of no matter.
    """

    folders: tuple[bytes, ...]
    entries: int


class Disk:
    """The disk as it is found in the course of one look.

    Args:
        placeholders: paths whose empty folder, or file, was left by another sandbox.

    Attributes:
        known: all answers so far.
        answers: those that were asked for since the last `begin`.
    """

    def __init__(self, placeholders: Collection[bytes] = ()) -> None:
        self._placeholders = placeholders
        self._missing: set[bytes] = set()
        self.known: Answers = {}
        self.answers: Answers = {}

    def begin(self) -> Answers:
        """Begin to note anew what is asked for; return where it is noted."""
        self.answers = {}
        return self.answers

    def still_answers(self, answers: Answers) -> bool:
        """Tell whether the same questions have the same answers now.

        Raises:
            OSError: one of them cannot be asked now.
        """
        known = self.known
        for key, answer in answers.items():
            found = known.get(key, _UNASKED)
            if found is _UNASKED:
                found = known[key] = key[0](self, *key[1:])
            if found != answer:
                return False
        return True

    # What a path is

    def kind(self, path: bytes) -> int:
        """Return the file type (`stat.S_IFMT`) of a path itself and not of what it links to; 0 = none."""
        folder = path[: path.rfind(b"/")]
        looked_at = folder if folder in self._missing else path  # in what is missing nothing is
        if not (kind := self._kind(looked_at)):
            self._missing.add(path)
        return kind

    @_question
    def _kind(self, path: bytes) -> int:
        try:
            return stat.S_IFMT(os.lstat(path).st_mode)
        except OSError as error:
            check_not_scarce(error)
            return 0

    @_question
    def identity(self, path: bytes) -> tuple[int, int] | None:
        """Return device and inode of a path itself, `None` where nothing is."""
        try:
            status = os.lstat(path)
        except OSError:
            return None
        return status.st_dev, status.st_ino

    @_question
    def target(self, link: bytes) -> bytes | None:
        """Return what a symbolic link says, `None` where it is none."""
        try:
            return os.readlink(link)
        except OSError:
            return None

    @_question
    def fault(self, path: bytes) -> int:
        """Return the errno for which what a path leads to cannot be found, 0 where it can."""
        try:
            os.stat(path)
        except OSError as error:
            return error.errno or errno.EIO
        return 0

    @_question
    def is_placeholder(self, path: bytes) -> bool:
        """Tell whether what is at a path was left by another sandbox."""
        return path in self._placeholders

    @_question
    def is_empty(self, folder: bytes) -> bool:
        """Tell whether nothing is in a folder."""
        try:
            with os.scandir(folder) as entries:
                return next(entries, None) is None
        except OSError as error:
            check_not_scarce(error)
            return False

    @_question
    def may_create(self, folder: bytes) -> bool:
        """Tell whether a command of the server's user can make something in a folder.

        Root counts as any other user: a command has none of its capabilities.

        Raises:
            OSError: the folder has gone meanwhile.
        """
        if not os.access(folder, os.W_OK | os.X_OK):
            return False
        if os.geteuid() != 0:
            return True
        status = os.stat(folder)
        return bool(status.st_mode & _write_bit(status)) or _has_acl(folder)

    def exists(self, path: bytes) -> bool:
        """Tell whether there is something at a path, a link that leads nowhere too."""
        return self.kind(path) != 0

    def is_folder(self, path: bytes) -> bool:
        """Tell whether a path is a folder itself, and no link to one."""
        return self.kind(path) == stat.S_IFDIR

    def is_link(self, path: bytes) -> bool:
        """Tell whether a path is a symbolic link."""
        return self.kind(path) == stat.S_IFLNK

    def is_left_behind(self, path: bytes) -> bool:
        """Tell whether a path is what a sandbox leaves of a missing name: an empty folder, or a file."""
        kind = self.kind(path)
        return kind == stat.S_IFREG or (kind == stat.S_IFDIR and self.is_empty(path))

    def real(self, path: bytes) -> bytes:
        """Return an absolute path with its links followed, as far as it exists; a loop of links is left."""
        place, rest, links = b"", path.split(b"/")[::-1], 0
        while rest:
            name = rest.pop()
            if name == b"..":
                place = place[: max(0, place.rfind(b"/"))]
            elif name not in (b"", b"."):
                here = place + b"/" + name
                kind = self.kind(here)
                if not kind and b".." not in rest:
                    return b"/".join((here, *(word for word in rest[::-1] if word not in (b"", b"."))))
                target = self.target(here) if kind == stat.S_IFLNK and links < _MOST_LINKS else None
                if target is None:
                    place = here
                    continue
                links += 1
                place = b"" if target.startswith(b"/") else place
                rest += target.split(b"/")[::-1]
        return place or b"/"

    # What is in it

    @_question
    def folders_in(self, folder: bytes, most: int) -> Listing:
        """Return the folders among the first entries of a folder; none of one that cannot be read."""
        try:
            with os.scandir(folder) as entries:
                found = [(entry.path, entry.is_dir(follow_symlinks=False)) for entry in islice(entries, most)]
        except OSError as error:
            check_not_scarce(error)
            return Listing((), 0)
        folders = tuple(sorted(path for path, is_dir in found if is_dir))
        return Listing(folders, len(found) // 100 * 100)

    @_question
    def content(self, file: bytes, most: int) -> bytes:
        """Return the begin of a file that is no link; empty where it cannot be read."""
        return _read(file, most)

    @_question
    def has_word(self, file: bytes, word: bytes, most: int) -> bool:
        """Tell whether a word, in lower case, is in the begin of a file in whatever case."""
        return word in _read(file, most).lower()

    @_question
    def has_second_name(self, path: bytes) -> bool:
        """Tell whether a file, or one of the first files of a folder, has a second name (hard link)."""
        return any(file.st_nlink > 1 and stat.S_ISREG(file.st_mode) for file in _files_of(path))

    @_question
    def mounts(self) -> bytes:
        """Return the kernel's list of what is mounted."""
        fd = os.open(_MOUNTS, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return b"".join(iter(lambda: os.read(fd, _PIECE), b""))
        finally:
            os.close(fd)


def _read(file: bytes, most: int) -> bytes:
    try:
        fd = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        check_not_scarce(error)
        return b""
    try:
        return os.read(fd, most)
    except OSError:
        return b""
    finally:
        os.close(fd)


def _files_of(path: bytes) -> list[os.stat_result]:
    """Return the status of a file, or of the first files of a folder."""
    try:
        status = os.lstat(path)
        if not stat.S_ISDIR(status.st_mode):
            return [status]
        with os.scandir(path) as entries:
            return [entry.stat(follow_symlinks=False) for entry in islice(entries, _MOST_CHECKED)]
    except OSError as error:
        check_not_scarce(error)
        return []


def _write_bit(status: os.stat_result) -> int:
    if status.st_uid == os.geteuid():
        return stat.S_IWUSR
    groups = {os.getegid(), *os.getgroups()}
    return stat.S_IWGRP if status.st_gid in groups else stat.S_IWOTH


def _has_acl(folder: bytes) -> bool:
    try:
        return bool(os.getxattr(folder, _ACL))
    except OSError:
        return False

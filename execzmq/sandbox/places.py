"""Own what follows from a disk's answers about one path: what it really is, which links lead there; and how
what is there is opened.

Knows nothing of permissions: what that means is for `planning` and `layers`.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Iterable
from itertools import takewhile

from execzmq.errors import InvalidRequest
from execzmq.sandbox.disk import Disk, check_not_scarce
from execzmq.sandbox.layers import above, clean, refusal

_REASONS = {
    errno.ENOENT: ("root_not_found", "does not exist: make it, or name another"),
    errno.ENOTDIR: ("root_not_found", "goes through a file: name another"),
    errno.ELOOP: ("root_not_found", "is a symbolic link to itself: name another"),
    errno.EACCES: ("root_not_accessible", "cannot be reached by the server's user: name another"),
    errno.ENAMETOOLONG: ("path_too_long", "is too long: name another"),
}


def resolve(path: bytes, disk: Disk, *, is_writable: bool) -> bytes:
    """Return what is really meant by the path of something to be shown.

    Raises:
        InvalidRequest: it is missing, out of reach, or to be written and no folder; with the `reason`.
    """
    resolved = disk.real(clean(path))
    if not disk.exists(resolved) or disk.is_link(resolved):
        number = disk.fault(clean(path)) or errno.ENOENT
        other = "root_not_accessible", f"is refused: {os.strerror(number)}"
        reason, words = _REASONS.get(number, other)
        raise refusal(reason, path, words)
    if is_writable and not disk.is_folder(resolved):
        # A file that is a mount cannot be replaced, and to replace it is how most programs write.
        raise refusal("root_not_directory", path, "is no folder: name the one that it is in")
    return resolved


def resolve_hidden(paths: Iterable[bytes], disk: Disk) -> list[bytes]:
    """Return what is really meant by the paths of things to be hidden, as far as they exist."""
    return [_resolved(clean(path), disk) for path in paths]


def _resolved(path: bytes, disk: Disk) -> bytes:
    folder, _, name = path.rpartition(b"/")
    place = disk.real(folder or b"/").rstrip(b"/") + b"/" + name
    return disk.real(place) if disk.is_link(place) else place


def links_in(path: bytes, disk: Disk, resolved: Collection[bytes] = ()) -> list[bytes]:
    """Return the places of the links that a path goes through, but of what is above a `resolved` one."""
    chain = takewhile(lambda folder: folder not in resolved, (path, *above(path)))
    found = [folder for folder in chain if disk.is_link(folder)]
    return [os.path.join(disk.real(os.path.dirname(link)), os.path.basename(link)) for link in found]


def are_same(one: bytes, other: bytes, disk: Disk) -> bool:
    """Tell whether two paths lead to the same file or folder."""
    identity = disk.identity(one)
    return identity is not None and identity == disk.identity(other)


def nearest(path: bytes, disk: Disk) -> bytes:
    """Return the path if it or its folder exists, else the outermost part of it that is missing."""
    while not disk.exists(path) and not disk.is_folder(os.path.dirname(path)):
        path = os.path.dirname(path)
    return path


def open_path(path: bytes, *, is_dir: bool) -> int:
    """Return a descriptor (`O_PATH`) of what is at a resolved path.

    Raises:
        InvalidRequest: something else has taken its place since the path was resolved.
        OSError: there is no descriptor.
    """
    flags = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC | (os.O_DIRECTORY if is_dir else 0)
    try:
        fd = os.open(path, flags)
    except OSError as error:
        check_not_scarce(error)
        raise _changed(path) from None
    try:
        check_at(fd, path)
    except BaseException:
        os.close(fd)
        raise
    return fd


def check_at(fd: int, path: bytes) -> None:
    """Check that what a descriptor stands for is at a resolved path now.

    Raises:
        InvalidRequest: something else is.
    """
    try:
        # More than device and inode say: no folder above it has become a link either.
        is_there = os.readlink(b"/proc/self/fd/%d" % fd) == path and os.path.samestat(
            os.fstat(fd), os.lstat(path)
        )
    except OSError as error:
        raise _changed(path) from error
    if not is_there:
        raise _changed(path)


def _changed(path: bytes) -> InvalidRequest:
    return refusal("root_changed", path, "was replaced while the sandbox was prepared: try again")

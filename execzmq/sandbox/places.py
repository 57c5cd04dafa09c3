"""Own the questions to the disk about one path: what it is, what it really is, whether it can be made.

Knows nothing of permissions: what the answers mean is for `paths` and `layers`.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Collection, Iterable
from itertools import takewhile

from execzmq.sandbox.layers import above, clean, refusal

_REASONS = {
    errno.ENOENT: ("root_not_found", "does not exist: make it, or name another"),
    errno.ENOTDIR: ("root_not_found", "goes through a file: name another"),
    errno.ELOOP: ("root_not_found", "is a symbolic link to itself: name another"),
    errno.EACCES: ("root_not_accessible", "cannot be reached by the server's user: name another"),
    errno.ENAMETOOLONG: ("path_too_long", "is too long: name another"),
}
_ACL = "system.posix_acl_access"
_SCARCE = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


def check_not_scarce(error: OSError) -> None:
    """Raise an error that says nothing of a path, but that this process cannot look at it now."""
    if error.errno in _SCARCE:
        raise error


def resolve(path: bytes, *, is_writable: bool) -> bytes:
    """Return what is really meant by the path of something to be shown.

    Raises:
        InvalidRequest: it is missing, out of reach, or to be written and no folder; with the `reason`.
    """
    try:
        resolved = os.path.realpath(clean(path), strict=True)
        is_folder = stat.S_ISDIR(os.lstat(resolved).st_mode)
    except OSError as error:
        reason, words = _REASONS.get(
            error.errno or 0, ("root_not_accessible", f"is refused: {error.strerror}")
        )
        raise refusal(reason, path, words) from None
    if is_writable and not is_folder:
        # A file that is a mount cannot be replaced, and to replace it is how most programs write.
        raise refusal("root_not_directory", path, "is no folder: name the one that it is in")
    return resolved


def resolve_hidden(paths: Iterable[bytes]) -> list[bytes]:
    """Return what is really meant by the paths of things to be hidden, as far as they exist."""
    folders: dict[bytes, bytes] = {}  # most of what is hidden lies in few
    return [_resolved(clean(path), folders) for path in paths]


def _resolved(path: bytes, folders: dict[bytes, bytes]) -> bytes:
    if os.path.islink(path):
        return os.path.realpath(path)
    folder, _, name = path.rpartition(b"/")
    if folder not in folders:
        folders[folder] = os.path.realpath(folder or b"/").rstrip(b"/")
    return folders[folder] + b"/" + name


def links_in(path: bytes, resolved: Collection[bytes] = ()) -> list[bytes]:
    """Return the places of the links that a path goes through, but of what is above a `resolved` one."""
    chain = takewhile(lambda folder: folder not in resolved, (path, *above(path)))
    found = [folder for folder in chain if os.path.islink(folder)]
    return [os.path.join(os.path.realpath(os.path.dirname(link)), os.path.basename(link)) for link in found]


def is_folder(path: bytes) -> bool:
    """Tell whether a path is a folder itself, and no link to one."""
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def is_left_behind(path: bytes) -> bool:
    """Tell whether a path is what a sandbox leaves of a missing name: an empty folder, or a file."""
    try:
        if stat.S_ISREG(os.lstat(path).st_mode):
            return True
        with os.scandir(path) as entries:
            return is_folder(path) and next(entries, None) is None
    except OSError as error:
        check_not_scarce(error)
        return False


def are_same(one: bytes, other: bytes) -> bool:
    """Tell whether two paths lead to the same file or folder."""
    try:
        return os.path.samestat(os.lstat(one), os.lstat(other))
    except OSError:
        return False


def nearest(path: bytes) -> bytes:
    """Return the path if it or its folder exists, else the outermost part of it that is missing."""
    while not os.path.lexists(path) and not is_folder(os.path.dirname(path)):
        path = os.path.dirname(path)
    return path


def open_path(path: bytes, *, is_dir: bool) -> int:
    """Return a descriptor (`O_PATH`) of what is at a resolved path.

    Raises:
        InvalidRequest: something else has taken its place since the path was resolved.
        OSError: there is no descriptor.
    """
    changed = refusal("root_changed", path, "was replaced while the sandbox was prepared: try again")
    flags = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC | (os.O_DIRECTORY if is_dir else 0)
    try:
        fd = os.open(path, flags)
    except OSError as error:
        check_not_scarce(error)
        raise changed from None
    try:
        # More than device and inode say: no folder above it has become a link either.
        if os.readlink(b"/proc/self/fd/%d" % fd) != path or not os.path.samestat(
            os.fstat(fd), os.lstat(path)
        ):
            raise changed
    except BaseException as error:
        os.close(fd)
        raise changed from (error if isinstance(error, OSError) else None)
    return fd


def may_create(folder: bytes) -> bool:
    """Tell whether a command of the server's user can make something in a folder.

    Root counts as any other user: a command has none of its capabilities.
    """
    if not os.access(folder, os.W_OK | os.X_OK):
        return False
    if os.geteuid() != 0:
        return True
    status = os.stat(folder)
    return bool(status.st_mode & _write_bit(status)) or _has_acl(folder)


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

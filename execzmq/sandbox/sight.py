"""Own what a sandboxed command finds at a path, and what a host is asked about there. Pure.

Works on names alone, as resolved on the host; knows nothing of the file system and of who asks.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Protocol

from execzmq.sandbox.model import Access, Readable

Place = Literal["write", "read", "deny", "private", "hidden"]
"""`private`: a temporary folder of the sandbox's own, writable; `hidden`: the host's is not shown."""

Reach = Literal["read", "write", "remove", "own"]
"""What is done to a path: `write` includes making it, `remove` renaming it, `own` what its owner may do."""

_BASE: tuple[tuple[bytes, Place], ...] = (
    (b"/tmp", "private"),
    (b"/var/tmp", "private"),
    (b"/dev/shm", "private"),
    (b"/dev", "hidden"),
    (b"/run", "hidden"),
    (b"/proc", "read"),
)
_SYSTEM = (b"/usr", b"/bin", b"/sbin", b"/lib", b"/lib32", b"/lib64", b"/libx32")


@dataclass(slots=True, frozen=True)
class Sight:
    """What is seen of the host.

    Args:
        read: what is readable at all.
        mounts: (path, access) of each mount of the view, in the order in which they are mounted.
    """

    read: Readable
    mounts: tuple[tuple[bytes, Access], ...]

    def at(self, path: bytes) -> Place:
        """Return what is at an absolute, normalised path."""
        mount = self.mount_of(path)
        access: Place | None = _innermost(path, self.mounts)[1]
        if mount and access is not None:
            return access
        base = _innermost(path, _BASE)[1]
        if base is not None:
            return base
        if self.read == "host" or any(is_below(path, name) for name in _SYSTEM):
            return "read"
        return "hidden"

    def mount_of(self, path: bytes) -> bytes:
        """Return the path of the innermost mount of the view that holds this path, empty if none does."""
        return _innermost(path, self.mounts)[0]

    def file_system_of(self, path: bytes) -> bytes:
        """Return a name for what the kernel takes as one file system here: links do not cross two of them."""
        return self.mount_of(path) or _innermost(path, _BASE)[0] or b"/"


class Outside(Protocol):
    """What the host says of what a command would meet without a sandbox."""

    def resolve(self, path: bytes) -> bytes:
        """Return an absolute path with its symbolic links followed."""
        ...

    def exists(self, path: bytes) -> bool:
        """Tell whether there is something at a path."""
        ...

    def may(self, path: bytes, reach: Reach) -> bool | None:
        """Tell whether this user would not be refused there."""
        ...

    def may_plainly(self, path: bytes, reach: Reach) -> bool | None:
        """Tell the same of this user without a superuser's powers: by owner, group and mode alone."""
        ...

    def is_one_device(self, paths: tuple[bytes, ...]) -> bool | None:
        """Tell whether all are on one file system, so that a link or a rename is possible."""
        ...

    def has_capability(self, number: int) -> bool | None:
        """Tell whether a command of this user has a capability, by its number."""
        ...

    def listens(self, port: int) -> bool | None:
        """Tell whether some process listens on a TCP port of this host."""
        ...

    def is_online(self) -> bool | None:
        """Tell whether this host has a way to others at all."""
        ...


def _innermost(path: bytes, places: Iterable[tuple[bytes, Place]]) -> tuple[bytes, Place | None]:
    """Return the longest of the places that hold a path; of equals the last, which covers the others."""
    found: tuple[bytes, Place | None] = (b"", None)
    for name, place in places:
        if len(name) >= len(found[0]) and is_below(path, name):
            found = (name, place)
    return found


def is_below(path: bytes, folder: bytes) -> bool:
    """Tell whether a path is this folder or in it."""
    return path == folder or path.startswith(folder if folder == b"/" else folder + b"/")


def absolute(path: bytes, cwd: bytes) -> bytes:
    """Return a path that is relative to `cwd` as an absolute one, without `.` and `..`."""
    joined = posixpath.normpath(posixpath.join(cwd or b"/", path))
    return b"/" + joined.lstrip(b"/")

"""Own the layers of a view: what may be done at each place, and what that makes necessary. Pure.

The deepest layer that holds a path decides about it, at the same path the strictest. Paths are resolved
ones; what is on the disk is for `paths`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Literal

from execzmq.errors import InvalidRequest
from execzmq.sandbox.model import Access, Readable

Level = Literal["deny", "own", "read", "write"]
"""What may be done at a place; `own` is one that the command has for itself, such as its `/tmp`."""

_STRICTEST: tuple[Access, ...] = ("deny", "read", "write")

OWN_FOLDERS = (b"/tmp", b"/var/tmp", b"/run", b"/dev", b"/proc")
"""Folders of the host of which a command sees nothing: it has its own."""

SYSTEM_FOLDERS = (b"/usr", b"/bin", b"/sbin", b"/lib", b"/lib32", b"/lib64", b"/libx32")

_KERNEL_FOLDERS = (b"/proc", b"/sys", b"/dev")
"""No root: to write there is to change the machine."""
_SHARED_MEMORY = b"/dev/shm"


class Layers:
    """What may be done at each place.

    Args:
        read: the base on which further layers are put.
    """

    def __init__(self, read: Readable) -> None:
        host = read == "host"
        self._base: dict[bytes, Level] = {b"/": "read" if host else "own"}
        self._base |= dict.fromkeys(OWN_FOLDERS, "own")
        if not host:
            self._base |= dict.fromkeys(SYSTEM_FOLDERS, "read")
        self._added: dict[bytes, Access] = {}
        self._found: dict[bytes, Level] = {}

    def __contains__(self, path: bytes) -> bool:
        return path in self._added

    def add(self, path: bytes, level: Access) -> None:
        """Put a layer on a path; where it has one, the stricter of both holds."""
        self._added[path] = min(level, self._added.get(path, level), key=_STRICTEST.index)
        self._found.clear()

    def at(self, path: bytes) -> Level:
        """Return what may be done at a path."""
        found = self._found.get(path)
        if found is None:
            places = (path, *above(path))
            levels = (self._added.get(place) or self._base.get(place) for place in places)
            found = self._found[path] = next(level for level in levels if level is not None)
        return found

    def beneath(self, path: bytes) -> Level:
        """Return what may be done at a path, were there no layer on it."""
        return self._base.get(path) or self.at(path[: path.rfind(b"/")] or b"/")

    def needed(self) -> dict[bytes, Access]:
        """Return the layers that change something, outer before inner."""
        kept = sorted(self._added, key=lambda path: (depth(path), path))
        return {path: self._added[path] for path in kept if self._matters(path)}

    def _matters(self, path: bytes) -> bool:
        beneath = self.beneath(path)
        # Where the command has a place of its own there is nothing to hide.
        return beneath in ("read", "write") if self._added[path] == "deny" else beneath != self._added[path]

    def pins(self) -> Iterator[bytes]:
        """Yield the folders that must be mounts, so that nothing within them is moved from its path.

        A mount goes along when a folder above it is renamed, and another can then be made at the old path;
        a folder that is a mount itself is not renamed (EBUSY).
        """
        layers = list(self.needed())
        pinned = set(layers)
        for folder in (folder for path in layers for folder in self._writable_above(path)):
            if folder not in pinned:
                pinned.add(folder)
                yield folder

    def _writable_above(self, path: bytes) -> Iterator[bytes]:
        """Yield the folders between a path and what holds it, as far as they could be renamed."""
        for folder in above(path):
            if folder == b"/" or self.at(folder) != "write" or self.beneath(folder) != "write":
                return
            yield folder


def depth(path: bytes) -> int:
    """Return how many folders are above a path."""
    return path.count(b"/")


def above(path: bytes) -> Iterator[bytes]:
    """Yield the folders above a path, the nearest first."""
    # Not by `os.path.dirname`: this is most of what a view of many roots costs.
    while (slash := path.rfind(b"/")) > 0:
        path = path[:slash]
        yield path
    if path != b"/":
        yield b"/"


def is_within(path: bytes, folders: Iterable[bytes]) -> bool:
    """Tell whether a path is one of the folders or lies below one, by its name alone."""
    return any(path == folder or path.startswith(folder.rstrip(b"/") + b"/") for folder in folders)


def is_below(path: bytes, folders: Iterable[bytes]) -> bool:
    """Tell whether a path lies below one of the folders, by its name alone."""
    return any(path != folder and is_within(path, (folder,)) for folder in folders)


@lru_cache(maxsize=512)
def clean(path: bytes) -> bytes:
    """Return a path without doubled and trailing slashes.

    Raises:
        InvalidRequest: it is not absolute, has `..` in it, or a NUL, which would be read as an option.
    """
    if b"\0" in path:
        raise refusal("path_with_nul", path, "has a NUL in it: no path has")
    if not path.startswith(b"/") or b".." in path.split(b"/"):
        raise refusal("path_relative", path, "is not absolute: begin it with `/`, without `..`")
    return b"/" + os.path.normpath(path).lstrip(b"/")


def check_place(path: bytes) -> None:
    """Refuse to show what is not the user's: all of the machine, or the kernel's own folders.

    Raises:
        InvalidRequest: with the `reason`.
    """
    if path == b"/":
        raise refusal("root_is_slash", path, "would be all of this machine: name the folder that is meant")
    if is_within(path, _KERNEL_FOLDERS) and not is_below(path, (_SHARED_MEMORY,)):
        raise refusal("root_is_system", path, "is the system's: name a folder with files of your own")


def check_not_hidden(path: bytes, level: Access, denied: Iterable[bytes], server: Iterable[bytes]) -> None:
    """Refuse to show what must not be seen.

    Args:
        path: resolved.
        level: what is asked for.
        denied: folders that are denied.
        server: folders of the server's own.

    Raises:
        InvalidRequest: with the `reason`.
    """
    if is_within(path, server):
        raise refusal("root_in_server_dir", path, "holds what is the server's own: name another folder")
    if level == "write" and is_within(path, denied):
        raise refusal("write_below_denied", path, "lies in what the profile denies: name another folder")


def check_not_protected(root: bytes, names: Iterable[bytes]) -> None:
    """Refuse a root that is what another root protects, or lies in it: `W/.git/hooks` instead of `W`.

    Raises:
        InvalidRequest: with the `reason`.
    """
    if any(b"/%b/" % name in root + b"/" for name in names):
        raise refusal("root_is_protected", root, "is a protected name, or lies in one: name another folder")


def refusal(reason: str, path: bytes, words: str) -> InvalidRequest:
    """Return the error that says what is wrong with a path of a request."""
    shown = os.fsdecode(path)
    return InvalidRequest(f"the path {shown!r} {words}", reason=reason, path=shown)

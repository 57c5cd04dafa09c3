"""Own descriptors of folders by which these are found again, wherever somebody moves them meanwhile.

Knows nothing of what is in them, or why they are wanted.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from typing import NamedTuple

from execzmq.sandbox.places import check_not_scarce

_FLAGS = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Anchor(NamedTuple):
    """A folder: its descriptor, which is not the reader's, and where it is now."""

    fd: int
    place: bytes


class Anchors:
    """The folders that were at some paths; at one path there may have been several, one after the other."""

    def __init__(self) -> None:
        self._fds: dict[bytes, dict[tuple[int, int], int]] = {}

    def hold(self, paths: Iterable[bytes]) -> None:
        """Find from now on the folders that are at these paths; what is no folder, or a link, is left out.

        Raises:
            OSError: there is no descriptor, or no memory.
        """
        for path in paths:
            try:
                fd = os.open(path, _FLAGS)
            except OSError as error:
                check_not_scarce(error)
                continue
            known = self._fds.setdefault(path, {})
            status = os.fstat(fd)
            identity = (status.st_dev, status.st_ino)
            if identity in known or _place_of(fd) != path:
                os.close(fd)
            else:
                known[identity] = fd

    def at(self, path: bytes) -> list[Anchor]:
        """Return the folders that were at a path, with the places at which they are now."""
        return [Anchor(fd, _place_of(fd)) for fd in self._fds.get(path, {}).values()]

    def let_go(self, but: Collection[bytes] = ()) -> None:
        """Close the descriptors of all folders but those that were at these paths; idempotent."""
        for path in [path for path in self._fds if path not in but]:
            for fd in self._fds.pop(path).values():
                os.close(fd)


def _place_of(fd: int) -> bytes:
    return os.readlink(b"/proc/self/fd/%d" % fd)

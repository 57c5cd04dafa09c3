"""Own descriptors of folders by which these are found again, wherever somebody moves them meanwhile.

Knows nothing of what is in them, or why they are wanted.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import NamedTuple

_FLAGS = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Anchor(NamedTuple):
    """A folder: its descriptor, which is not the reader's, and where it is now."""

    fd: int
    place: bytes


class Anchors:
    """The folders that were at some paths; at one path there may have been several, one after the other.

    No file system is asked: one that is dead holds up nobody.
    """

    def __init__(self) -> None:
        self._fds: dict[bytes, list[int]] = {}

    def __contains__(self, path: bytes) -> bool:
        return path in self._fds

    def add(self, path: bytes, fd: int) -> None:
        """Own the descriptor of a folder at a path; one that is known, or is elsewhere by now, is closed."""
        places = [anchor.place for anchor in self.at(path)]
        if path in places or _place_of(fd) != path:
            os.close(fd)
        else:
            self._fds.setdefault(path, []).append(fd)

    def at(self, path: bytes) -> list[Anchor]:
        """Return the folders that were at a path, with the places at which they are now."""
        return [Anchor(fd, _place_of(fd)) for fd in self._fds.get(path, [])]

    def let_go(self, but: Collection[bytes] = ()) -> None:
        """Close the descriptors of all folders but those that were at these paths; idempotent."""
        for path in [path for path in self._fds if path not in but]:
            for fd in self._fds.pop(path):
                os.close(fd)


def open_folder(path: bytes) -> int:
    """Return a descriptor of a folder. Raises OSError: there is none, or it is a link; or no descriptor."""
    return os.open(path, _FLAGS)


def _place_of(fd: int) -> bytes:
    return os.readlink(b"/proc/self/fd/%d" % fd)

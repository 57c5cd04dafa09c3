"""Own how one file of a log is begun, and how it is noticed that others have removed or changed it."""

from __future__ import annotations

import errno
import os

GONE = (FileNotFoundError, NotADirectoryError)
"""What opening a file raises that others have removed, or the folder of."""


class FileLost(OSError):
    """The file being written is not what was left there; the next write begins another one."""

    def __init__(self, path: str) -> None:
        super().__init__(errno.ESTALE, "a file of the log was removed or changed by others", path)


def create(path: str) -> int:
    """Open an empty file to read and write, for the user alone; its folder is made where that is gone.

    Raises:
        OSError: the disk failed or is full.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o600)
    except FileNotFoundError:
        _make_folder(os.path.dirname(path))
        return os.open(path, flags, 0o600)


def reopen(path: str) -> int:
    """Open a file to go on with it; -1 where it is gone. Raises OSError: it cannot be opened."""
    try:
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except GONE:
        return -1


def is_as_left(fd: int, size: int) -> bool:
    """Tell whether an open file has a name still, and so many bytes."""
    status = os.fstat(fd)
    return status.st_size == size and status.st_nlink > 0


def _make_folder(folder: str) -> None:
    """Make a folder and those above it, each for the user alone."""
    above = os.path.dirname(folder)
    if above != folder and not os.path.isdir(above):
        _make_folder(above)
    os.makedirs(folder, 0o700, exist_ok=True)

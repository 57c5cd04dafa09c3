"""Own how files are removed: their names go at once, their space comes back in a thread.

The system frees a file only when it has written what it is just writing of it, which on a busy disk takes
seconds. While somebody has the file open its name alone goes; the last `close` waits, and it is made by a
thread that lives as long as there is something to close.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque

from execzmq.settings import KIB

_SMALL = 32 * KIB
"""Bytes up to which a file is freed quickly enough."""
_MOST = 256
"""Files that may wait for the thread; whoever removes more waits himself."""

_lock = threading.Lock()
_waiting: deque[int] = deque()
_is_at_work = False


def unlink(path: str, size: int) -> None:
    """Remove the file of about `size` bytes; none is no error.

    Raises:
        OSError: it could not be removed.
    """
    with contextlib.suppress(FileNotFoundError):
        fd = -1 if size <= _SMALL else _hold(path)
        try:
            os.unlink(path)
        finally:
            if fd >= 0:
                _close_later(fd)


def empty_folder(folder: str) -> None:
    """Remove the large files in a folder, as far as that is possible, so that the rest is quickly done."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_file(follow_symlinks=False):
                unlink(entry.path, entry.stat(follow_symlinks=False).st_size)


def _close_later(fd: int) -> None:
    global _is_at_work
    with _lock:
        if len(_waiting) < _MOST:
            _waiting.append(fd)
            fd = -1
        begins = not _is_at_work
        _is_at_work = True
    if begins:
        threading.Thread(target=_close_waiting, name="execzmq-unlink", daemon=True).start()
    if fd >= 0:
        os.close(fd)


def _hold(path: str) -> int:
    """Open the file; without a descriptor to spare it is freed by whoever removes it."""
    try:
        return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError:
        return -1


def _close_waiting() -> None:
    global _is_at_work
    while True:
        with _lock:
            if not _waiting:
                _is_at_work = False
                return
            fd = _waiting.popleft()
        os.close(fd)

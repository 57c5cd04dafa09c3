"""The newest file of one stream of a log, which an orphaned keeper makes longer.

The rule of the names is that of the server's log: `<prefix>.<offset of its first byte>`. Whatever stands here
beyond the server's index is made events of by the next server. It must not know the index.
"""

from __future__ import annotations

import os


class Store:
    """Add to the files of one stream; no file is made or opened before the first byte.

    Args:
        folder: of the log; made where it is missing.
        prefix: first part of the names.
        segment_bytes: size from which on another file is begun.
    """

    def __init__(self, folder: bytes, prefix: bytes, segment_bytes: int) -> None:
        self._folder = folder
        self._prefix = prefix
        self._segment_bytes = max(1, segment_bytes)
        self._fd = -1
        self._start = 0
        self._size = 0

    def splice_from(self, source: int, limit: int) -> int:
        """Move bytes from a non-blocking pipe to the end, at most `limit` and no more than one file takes.

        They are never in this process, so that none is lost if it is killed.

        Raises:
            BlockingIOError: nothing is there now.
            OSError: the disk takes nothing; what was not moved is still in the pipe.
        """
        if self._fd < 0:
            self._open_newest()
        if self._size >= self._segment_bytes:
            self._begin(self._start + self._size)
        room = min(limit, self._segment_bytes - self._size)
        moved = os.splice(source, self._fd, room, offset_dst=self._size, flags=os.SPLICE_F_NONBLOCK)
        self._size += moved
        return moved

    def close(self) -> None:
        """Close the file; idempotent."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _open_newest(self) -> None:
        os.makedirs(self._folder, 0o700, exist_ok=True)
        starts = [start for name in os.listdir(self._folder) if (start := self._start_of(name)) is not None]
        self._begin(max(starts, default=0))

    def _begin(self, start: int) -> None:
        """Open the file of that offset, which is there already or begins now."""
        path = os.path.join(self._folder, self._prefix + b".%d" % start)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
        self.close()
        self._fd, self._start, self._size = fd, start, os.fstat(fd).st_size

    def _start_of(self, name: bytes) -> int | None:
        prefix, _, number = name.partition(b".")
        return int(number) if prefix == self._prefix and number.isdigit() else None

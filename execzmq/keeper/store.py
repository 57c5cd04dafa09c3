"""The newest file of one stream of a log, which an orphaned keeper makes longer.

The rule of the names is that of the server's log: `<prefix>.<offset of its first byte>`. Whatever stands here
beyond the server's index is made events of by the next server. Of the index it knows how a record tells the
ends of the streams, since files of data may have been removed: no other bytes may get their offsets.
"""

from __future__ import annotations

import errno
import os
import struct
import zlib

_RECORD = struct.Struct("<32xQQI")
"""The part of an index record that tells the ends of stdout and stderr, and the check of all before it."""
_CHECKED = _RECORD.size - 4


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
        names = os.listdir(self._folder)
        told = self._told_end(names)
        self._begin(max(_numbers_of(names, self._prefix), default=told))
        if self._start + self._size < told:
            self._begin(told)

    def _told_end(self, names: list[bytes]) -> int:
        """Return up to where the server has told this stream, as far as there is an index.

        Raises:
            OSError: the index does not tell; the next server decides.
        """
        for number in sorted(_numbers_of(names, b"idx"), reverse=True):
            with open(os.path.join(self._folder, b"idx.%d" % number), "rb") as file:
                index = file.read()
            if len(index) >= _RECORD.size:  # else a server was killed while it wrote the first record
                return _ends_in(index)[self._prefix != b"out"]
        return 0

    def _begin(self, start: int) -> None:
        """Open the file of that offset, which is there already or begins now."""
        path = os.path.join(self._folder, self._prefix + b".%d" % start)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
        self.close()
        self._fd, self._start, self._size = fd, start, os.fstat(fd).st_size


def _numbers_of(names: list[bytes], prefix: bytes) -> list[int]:
    """Return the numbers of the files of one prefix."""
    parts = [name.partition(b".") for name in names]
    return [int(number) for found, _, number in parts if found == prefix and number.isdigit()]


def _ends_in(index: bytes) -> tuple[int, int]:
    """Return the ends of both streams as the last whole record has them; a torn one was never told."""
    whole = len(index) // _RECORD.size
    for position in range(whole - 1, max(-1, whole - 3), -1):
        record = index[position * _RECORD.size : (position + 1) * _RECORD.size]
        stdout, stderr, check = _RECORD.unpack(record)
        if zlib.crc32(record[:_CHECKED]) == check:
            return stdout, stderr
    raise OSError(errno.EIO, "the index is damaged")

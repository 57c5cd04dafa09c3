"""Own the files in which the input of one process waits: its bytes by position, and who has written how far.

Bytes stand in `in.<position>` segments, facts in the records of `in.idx`. Knows nothing of who reads them.
"""

from __future__ import annotations

import errno
import os
import struct
from binascii import crc32
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from execzmq.settings import MIB, SEGMENT

INDEX_MOST = 1 * MIB
"""Bytes of `in.idx` beyond which it is written anew with one record per session."""

_INDEX = "in.idx"
_PREFIX = "in."
_FIELDS = struct.Struct("<16sQQB")
_CRC = struct.Struct("<I")
RECORD_SIZE = _FIELDS.size + _CRC.size


class InputRecord(NamedTuple):
    """One record of `in.idx`.

    `offset` counts the bytes of the session (the digest of its id), `position` those of all sessions up to
    here; `end` tells that the session has asked for the end of the input.
    """

    session: bytes
    offset: int
    position: int
    end: bool

    def pack(self) -> bytes:
        """Return the record as it stands in the file."""
        body = _FIELDS.pack(*self)
        return body + _CRC.pack(crc32(body))


def unpack_records(data: bytes) -> list[InputRecord]:
    """Return the records up to the first damaged one."""
    records: list[InputRecord] = []
    for start in range(0, len(data) - RECORD_SIZE + 1, RECORD_SIZE):
        body, crc = data[start : start + _FIELDS.size], data[start + _FIELDS.size : start + RECORD_SIZE]
        if _CRC.unpack(crc)[0] != crc32(body):
            break
        session, offset, position, end = _FIELDS.unpack(body)
        records.append(InputRecord(session, offset, position, bool(end)))
    return records


class InputIndex:
    """The file `in.idx`, made at its first record."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / _INDEX
        self._fd = -1
        self._size = 0
        self._limit = INDEX_MOST

    @property
    def is_too_long(self) -> bool:
        """Tell whether it is time to `rewrite` it."""
        return self._size >= self._limit

    def append(self, record: InputRecord) -> None:
        """Add one record; a failed append leaves nothing that counts.

        Raises:
            OSError: the file cannot be written.
        """
        if self._fd == -1:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        data = record.pack()
        if os.pwrite(self._fd, data, self._size) != len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._size += len(data)

    def rewrite(self, records: Iterable[InputRecord]) -> None:
        """Put these records in the place of all there are.

        Raises:
            OSError: the file cannot be written; the old one stays.
        """
        data = b"".join(record.pack() for record in records)
        fresh = self._path.with_suffix(".new")
        fresh.touch(0o600)
        fresh.write_bytes(data)
        os.replace(fresh, self._path)
        self.close()
        self._fd = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        self._size = len(data)
        self._limit = max(INDEX_MOST, 2 * len(data))

    def read(self) -> list[InputRecord]:
        """Return the records of an earlier server life and cut off what is damaged."""
        if not self._path.exists():
            return []
        self._fd = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        records = unpack_records(os.pread(self._fd, os.fstat(self._fd).st_size, 0))
        self._size = len(records) * RECORD_SIZE
        os.ftruncate(self._fd, self._size)
        return records

    def close(self) -> None:
        """Close the descriptor and leave the file. Idempotent."""
        fd, self._fd = self._fd, -1
        if fd != -1:
            os.close(fd)


@dataclass(slots=True, eq=False)
class Segment:
    """One file of input. `start` and `end` are positions; the offset of `fd` is how far it has been fed."""

    path: Path
    start: int
    end: int
    fd: int

    def fed(self) -> int:
        """Return the position up to which it has been fed."""
        return self.start + os.lseek(self.fd, 0, os.SEEK_CUR)

    def last_byte(self) -> bytes:
        """Return its last byte, empty where it has none."""
        return os.pread(self.fd, 1, self.end - self.start - 1) if self.end > self.start else b""

    def close(self) -> None:
        """Close the descriptor and leave the file. Idempotent."""
        fd, self.fd = self.fd, -1
        if fd != -1:
            os.close(fd)


class InputSegments:
    """The files `in.<position>`, oldest first; one that has been fed goes as soon as a newer one exists."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._segments: deque[Segment] = deque()

    @property
    def first(self) -> Segment | None:
        """Return the one that is being fed."""
        return self._segments[0] if self._segments else None

    @property
    def last(self) -> Segment | None:
        """Return the one that is being written."""
        return self._segments[-1] if self._segments else None

    def write(self, position: int, data: memoryview) -> int:
        """Store `data` from `position` on and return where it ends.

        Raises:
            OSError: not everything was stored; `cut` takes back what was.
        """
        while len(data):
            segment = self.last
            if segment is None or position - segment.start >= SEGMENT:
                segment = self._create(position)
            room = SEGMENT - (position - segment.start)
            count = os.pwrite(segment.fd, data[:room], position - segment.start)
            position += count
            segment.end = position
            data = data[count:]
        return position

    def cut(self, position: int) -> None:
        """Take back what stands beyond `position`."""
        while self._segments and self._segments[-1].start >= position > 0:
            self._remove(self._segments.pop())
        if self._segments:
            self._segments[-1].end = min(self._segments[-1].end, position)

    def drop_fed(self, position: int) -> None:
        """Unlink what has been fed whole; the newest stays, since it may still grow."""
        while len(self._segments) > 1 and self._segments[0].end <= position:
            self._remove(self._segments.popleft())

    def drop_all(self) -> None:
        """Unlink all of them. Idempotent."""
        while self._segments:
            self._remove(self._segments.popleft())

    def recover(self, accepted: int, held_fd: int) -> None:
        """Open what an earlier server life left and cut it at `accepted`.

        `held_fd`, owned from now on, is the description that was fed from last; -1 if there is none.
        """
        names = (path.name.removeprefix(_PREFIX) for path in self._folder.glob(f"{_PREFIX}*"))
        for start in sorted(int(name) for name in names if name.isdecimal()):
            held_fd = self._reopen(start, accepted, held_fd)
        if held_fd != -1:
            os.close(held_fd)  # its file was fed whole and is gone

    def close(self) -> None:
        """Close the descriptors and leave the files. Idempotent."""
        for segment in self._segments:
            segment.close()

    def _create(self, position: int) -> Segment:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._folder / f"{_PREFIX}{position}"
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        self._segments.append(Segment(path, position, position, fd))
        return self._segments[-1]

    def _reopen(self, start: int, accepted: int, held_fd: int) -> int:
        """Open one segment, by the held description if it is its; return what is still to be owned."""
        path = self._folder / f"{_PREFIX}{start}"
        if start >= accepted:
            path.unlink()
            return held_fd
        fd = -1
        if held_fd != -1 and os.path.samestat(path.stat(), os.fstat(held_fd)):
            self.drop_all()  # older ones were fed whole before this one was begun
            fd, held_fd = held_fd, -1
        else:
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        end = min(accepted, start + os.fstat(fd).st_size)
        os.ftruncate(fd, end - start)
        self._segments.append(Segment(path, start, end, fd))
        return held_fd

    def _remove(self, segment: Segment) -> None:
        segment.path.unlink(missing_ok=True)
        segment.close()

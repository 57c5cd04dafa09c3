"""Own the list of all starts, ends and forgets of one state folder: a file that a restart reads to its end.

One line a record: crc32 of the rest in hex, a space, JSON in ASCII. Knows nothing of what the fields mean but
`kind`, `process_id` and `instance`.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias
from zlib import crc32

KINDS = frozenset(("start", "end", "forget"))

_AT_ONCE = 256
"""Records that are made and written in one go."""

Entry: TypeAlias = dict[str, Any]

log = logging.getLogger("execzmq.process")


class Journal:
    """The file `path`; it is opened by the first call that needs it, and no other process writes it.

    Args:
        relieve: called when the disk takes nothing; returns whether it is worth to try once more.
    """

    def __init__(self, path: Path, relieve: Callable[[OSError], bool] = lambda error: False) -> None:
        self._path = path
        self._relieve = relieve
        self._owed: list[bytes] = []
        self._fd = -1
        self._size = 0
        self.records = 0
        self.damaged = 0
        self.is_behind = False

    def append(self, record: Mapping[str, Any]) -> None:
        """Add one record, wholly or not at all.

        `bytes` in it are written as `os.fsdecode` has them, and read back as such text.

        Raises:
            ValueError: its `kind` is none of `start`, `end` and `forget`.
            OSError: the disk failed or is full; the journal ends where it did before.
        """
        self._write([*self._owed, _line_of(record)])

    def note(self, record: Mapping[str, Any]) -> None:
        """Add one record if the disk takes it; if not, `is_behind` says so until `catch_up` or `compact`."""
        try:
            self.append(record)
        except OSError:
            self._owed.append(_line_of(record))
            self.is_behind = True

    @property
    def owes(self) -> bool:
        """Tell whether something that was noted does not stand there yet."""
        return bool(self._owed)

    def catch_up(self) -> bool:
        """Write what `note` could not; return whether nothing is owed any more."""
        if self._owed:
            with contextlib.suppress(OSError):
                self._write(self._owed)
        return not self.owes

    def _write(self, lines: list[bytes]) -> None:
        """Write these lines, those that are owed among them; on a full disk with what can be spared."""
        data = b"".join(lines)
        try:
            self._write_at_end(data)
        except OSError as error:
            if not self._relieve(error):
                raise
            self._write_at_end(data)
        self._size += len(data)
        self.records += len(lines)
        if self._owed:
            self._owed = []
            self.is_behind = self.damaged > 0

    def _write_at_end(self, data: bytes) -> None:
        fd = self._opened()
        try:
            _write_all(fd, data, self._size)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(fd, self._size)
            raise

    def replay(self) -> list[Entry]:
        """Return all records, the oldest first; cut off what a crash has torn after the last whole line.

        Damaged lines before that are left out, counted in `damaged`, and gone with the next `compact`.

        Raises:
            OSError: the file cannot be read.
        """
        fd = self._opened()
        records, good, self.damaged = _parse(_read_all(fd))
        if self.damaged:
            log.error("damaged lines left out of %s: %d", self._path, self.damaged)
            self.is_behind = True
        if good < os.fstat(fd).st_size:
            os.ftruncate(fd, good)
        self._size, self.records = good, len(records)
        return records

    @property
    def is_lost(self) -> bool:
        """Tell whether others have removed, replaced or cut the file since it was opened.

        Raises:
            OSError: the folder cannot be looked at.
        """
        if self._fd < 0:
            return False
        try:
            found = os.stat(self._path)
        except FileNotFoundError:
            return True
        return not os.path.samestat(os.fstat(self._fd), found) or found.st_size < self._size

    def compact(self, records: Iterable[Mapping[str, Any]], *, replaces_any: bool = False) -> None:
        """Replace the file by one that has only `records`; after a crash it is the old or the new one whole.

        Args:
            replaces_any: also a file that is not the one that was opened; the folder is this process's.

        Raises:
            OSError: the disk failed, or the file there is another process's; the journal is as it was.
        """
        if not replaces_any:
            self._refuse_anothers()
        temporary = self._path.with_name(self._path.name + ".tmp")
        fd = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        size = count = 0
        lines = iter(map(_line_of, records))
        try:
            # Part by part: what is made for all records at once leaves holes in the memory of a busy server.
            while part := list(islice(lines, _AT_ONCE)):
                size += _write_all(fd, b"".join(part), size)
                count += len(part)
            os.rename(temporary, self._path)
        except BaseException:
            os.close(fd)
            with contextlib.suppress(OSError):
                os.unlink(temporary)  # its room may be needed
            raise
        self.close()
        self._owed = []
        self._fd, self._size, self.records = fd, size, count
        self.is_behind = False

    def close(self) -> None:
        """Close the file; idempotent."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _refuse_anothers(self) -> None:
        """Leave a file alone that is not the one that was opened: somebody else has made the folder anew."""
        with contextlib.suppress(FileNotFoundError):
            if self._fd >= 0 and not os.path.samestat(os.fstat(self._fd), os.stat(self._path)):
                raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), str(self._path))

    def _opened(self) -> int:
        if self._fd < 0:
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            self._size = os.fstat(self._fd).st_size
        return self._fd


def examine(path: Path) -> tuple[int, int]:
    """Return how many whole records a journal has, and how many lines of it are damaged; change nothing.

    Raises:
        OSError: it cannot be read.
    """
    with open(path, "rb") as file:
        data = file.read()
    records, _, damaged = _parse(data)
    return len(records), damaged


def _write_all(fd: int, data: bytes, position: int) -> int:
    written = 0
    while written < len(data):
        written += os.pwrite(fd, data[written:], position + written)
    return written


def without_forgotten(records: Iterable[Entry]) -> list[Entry]:
    """Return the records of the processes that are not forgotten, in their order: what `compact` is to keep.

    A `forget` takes away all records of its process_id and instance that stand before it.
    """
    kept: dict[tuple[Any, Any], list[tuple[int, Entry]]] = {}
    for position, record in enumerate(records):
        key = record.get("process_id"), record.get("instance")
        if record["kind"] == "forget":
            kept.pop(key, None)
        else:
            kept.setdefault(key, []).append((position, record))
    return [record for _, record in sorted((e for part in kept.values() for e in part), key=lambda e: e[0])]


def _line_of(record: Mapping[str, Any]) -> bytes:
    if record.get("kind") not in KINDS:
        raise ValueError(f"no kind of journal record: {record.get('kind')!r}")
    body = _encode(record).encode("ascii")
    return b"%08x %b\n" % (crc32(body), body)


def _text_of(value: object) -> str:
    if isinstance(value, bytes):
        return os.fsdecode(value)
    raise TypeError(f"a journal record cannot hold a {type(value).__name__}")


_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False, default=_text_of).encode


def _read_all(fd: int) -> bytes:
    parts = []
    position = 0
    while part := os.pread(fd, 1 << 20, position):
        parts.append(part)
        position += len(part)
    return b"".join(parts)


def _parse(data: bytes) -> tuple[list[Entry], int, int]:
    """Return the records of whole lines, the byte after the last of these, and how many others are before."""
    records: list[Entry] = []
    position = good = lines = damaged = 0
    while (end := data.find(b"\n", position)) >= 0:
        record = _record_of(data[position:end])
        position, lines = end + 1, lines + 1
        if record is not None:
            records.append(record)
            good, damaged = position, lines - len(records)
    return records, good, damaged


def _record_of(line: bytes) -> Entry | None:
    check, _, body = line.partition(b" ")
    if check != b"%08x" % crc32(body):
        return None
    try:
        record = json.loads(body)
    except ValueError:
        return None
    return record if isinstance(record, dict) and record.get("kind") in KINDS else None

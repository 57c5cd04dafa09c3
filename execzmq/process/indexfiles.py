"""Own the index of one log on disk: files of records named by their first seq; know nothing of the data.

A file from which records were taken away is replaced as a whole (temporary name, rename). Only the last file
is written; its descriptor is the only one that stays open. Records that others have removed or spoilt count
as not there, and the next one begins another file.
"""

from __future__ import annotations

import contextlib
import os
import struct
from bisect import bisect_right
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from execzmq.process.index import RECORD_SIZE, STREAM_BYTE, STREAM_CODES, STREAMS, Record, first_where, unpack
from execzmq.process.logfile import GONE, create, is_as_left, reopen

_PLACE = struct.Struct("<9xB2xIQ28x")
"""The part of a record that tells where its bytes are: stream, length, offset."""
_FIRST_BLOCK = 64
_LARGEST_BLOCK = 4096


@dataclass(slots=True)
class IndexSegment:
    """One file: seqs of its first and last record, how many it has, and whether some of them are stale."""

    first: int
    last: int
    count: int
    stale: bool = False

    @property
    def is_dense(self) -> bool:
        """Tell whether it has a record for every seq from its first to its last."""
        return self.last - self.first + 1 == self.count


class IndexFiles:
    """The files `idx.<first seq>` of one folder.

    Args:
        folder: where they are; it must exist before the first record is written.
        segment_records: records after which the next file is begun.
    """

    __slots__ = (
        "_fd",
        "_firsts",
        "_folder",
        "_segment_records",
        "records",
        "segments",
    )

    def __init__(self, folder: str, segment_records: int) -> None:
        self._folder = folder
        self._segment_records = segment_records
        self._firsts: list[int] = []
        self._fd = -1
        self.segments: list[IndexSegment] = []
        self.records = 0

    @property
    def bytes_on_disk(self) -> int:
        """Return the bytes of all files."""
        return self.records * RECORD_SIZE

    # Opening what an earlier life has left

    def load(self, firsts: Iterable[int]) -> int:
        """Take up the files that begin with the seqs `firsts`; cut off a torn end.

        Returns how many records were not whole, at most one of them after the kill of a server.
        """
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._temporary)
        found = sorted(firsts)
        bad = [self._load_file(first) for first in found]
        # A kill tears the newest file only: damage anywhere else is never the one record that it explains.
        return sum(bad[-1:]) + 2 * sum(bad[:-1])

    def _load_file(self, first: int) -> int:
        size = os.stat(self._path(first)).st_size
        segment = IndexSegment(first, first, size // RECORD_SIZE)
        bad = 1 if size % RECORD_SIZE else 0
        if bad or (size and self._last_of(segment) is None):
            bad += self._cut(segment)
        last = self._last_of(segment) if segment.count else None
        overlaps = bool(self.segments) and first <= self.segments[-1].last
        if last is None or overlaps:
            os.unlink(self._path(first))
            return bad
        segment.last = last.seq
        segment.stale = not segment.is_dense
        self._add(segment)
        self.records += segment.count
        return bad

    def _cut(self, segment: IndexSegment) -> int:
        """Cut a file before its first bad record; return how many whole records' worth that was."""
        block = self._pread(segment, 0, segment.count)
        good = 0
        while good < segment.count and unpack(block, good * RECORD_SIZE) is not None:
            good += 1
        bad, segment.count = segment.count - good, good
        os.truncate(self._path(segment.first), good * RECORD_SIZE)
        return bad

    # Writing

    def append(self, packed: bytes, seq: int) -> None:
        """Add one or more packed records, the first of which has `seq`; wholly or not at all.

        Raises:
            OSError: the disk failed or is full; the index ends where it did before.
        """
        segment = self._writable(seq)
        position = segment.count * RECORD_SIZE
        try:
            written = os.pwrite(self._fd, packed, position)
            while written < len(packed):
                written += os.pwrite(self._fd, packed[written:], position + written)
        except OSError:
            self._take_back(segment)
            raise
        count = written // RECORD_SIZE
        if not segment.count:
            self._add(segment)
        segment.count += count
        segment.last = seq + count - 1
        self.records += count

    def _take_back(self, segment: IndexSegment) -> None:
        """Remove what a failed write has left; a file that has just been made is not one of ours yet."""
        with contextlib.suppress(OSError):
            os.ftruncate(self._fd, segment.count * RECORD_SIZE)
            if not segment.count:
                os.unlink(self._path(segment.first))
        if not segment.count:
            self.close()

    def _writable(self, seq: int) -> IndexSegment:
        """Return the file for the record `seq`; after a hole a new one begins."""
        last = self.segments[-1] if self.segments else None
        if last is not None and last.last + 1 == seq and last.count < self._segment_records:
            if self._fd < 0:
                self._fd = reopen(self._path(last.first))
            if self._fd >= 0 and is_as_left(self._fd, last.count * RECORD_SIZE):
                return last
        self.close()
        self._fd = create(self._path(seq))
        return IndexSegment(seq, seq, 0)

    def _add(self, segment: IndexSegment) -> None:
        self.segments.append(segment)
        self._firsts.append(segment.first)

    def close(self) -> None:
        """Close the descriptor; the next `append` opens it again."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    # Reading

    def blocks(self, seq: int) -> Generator[bytes, None, None]:
        """Yield the records from the first one at or after `seq` on, in blocks of whole records."""
        position = max(0, bisect_right(self._firsts, seq) - 1)
        size = _FIRST_BLOCK
        for segment in self.segments[position:]:
            at = self._position(segment, seq)
            if at == segment.count:
                continue
            fd, is_active = self._reader(segment)
            try:
                while at < segment.count:
                    count = min(size, segment.count - at)
                    yield _read(fd, at, count)
                    at += count
                    size = min(_LARGEST_BLOCK, size * 4)
            finally:
                if not is_active:
                    os.close(fd)

    def _position(self, segment: IndexSegment, seq: int) -> int:
        """Return where in a file the first record at or after `seq` stands."""
        if seq <= segment.first:
            return 0
        if seq > segment.last:
            return segment.count
        if segment.is_dense:
            return seq - segment.first
        return self._search(segment, lambda record: record.seq >= seq)

    def at_or_before(self, seq: int) -> Record | None:
        """Return the last record whose seq is not above `seq`, `None` if there is none."""
        position = bisect_right(self._firsts, seq) - 1
        if position < 0:
            return None
        segment = self.segments[position]
        return self._record(segment, self._position(segment, seq + 1) - 1)

    def first_where(self, wanted: Callable[[Record], bool]) -> Record | None:
        """Return the first record that is `wanted`; all after it must be, none before it."""
        position = first_where(lambda at: self._last_of(self.segments[at]), len(self.segments), wanted)
        if position == len(self.segments):
            return None
        segment = self.segments[position]
        return self._record(segment, self._search(segment, wanted))

    def count(self, stream: str, first: int, last: int) -> int:
        """Return how many events of `stream` lie between the seqs `first` and `last`, both counted in."""
        code, total = STREAM_CODES[stream], 0
        for block in self.blocks(first):
            read = partial(_unpack_at, block)
            end = first_where(read, len(block) // RECORD_SIZE, lambda record: record.seq > last)
            total += block[STREAM_BYTE : end * RECORD_SIZE : RECORD_SIZE].count(code)
            if end * RECORD_SIZE < len(block):
                break
        return total

    def last_record(self) -> Record | None:
        """Return the last record, `None` if there is none."""
        return self._last_of(self.segments[-1]) if self.segments else None

    def _last_of(self, segment: IndexSegment) -> Record | None:
        return self._record(segment, segment.count - 1)

    def _record(self, segment: IndexSegment, at: int) -> Record | None:
        return unpack(self._pread(segment, at, 1)) if 0 <= at < segment.count else None

    def _search(self, segment: IndexSegment, wanted: Callable[[Record], bool]) -> int:
        fd, is_active = self._reader(segment)
        try:
            return first_where(lambda at: unpack(_read(fd, at, 1)), segment.count, wanted)
        finally:
            if not is_active:
                os.close(fd)

    def _pread(self, segment: IndexSegment, at: int, count: int) -> bytes:
        fd, is_active = self._reader(segment)
        try:
            return _read(fd, at, count)
        finally:
            if not is_active:
                os.close(fd)

    def _reader(self, segment: IndexSegment) -> tuple[int, bool]:
        """Return a descriptor of that file, -1 where it is gone, and whether it is not to be closed."""
        if self._fd >= 0 and segment is self.segments[-1]:
            return self._fd, True
        try:
            return os.open(self._path(segment.first), os.O_RDONLY | os.O_CLOEXEC), False
        except GONE:
            return -1, True

    # Taking records away

    def mark_stale(self, first: int, last: int) -> None:
        """Note that records of events that are gone lie between the seqs `first` and `last`."""
        for segment in self.segments[max(0, bisect_right(self._firsts, first) - 1) :]:
            if segment.first > last:
                break
            segment.stale = True

    def compact(self, keep: Callable[[str, int, int], bool], most: int) -> int:
        """Rewrite up to `most` files that have stale records; return the bytes freed.

        Of output events those stay whose stream, offset and length `keep` accepts, of all others all. Files
        that have become small are joined. The last file is left alone.

        Raises:
            OSError: the disk failed or is full; the records are as they were.
        """
        run = self._stale_run(most)
        if not run:
            return 0
        kept = _between_whole([packed for segment in run for packed in self._kept_of(segment, keep)])
        before = self.records
        try:
            self._replace(run, kept)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(self._temporary)  # its room is needed
            raise
        return (before - self.records) * RECORD_SIZE

    def _stale_run(self, most: int) -> list[IndexSegment]:
        closed = self.segments[:-1]
        begin = next((i for i, segment in enumerate(closed) if segment.stale), len(closed))
        end = begin
        while end < len(closed) and closed[end].stale and end - begin < most:
            end += 1
        if 0 < begin < end and closed[begin - 1].count < self._segment_records // 2:
            begin -= 1
        return closed[begin:end]

    def _kept_of(self, segment: IndexSegment, keep: Callable[[str, int, int], bool]) -> Iterator[bytes]:
        block = self._pread(segment, 0, segment.count)
        block = block[: len(block) // RECORD_SIZE * RECORD_SIZE]
        for at, (code, length, offset) in enumerate(_PLACE.iter_unpack(block)):
            if not 0 < code < len(STREAMS) or keep(STREAMS[code], offset, length):
                yield block[at * RECORD_SIZE : (at + 1) * RECORD_SIZE]

    def _replace(self, run: list[IndexSegment], kept: list[bytes]) -> None:
        """Put one file with the records `kept` in the place of the files of `run`.

        The old files go after the new one has its name: a crash in between leaves files that overlap, of
        which `load` takes the first, or files that have records of dropped events only.
        """
        joined = []
        if kept:
            first, last = unpack(kept[0]), unpack(kept[-1])
            assert first is not None
            assert last is not None
            joined = [IndexSegment(first.seq, last.seq, len(kept))]
            _write_whole(self._temporary, self._path(first.seq), b"".join(kept))
        for segment in run:
            if not joined or segment.first != joined[0].first:
                with contextlib.suppress(*GONE):
                    os.unlink(self._path(segment.first))
        begin = self.segments.index(run[0])
        self.segments[begin : begin + len(run)] = joined
        self._firsts = [segment.first for segment in self.segments]
        self.records += len(kept) - sum(segment.count for segment in run)

    def _path(self, first: int) -> str:
        return f"{self._folder}/idx.{first}"

    @property
    def _temporary(self) -> str:
        return f"{self._folder}/idx.tmp"


def _unpack_at(block: bytes, position: int) -> Record | None:
    return unpack(block, position * RECORD_SIZE)


def _read(fd: int, at: int, count: int) -> bytes:
    """Return the records from position `at` on, fewer where there are none in their place."""
    return b"" if fd < 0 else os.pread(fd, count * RECORD_SIZE, at * RECORD_SIZE)


def _between_whole(packed: list[bytes]) -> list[bytes]:
    """Return these records without damaged ones at the begin and the end."""
    begin, end = 0, len(packed)
    while begin < end and unpack(packed[begin]) is None:
        begin += 1
    while begin < end and unpack(packed[end - 1]) is None:
        end -= 1
    return packed[begin:end]


def _write_whole(temporary: str, path: str, data: bytes) -> None:
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
    finally:
        os.close(fd)
    os.rename(temporary, path)

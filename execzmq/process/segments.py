"""Own the bytes of one stream on disk: files named by their first offset; know nothing of events.

Bytes are only ever added at the end and never rewritten. Space is freed by unlinking whole files. At most one
descriptor is open, that of the file being written; any other file is opened, read and closed again. What
others have removed or cut is noticed when it is needed, and never written on.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import sys
from bisect import bisect_right
from collections.abc import Iterable, Sequence

from execzmq.process import unlinking
from execzmq.process.index import RECORD_SIZE, Segment
from execzmq.process.logfile import GONE, FileLost, create, is_as_left, reopen
from execzmq.settings import KIB, SEGMENT

_LEAST_SEGMENT = 4 * KIB


def segment_size(budget: int) -> int:
    """Return the size from which on a log of that budget begins another file."""
    return max(_LEAST_SEGMENT, min(SEGMENT, budget // 8))


class SegmentedStream:
    """The files `<prefix>.<first offset>` of one folder.

    Args:
        folder: where the files are; it must exist before the first byte is written.
        prefix: first part of their names.
        segment_size: bytes (index records counted in) from which on the next file is begun.
    """

    __slots__ = (
        "_fd",
        "_folder",
        "_full",
        "_prefix",
        "_segment_size",
        "_starts",
        "bytes_on_disk",
        "end",
        "segments",
    )

    def __init__(self, folder: str, prefix: str, segment_size: int) -> None:
        self._folder, self._prefix = folder, prefix
        self._segment_size = segment_size
        self._starts: list[int] = []
        self._fd = -1
        self._full = True
        self.segments: list[Segment] = []
        self.end = 0
        self.bytes_on_disk = 0

    def load(self, starts: Iterable[int]) -> None:
        """Take up the files that begin at `starts`, as an earlier life has left them."""
        self._starts = sorted(starts)
        self.segments = [Segment(start, os.stat(self._path(start)).st_size) for start in self._starts]
        self.bytes_on_disk = sum(segment.size for segment in self.segments)
        self.end = self.segments[-1].end if self.segments else 0
        self._full = not self.segments

    def splice_from(self, source: int, limit: int) -> int:
        """Move up to `limit` bytes from the non-blocking descriptor `source` to the end of the stream.

        Returns the bytes moved, 0 at the end of `source`. They are never in this process, so that none is
        lost if it is killed. Where the kernel cannot splice that descriptor, they are read and written. An
        error after some bytes were moved is raised by the next call.

        Raises:
            BlockingIOError: nothing is there now.
            FileLost: see `append`.
            OSError: `source` or the disk failed; what was not moved is still in `source`.
        """
        if self._full and not has_data(source):
            return 0
        if sys.platform != "linux":
            return self._copy_from(source, limit)
        target, position, moved = self._writer(), self.segments[-1].size, 0
        try:
            while moved < limit:
                count = os.splice(
                    source, target, limit - moved, offset_dst=position + moved, flags=os.SPLICE_F_NONBLOCK
                )
                if not count:
                    break
                moved += count
        except OSError as error:
            if moved == 0 and error.errno == errno.EINVAL:
                return self._copy_from(source, limit)
            if moved == 0:
                raise
        finally:
            self._grow(moved)
        return moved

    def _copy_from(self, source: int, limit: int) -> int:
        data = os.read(source, limit)
        self.append(data)
        return len(data)

    def append(self, data: bytes | memoryview) -> None:
        """Add `data` at the end, wholly or not at all.

        Raises:
            FileLost: others have removed or changed the file being written; another try begins a new one.
            OSError: the disk failed or is full; the stream ends where it did before.
        """
        if not data:
            return
        fd, size = self._writer(), self.segments[-1].size
        try:
            written = os.pwrite(fd, data, size)
            while written < len(data):
                written += os.pwrite(fd, data[written:], size + written)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(fd, size)
            raise
        self._grow(written)

    def _grow(self, count: int) -> None:
        self.segments[-1].size += count
        self.end += count
        self.bytes_on_disk += count

    def _writer(self) -> int:
        if not self._full and not self._has_last():
            self.close()
            self._full = True
            raise FileLost(self._path(self._starts[-1]))
        if self._full:
            self._add_segment()
        return self._fd

    def _has_last(self) -> bool:
        """Open the file being written, and tell whether it is what was left there."""
        if self._fd < 0:
            self._fd = reopen(self._path(self._starts[-1]))
        return self._fd >= 0 and is_as_left(self._fd, self.segments[-1].size)

    def _add_segment(self) -> None:
        self.close()
        self._fd = create(self._path(self.end))
        if self._starts and self._starts[-1] == self.end:
            del self._starts[-1], self.segments[-1]
        self._starts.append(self.end)
        self.segments.append(Segment(self.end))
        self._full = False

    def note_record(self, offset: int) -> None:
        """Count the event that begins at `offset`; a full file ends after it, so no event is in two."""
        position = bisect_right(self._starts, offset) - 1
        if position < 0:
            return  # its file was removed by others
        segment = self.segments[position]
        segment.records += 1
        if segment is self.segments[-1] and not self._full:  # beyond the others a keeper has stored something
            self._full = segment.size + segment.records * RECORD_SIZE >= self._segment_size

    def file_end(self, offset: int) -> int:
        """Return the end of the file that has the byte at `offset`; `offset` itself where there is none."""
        if self._starts and self._starts[-1] <= offset:
            return self.end
        position = bisect_right(self._starts, offset) - 1
        return max(offset, self.segments[position].end) if position >= 0 else offset

    def find(self, offset: int, length: int) -> Segment | None:
        """Return the file that has those bytes, or `None` where they are gone."""
        position = bisect_right(self._starts, offset) - 1
        if position < 0:
            return None
        segment = self.segments[position]
        return segment if offset + length <= segment.end else None

    def path_of(self, segment: Segment) -> str:
        """Return where the file of `segment` is."""
        return self._path(segment.start)

    def read(self, offset: int, length: int) -> bytes:
        """Return `length` bytes, all of one file.

        Raises:
            OSError: they are not there.
        """
        segment = self.find(offset, length)
        if segment is None:
            raise OSError(errno.ENODATA, "these bytes of the log are gone")
        fd, is_active = self._reader(segment)
        try:
            data = os.pread(fd, length, offset - segment.start)
        finally:
            if not is_active:
                os.close(fd)
        self._check(segment, len(data), length)
        return data

    def read_into(self, segment: Segment, offset: int, views: Sequence[memoryview]) -> None:
        """Fill `views` one after the other with the bytes of `segment` from `offset` on.

        Raises:
            OSError: the file cannot be read or is shorter than it was.
        """
        fd, is_active = self._reader(segment)
        try:
            count = os.preadv(fd, views, offset - segment.start)
        finally:
            if not is_active:
                os.close(fd)
        self._check(segment, count, sum(map(len, views)))

    def _reader(self, segment: Segment) -> tuple[int, bool]:
        """Return a descriptor of that file, and whether it is the one being written, which stays open."""
        if self._fd >= 0 and segment is self.segments[-1]:
            return self._fd, True
        return os.open(self._path(segment.start), os.O_RDONLY | os.O_CLOEXEC), False

    def _check(self, segment: Segment, count: int, wanted: int) -> None:
        if count != wanted:
            raise OSError(errno.EIO, "a file of the log is shorter than it was", self._path(segment.start))

    def note_losses(self) -> int:
        """Look after all files, and forget what others have taken away of them; return how many bytes."""
        before = self.bytes_on_disk
        for segment in list(self.segments):
            size = self._size_of(segment)
            if size < segment.size:
                self._lose(segment, size)
        return before - self.bytes_on_disk

    def _size_of(self, segment: Segment) -> int:
        is_active = self._fd >= 0 and segment is self.segments[-1]
        try:
            return os.stat(self._fd if is_active else self._path(segment.start)).st_size
        except GONE:
            return 0

    def _lose(self, segment: Segment, size: int) -> None:
        if segment is self.segments[-1]:
            self.close()
            self._full = True
        self.bytes_on_disk -= segment.size - size
        segment.size = size
        if not size:
            position = bisect_right(self._starts, segment.start) - 1
            del self._starts[position], self.segments[position]

    def drop(self, segment: Segment) -> None:
        """Unlink the file of `segment`, which is not the one being written."""
        position = bisect_right(self._starts, segment.start) - 1
        unlinking.unlink(self._path(segment.start), segment.size)
        del self._starts[position], self.segments[position]
        self.bytes_on_disk -= segment.size

    def cut(self, end: int) -> int:
        """Discard what lies at and after offset `end`; return how many bytes that were."""
        surplus = max(0, self.end - end)
        while surplus and self.segments and self.segments[-1].start >= end:
            self.close()
            self.drop(self.segments[-1])
            self._full = True
        if surplus and self.segments and self.segments[-1].end > end:
            last = self.segments[-1]
            with contextlib.suppress(*GONE):
                os.truncate(self._path(last.start), end - last.start)
            self.bytes_on_disk -= last.end - end
            last.size = end - last.start
        self.end -= surplus
        return surplus

    def skip_to(self, offset: int) -> None:
        """Go on at `offset`, in a new file where that is beyond the end; what lies between is not there."""
        if offset <= self.end:
            return
        self.close()
        last = self.segments[-1] if self.segments else None
        if last is not None and not last.size:
            self.drop(last)
        self.end, self._full = offset, True

    def begin_at(self, offset: int) -> None:
        """Let a file stand at `offset` if that is beyond the end: a later life sees that nothing is missing.

        Raises:
            OSError: the disk failed or is full.
        """
        if offset > (self.segments[-1].end if self.segments else 0):
            self.skip_to(offset)
            self._add_segment()

    def close(self) -> None:
        """Close the descriptor; the next write opens it again."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _path(self, start: int) -> str:
        return f"{self._folder}/{self._prefix}.{start}"


def has_data(source: int) -> bool:
    """Tell whether bytes wait in `source`, so that no file is made for a stream that only ends.

    Raises:
        BlockingIOError: neither bytes nor the end are there.
    """
    poller = select.poll()
    poller.register(source, select.POLLIN)
    events = poller.poll(0)
    if not events:
        raise BlockingIOError(errno.EAGAIN, "nothing to read")
    return bool(events[0][1] & select.POLLIN)

"""Own how one page of a log is put together: events in order, holes told to the byte, few reads."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Literal, Protocol

from execzmq.process.index import RECORD_SIZE, Record, Segment, unpack
from execzmq.process.indexfiles import IndexFiles

_LARGE_RUN = 1 << 20
_WORTH_A_FILE = 64 * 1024
"""Bytes from which on it costs a reader less to open a file than to be sent them."""
_MOST_VIEWS = 1024
_MOST_EXAMINED = 16384
"""Records looked at for one page, so that a long run of dropped events does not hold up the loop."""
_CURSORS = 64


@dataclass(slots=True)
class Dropped:
    """Events `from_seq` to `to_seq` are gone, `bytes` of output with them.

    `time` is that of the last of them or of the event that follows, 0 where neither is known.
    """

    from_seq: int
    to_seq: int
    bytes: int
    kind: Literal["dropped"] = "dropped"
    time: float = field(default=0.0, compare=False)


@dataclass(slots=True, frozen=True)
class Place:
    """Bytes of a file from `position` on. A file of a log is only added to until it is unlinked.

    `identity` is the file's device and inode.
    """

    path: str
    identity: tuple[int, int]
    position: int
    length: int


@dataclass(slots=True)
class LogPage:
    """Some events of a log in order.

    `buffer` has the bytes of all output events end to end, or `place` says where they stand so; `payloads`
    has those of every other event by seq; the next page begins after `next_seq`.
    """

    entries: list[Record | Dropped]
    payloads: dict[int, bytes]
    buffer: bytes | bytearray
    next_seq: int
    place: Place | None = None


class Readable(Protocol):
    """A stream as a page reads it; see SegmentedStream."""

    def find(self, offset: int, length: int) -> Segment | None:
        """Return what has those bytes, or `None` where they are gone."""

    def path_of(self, segment: Segment) -> str | None:
        """Return the file of `segment`, `None` where it is in memory."""

    def read(self, offset: int, length: int) -> bytes:
        """Return these bytes, all of one segment."""

    def read_into(self, segment: Segment, offset: int, views: Sequence[memoryview]) -> None:
        """Fill `views` with the bytes of `segment` from `offset` on."""


@dataclass(slots=True)
class _Run:
    """Bytes that follow each other in one file, and the parts of the page's buffer where they go."""

    stream: Readable
    segment: Segment
    offset: int
    end: int
    parts: list[list[int]]


class PageBuilder:
    """Takes the records of a page one after the other and reads their bytes at the end.

    Args:
        streams: the data by name of stream.
        after_seq: the event after which the page begins.
        ends: ends of stdout and stderr after that event.
        max_bytes: most bytes of the page, if it has more than one event.
        max_events: most events of the page.
        by_file: whether the page may say where its output stands instead of having it.
    """

    def __init__(
        self,
        streams: Mapping[str, Readable],
        after_seq: int,
        ends: tuple[int, int],
        max_bytes: int,
        max_events: int,
        by_file: bool,
    ) -> None:
        self.seq = after_seq
        self.ends = ends
        self._streams = streams
        self._max_bytes = max_bytes
        self._max_events = max_events
        self._by_file = by_file
        self._examined = 0
        self._size = 0
        self._filled = 0
        self._entries: list[Record | Dropped] = []
        self._others: list[Record] = []
        self._runs: list[_Run] = []
        self._open_runs: dict[str, _Run] = {}

    def add(self, record: Record) -> bool:
        """Put `record` on the page; return whether it still fitted."""
        self._examined += 1
        length = record.length
        segment = self._streams[record.stream].find(record.offset, length) if length else None
        is_gone = segment is None and length > 0
        if self._entries and not self._has_room(0 if is_gone else length):
            return False
        if segment is not None and self._is_one_large_run() and not self._goes_on(record, segment):
            return False
        if record.seq > self.seq + 1:
            self._note_dropped(record.seq - 1, record.begins, record.time)
        if is_gone:
            self._note_dropped(record.seq, record.ends, record.time)
            return True
        self._entries.append(record)
        self._size += length
        if record.kind != "output":
            self._others.append(record)
        elif segment is not None:
            self._place(record, segment)
        self.seq, self.ends = record.seq, (record.stdout_end, record.stderr_end)
        return True

    def _has_room(self, length: int) -> bool:
        if len(self._entries) >= self._max_events or self._examined > _MOST_EXAMINED:
            return False
        return length == 0 or self._size + length <= self._max_bytes

    def _is_one_large_run(self) -> bool:
        """Tell whether the page is worth sending as it is: one read, and no copy to put parts together."""
        return self._filled >= (_WORTH_A_FILE if self._by_file else _LARGE_RUN) and len(self._runs) == 1

    def _goes_on(self, record: Record, segment: Segment) -> bool:
        run = self._runs[-1]
        return record.kind != "output" or (run.segment is segment and run.end == record.offset)

    def _note_dropped(self, to_seq: int, ends: tuple[int, int], time: float) -> None:
        lost = max(0, sum(ends) - sum(self.ends))
        last = self._entries[-1] if self._entries else None
        if isinstance(last, Dropped):
            last.to_seq = to_seq
            last.bytes += lost
            last.time = time
        else:
            self._entries.append(Dropped(self.seq + 1, to_seq, lost, time=time))
        self.seq, self.ends = to_seq, ends

    def _place(self, record: Record, segment: Segment) -> None:
        begin = self._filled
        end = self._filled = begin + record.length
        run = self._open_runs.get(record.stream)
        follows = run is not None and run.end == record.offset and run.segment is segment
        if run is None or not follows or len(run.parts) >= _MOST_VIEWS:
            run = _Run(self._streams[record.stream], segment, record.offset, record.offset, [])
            self._open_runs[record.stream] = run
            self._runs.append(run)
        run.end += record.length
        if run.parts and run.parts[-1][1] == begin:
            run.parts[-1][1] = end
        else:
            run.parts.append([begin, end])

    def fill(self, index: IndexFiles) -> bool:
        """Take records of the index until the page is full; return whether the log ended first."""
        with closing(index.blocks(self.seq + 1)) as blocks:
            for block in blocks:
                for at in range(0, len(block), RECORD_SIZE):
                    record = unpack(block, at)
                    if record is not None and record.seq > self.seq and not self.add(record):
                        return False
        return True

    def fill_from(self, records: Iterable[Record]) -> bool:
        """Take these records, which follow those of the index, in the same way."""
        return all(self.add(record) for record in records)

    def close_hole(self, last_seq: int, ends: tuple[int, int]) -> None:
        """Tell what is missing up to the end of the log, where its records cannot be read."""
        if self.seq < last_seq:
            self._note_dropped(last_seq, ends, 0.0)

    def finish(self) -> LogPage:
        """Return the page; its bytes are read, unless it may say, and can well say, where they are."""
        meta = self._streams["meta"]
        payloads = {r.seq: meta.read(r.offset, r.length) if r.length else b"" for r in self._others}
        buffer: bytes | bytearray = b""
        place = None
        if len(self._runs) != 1:
            buffer = self._read_all()
        elif (place := self._place_of(self._runs[0])) is None:
            buffer = self._read_one(self._runs[0])
        return LogPage(self._entries, payloads, buffer, self.seq, place)

    def _place_of(self, run: _Run) -> Place | None:
        path = run.stream.path_of(run.segment) if self._by_file and self._filled >= _WORTH_A_FILE else None
        if path is None:
            return None
        status = os.stat(path)
        begin, length = run.offset - run.segment.start, run.end - run.offset
        return Place(path, (status.st_dev, status.st_ino), begin, length)

    def _read_one(self, run: _Run) -> bytes:
        return run.stream.read(run.offset, run.end - run.offset)

    def _read_all(self) -> bytearray:
        buffer = bytearray(self._filled)
        with memoryview(buffer) as whole:
            for run in self._runs:
                run.stream.read_into(run.segment, run.offset, [whole[a:b] for a, b in run.parts])
        return buffer


def page_of_held(
    held: Iterable[tuple[Record, bytes]], after_seq: int, max_bytes: int, max_events: int
) -> LogPage:
    """Return the page of a log without output and files, each event with its payload: so are most of them."""
    page = LogPage([], {}, bytearray(), after_seq)
    size = 0
    for record, payload in held:
        if record.seq <= after_seq:
            continue
        size += len(payload)
        if page.entries and (size > max_bytes or len(page.entries) >= max_events):
            break
        page.entries.append(record)
        page.payloads[record.seq] = payload
        page.next_seq = record.seq
    return page


class CursorMemory:
    """Where in the output the newest page ends are.

    A reader that comes back to a cursor whose record was dropped meanwhile is told its loss to the byte.
    """

    __slots__ = ("_ends",)

    def __init__(self) -> None:
        self._ends: dict[int, tuple[int, int]] = {}

    def note(self, seq: int, ends: tuple[int, int]) -> None:
        """Remember the ends of stdout and stderr after the event `seq`."""
        self._ends.pop(seq, None)
        self._ends[seq] = ends
        if len(self._ends) > _CURSORS:
            del self._ends[next(iter(self._ends))]

    def get(self, seq: int) -> tuple[int, int] | None:
        """Return the ends after the event `seq`, `None` if no page ended there lately."""
        return self._ends.get(seq)

"""Own the form of an index record, the search over records, and what may be dropped; pure, no files.

A record is 52 bytes, little endian: `seq` u64, `kind` u8, `stream` u8, pad u16, `length` u32, `offset` u64,
`time` f64, end of stdout u64, end of stderr u64, crc32 of all before it u32. The last record of a log alone
tells how far it goes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias
from zlib import crc32

Kind: TypeAlias = Literal["started", "output", "exited", "closed", "failed", "notice"]
RecordStream: TypeAlias = Literal["meta", "stdout", "stderr"]

KINDS: tuple[Kind, ...] = ("started", "output", "exited", "closed", "failed", "notice")
STREAMS: tuple[RecordStream, ...] = ("meta", "stdout", "stderr")
LAST_KINDS = frozenset(("closed", "failed"))
"""Kinds after which no event follows."""

_BODY = struct.Struct("<QBB2xIQdQQ")
_CHECK = struct.Struct("<I")
_RECORD = struct.Struct("<QBB2xIQdQQI")
_BODY_SIZE = _BODY.size
RECORD_SIZE = _RECORD.size
STREAM_BYTE = 9
"""Place of the code of the stream in a record."""
_KIND_CODES = {kind: code for code, kind in enumerate(KINDS, 1)}
_new = tuple.__new__
STREAM_CODES: dict[str, int] = {stream: code for code, stream in enumerate(STREAMS)}


class Record(NamedTuple):
    """One event as the index has it.

    `offset` and `length` are the place of its bytes in `stream`: the output itself, or the payload of any
    other event in `meta`. `stdout_end` and `stderr_end` are the ends of both streams after the event.
    """

    seq: int
    kind: Kind
    stream: RecordStream
    length: int
    offset: int
    time: float
    stdout_end: int
    stderr_end: int

    @property
    def ends(self) -> tuple[int, int]:
        """Return the ends of stdout and stderr after this event."""
        return self.stdout_end, self.stderr_end

    @property
    def begins(self) -> tuple[int, int]:
        """Return the ends of stdout and stderr before this event."""
        if self.kind != "output":
            return self.stdout_end, self.stderr_end
        if self.stream == "stdout":
            return self.offset, self.stderr_end
        return self.stdout_end, self.offset

    def end_of(self, stream: str) -> int:
        """Return the end of `stdout` or `stderr` after this event."""
        return self.stdout_end if stream == "stdout" else self.stderr_end


def make(
    seq: int, kind: Kind, stream: RecordStream, length: int, offset: int, now: float, stdout: int, stderr: int
) -> Record:
    """Return a record; half the cost of calling the class, and there is one per event."""
    return _new(Record, (seq, kind, stream, length, offset, now, stdout, stderr))


def pack(record: Record) -> bytes:
    """Return the 52 bytes of `record`."""
    seq, kind, stream, length, offset, time, stdout_end, stderr_end = record
    body = _BODY.pack(
        seq, _KIND_CODES[kind], STREAM_CODES[stream], length, offset, time, stdout_end, stderr_end
    )
    return body + _CHECK.pack(crc32(body))


def unpack(block: bytes, position: int = 0) -> Record | None:
    """Return the record that begins at byte `position` of `block`, or `None` where it is torn or damaged."""
    if len(block) < position + RECORD_SIZE:
        return None
    seq, kind, stream, length, offset, time, stdout, stderr, check = _RECORD.unpack_from(block, position)
    if crc32(block[position : position + _BODY_SIZE]) != check or not 0 < kind <= len(KINDS):
        return None
    if stream >= len(STREAMS):
        return None
    return _new(Record, (seq, KINDS[kind - 1], STREAMS[stream], length, offset, time, stdout, stderr))


def meta_records(block: bytes) -> Iterator[Record]:
    """Yield those of a block of whole records that are no output."""
    codes = block[STREAM_BYTE::RECORD_SIZE]
    at = codes.find(STREAM_CODES["meta"])
    while at >= 0:
        record = unpack(block, at * RECORD_SIZE)
        if record is not None:
            yield record
        at = codes.find(STREAM_CODES["meta"], at + 1)


def first_where(read: Callable[[int], Record | None], count: int, wanted: Callable[[Record], bool]) -> int:
    """Return the lowest position whose record is `wanted`, or `count` where none is.

    `wanted` must be false up to some position and true from there on. A position that cannot be read (`None`)
    counts with the next one that can.
    """
    low, high = 0, count
    while low < high:
        middle = probe = (low + high) // 2
        record = read(probe)
        while record is None and probe + 1 < high:
            probe += 1
            record = read(probe)
        if record is None or wanted(record):
            high = middle
        else:
            low = probe + 1
    return low


@dataclass(slots=True)
class Segment:
    """One file of a stream: its first offset, its bytes, and the events that lie in it."""

    start: int
    size: int = 0
    records: int = 0

    @property
    def end(self) -> int:
        """Return the offset after its last byte."""
        return self.start + self.size

    @property
    def cost(self) -> int:
        """Return its bytes and those of its index records."""
        return self.size + self.records * RECORD_SIZE


def cost_at(record: Record) -> int:
    """Return what all events up to `record` cost on disk, if none of them had been dropped."""
    return record.stdout_end + record.stderr_end + record.seq * RECORD_SIZE


def droppable(table: Sequence[Segment], low: int, high: int, share: int) -> list[Segment]:
    """Return the segments of one stream that may go, oldest first.

    Args:
        table: the segments of the stream in order.
        low: offset before which all is kept (the first half of the budget).
        high: offset from which all is kept (the newest half, or what a reader has not received).
        share: bytes that this stream keeps in any case, half of them at its begin, half at its end.
    """
    first = _covering(table, share // 2)
    last = len(table) - max(1, _covering(table[::-1], share // 2))
    return [segment for segment in table[first:last] if segment.start >= low and segment.end <= high]


def _covering(table: Sequence[Segment], wanted: int) -> int:
    """Return how many of the first segments together cost at least `wanted` bytes (all, if they do not)."""
    for count, segment in enumerate(table):
        if wanted <= 0:
            return count
        wanted -= segment.cost
    return len(table)

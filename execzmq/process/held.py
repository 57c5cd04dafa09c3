"""Own the events of a log that are in memory only: which stay while the disk takes nothing, which go. Pure.

Events before the first output are here too. Only output counts: the rest is small and never goes.
"""

from __future__ import annotations

import errno
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from execzmq.process.index import Record, Segment
from execzmq.process.paging import Readable
from execzmq.settings import DEGRADED_EACH, DEGRADED_TOTAL, MAX_EVENT

_EVENT_COST = 256
"""Bytes that an event costs beside its output."""
_LEAST_EVENT = 512
_PENDING = 8
"""Part of the memory (1 / n) that is for what is no event yet, of both streams."""
_NO_SPACE = frozenset((errno.ENOSPC, errno.EDQUOT))
_LOST_MOST = 4096
"""Dropped events that are remembered, in 24 bytes each."""
_FIRST_RETRY = 0.25
_LAST_RETRY = 8.0
_CALM = 60.0
"""Seconds without trouble after which the next is tried again as soon as the first."""


def is_about_space(error: OSError) -> bool:
    """Tell whether the disk is full, and not broken."""
    return error.errno in _NO_SPACE


class Retries:
    """When a disk that took nothing is tried again: soon, and later each time that it fails again soon."""

    def __init__(self) -> None:
        self._count = 0
        self._ended_at = float("-inf")

    def begin(self, now: float) -> float:
        """Note that trouble begins, at `now` (monotonic seconds); return the seconds between two tries."""
        self._count = self._count + 1 if now - self._ended_at < _CALM else 0
        return min(_LAST_RETRY, _FIRST_RETRY * (1 << min(self._count, 10)))

    def end(self, now: float) -> None:
        """Note that the trouble is over."""
        self._ended_at = now


class Memory:
    """What all logs of a backend may hold in memory together; each has the same share, at most `each`.

    Args:
        each: bytes of one log.
        total: bytes of all of them.

    Attributes:
        is_disk_full: no output is to be written, so that what little room there is is left for ends.
    """

    def __init__(self, each: int = DEGRADED_EACH, total: int = DEGRADED_TOTAL) -> None:
        self._each = each
        self._total = total
        self.used = 0
        self.holders = 0
        self.is_disk_full = False

    @property
    def share(self) -> int:
        """Return the bytes that are for one log."""
        return min(self._each, self._total // max(1, self.holders))

    @property
    def largest_event(self) -> int:
        """Return the bytes of the largest output event that is made now."""
        return max(_LEAST_EVENT, min(MAX_EVENT, self.share // (2 * _PENDING)))

    def most_for(self, own: int) -> int:
        """Return how many bytes of events a log may have that has `own` now."""
        most = min(self.share, self._total - (self.used - own))
        return max(0, most - most // _PENDING)


@dataclass(slots=True)
class HeldEvent:
    """One event; `data` is its output or payload, `None` where that stands on disk already.

    `cost` is what it counts for of the memory.
    """

    record: Record
    data: bytes | None
    cost: int


class LostEnds:
    """Where the streams ended after each event that was dropped lately.

    So whoever has come to one of these is told what he has missed since, to the byte.
    """

    __slots__ = (
        "_ends",
        "_seqs",
    )

    def __init__(self) -> None:
        self._seqs = array("Q")
        self._ends = array("Q")

    def note(self, record: Record) -> None:
        """Remember an event that is being dropped; none of an older one may follow."""
        self._seqs.append(record.seq)
        self._ends.extend(record.ends)
        if len(self._seqs) > _LOST_MOST:
            del self._seqs[: _LOST_MOST // 2], self._ends[: _LOST_MOST // 2 * 2]

    def at_or_before(self, seq: int) -> tuple[int, tuple[int, int]]:
        """Return the last such event whose seq is not above `seq`, and the ends of stdout and stderr then."""
        at = bisect_right(self._seqs, seq) - 1
        if at < 0:
            return 0, (0, 0)
        return self._seqs[at], (self._ends[2 * at], self._ends[2 * at + 1])


class HeldTail:
    """The newest events of one log, by seq; there may be holes between them.

    Args:
        memory: shared with all other logs.
    """

    __slots__ = (
        "_events",
        "_is_holder",
        "_lost",
        "_pending",
        "_places",
        "bytes",
        "memory",
    )

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self._lost: LostEnds | None = None
        self.bytes = 0
        self._events: dict[int, HeldEvent] = {}
        self._places: dict[tuple[str, int], bytes] = {}
        self._pending: dict[str, bytearray] = {}
        self._is_holder = False

    def __bool__(self) -> bool:
        return bool(self._events)

    def __iter__(self) -> Iterator[HeldEvent]:
        return iter(list(self._events.values()))

    @property
    def first_seq(self) -> int:
        """Return the seq of the oldest event; there must be one."""
        return next(iter(self._events))

    def after(self, seq: int) -> Iterator[Record]:
        """Yield the records after the event `seq`, the newest last."""
        return (event.record for event in self if event.record.seq > seq)

    def at_or_before(self, seq: int) -> Record | None:
        """Return the last record whose seq is not above `seq`, `None` if there is none."""
        last = None
        for event in takewhile(lambda event: event.record.seq <= seq, self._events.values()):
            last = event.record
        return last

    def lost_at_or_before(self, seq: int) -> tuple[int, tuple[int, int]]:
        """Return the last event up to `seq` that was dropped lately, and the ends of the streams then."""
        return (0, (0, 0)) if self._lost is None else self._lost.at_or_before(seq)

    # What comes

    def hold(self) -> None:
        """Take a share of the memory; idempotent."""
        self.memory.holders += not self._is_holder
        self._is_holder = True

    def release(self) -> None:
        """Give the share back; idempotent."""
        self.memory.holders -= self._is_holder
        self._is_holder = False

    def feed(self, stream: str, data: bytes | memoryview) -> int:
        """Add output that is no event yet; return how many bytes it was."""
        if data:
            self._pending.setdefault(stream, bytearray()).extend(data)
        return len(data)

    def pending(self, stream: str) -> int:
        """Return the bytes of `stream` that are no event yet."""
        return len(self._pending.get(stream, b""))

    @property
    def has_pending(self) -> bool:
        """Tell whether there is output that is no event yet."""
        return bool(self._pending)

    def take_pending(self, stream: str) -> bytes | None:
        """Return what is no event yet, to make one of it; `None` where there is nothing."""
        data = self._pending.pop(stream, None)
        return None if data is None else bytes(data)

    def add(self, record: Record, data: bytes | None) -> None:
        """Add the newest event."""
        cost = 0 if data is None or record.kind != "output" else len(data) + _EVENT_COST
        event = HeldEvent(record, data, cost)
        self._events[record.seq] = event
        if data:
            self._places[record.stream, record.offset] = data
        if cost:
            self._count(cost)

    # What goes

    def remove(self, event: HeldEvent) -> None:
        """Take an event away: it stands on disk, or is lost."""
        del self._events[event.record.seq]
        if event.data:
            del self._places[event.record.stream, event.record.offset]
        if event.cost:
            self._count(-event.cost)
        if not self._events:  # a table keeps the size that it once had
            self._events, self._places = {}, {}

    def drop(self, keep_after: int | None) -> list[Record]:
        """Drop the oldest output beyond what may be held; return its records.

        Args:
            keep_after: seq after which nothing is dropped, `None` = none.
        """
        gone: list[HeldEvent] = []
        excess = self.bytes - self._wanted
        for event in self._events.values():
            if excess <= 0 or (keep_after is not None and event.record.seq > keep_after):
                break
            if event.cost:
                gone.append(event)
                excess -= event.cost
        for event in gone:
            self._lost = self._lost or LostEnds()
            self._lost.note(event.record)
            self.remove(event)
        return [event.record for event in gone]

    @property
    def is_full(self) -> bool:
        """Tell whether one more event would have to take the place of another."""
        return self.bytes > self._wanted

    @property
    def _wanted(self) -> int:
        """Return the bytes up to which there is room for one more event."""
        return max(0, self.memory.most_for(self.bytes) - self.memory.largest_event - _EVENT_COST)

    def clear(self) -> None:
        """Forget everything."""
        for event in self:
            self.remove(event)
        self._pending.clear()
        self.release()

    def _count(self, size: int) -> None:
        self.bytes += size
        self.memory.used += size

    # What is read

    def find(self, stream: str, offset: int) -> bytes | None:
        """Return the bytes of the event that begins at `offset` of `stream`, if they are here."""
        return self._places.get((stream, offset))


class HeldStream:
    """A stream of which the newest part is in memory, as a page reads it."""

    def __init__(self, name: str, tail: HeldTail, disk: Readable) -> None:
        self._name = name
        self._tail = tail
        self._disk = disk

    def find(self, offset: int, length: int) -> Segment | None:
        """Return what has those bytes, or `None` where they are gone."""
        held = self._tail.find(self._name, offset)
        return self._disk.find(offset, length) if held is None else Segment(offset, length)

    def path_of(self, segment: Segment) -> str | None:
        """Return the file of `segment`, `None` where it is in memory."""
        held = self._tail.find(self._name, segment.start)
        return self._disk.path_of(segment) if held is None else None

    def read(self, offset: int, length: int) -> bytes:
        """Return the bytes of one event, or of some that follow each other in one file.

        Raises:
            OSError: they are not there.
        """
        held = self._tail.find(self._name, offset)
        return self._disk.read(offset, length) if held is None else held

    def read_into(self, segment: Segment, offset: int, views: Sequence[memoryview]) -> None:
        """Fill `views` one after the other with the bytes from `offset` on, of what `find` has returned.

        Raises:
            OSError: they cannot be read.
        """
        held = self._tail.find(self._name, offset)
        if held is None:
            self._disk.read_into(segment, offset, views)
        else:
            views[0][:] = held  # an event of its own, since its segment is

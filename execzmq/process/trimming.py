"""Own how a log gives space back: which files of its middle go, and that its index follows.

Data go first: a record whose data are gone counts as dropped, so a crash at any point leaves a log that tells
its loss. The index is rewritten only where its own size matters.
"""

from __future__ import annotations

import contextlib

from execzmq.process.index import Segment, cost_at, droppable
from execzmq.process.indexfiles import IndexFiles
from execzmq.process.segments import SegmentedStream

_COMPACTED_AT_ONCE = 4
"""Index files that are rewritten by one call."""
_SHARE = 8
"""Part of what is kept (1 / n) that each stream has for itself."""


class Trimmer:
    """Drops the middle of one log.

    Args:
        data: the streams by name.
        index: its records.
        dropped: bytes dropped per stream, counted here.
    """

    __slots__ = (
        "_data",
        "_dropped",
        "_index",
        "counts_are_known",
    )

    def __init__(self, data: dict[str, SegmentedStream], index: IndexFiles, dropped: dict[str, int]) -> None:
        self._data = data
        self._index = index
        self._dropped = dropped
        self.counts_are_known = True

    @property
    def disk_bytes(self) -> int:
        """Return the bytes of all files of the log."""
        return self._index.bytes_on_disk + sum(stream.bytes_on_disk for stream in self._data.values())

    def shrink(self, target: int, kept: int, received: dict[str, int], most: int | None) -> int:
        """Drop files until at most `target` bytes are left or nothing more may go; return the bytes freed.

        Args:
            target: bytes of data and index.
            kept: bytes whose first and newest half stay in any case.
            received: offset per stream from which on nothing is dropped.
            most: files unlinked by this call, `None` = no limit.

        Raises:
            OSError: a file could not be removed; those before it are gone and counted.
        """
        before = self.disk_bytes
        if before <= target:
            return 0
        self._count_records()
        for name, table in self._candidates(kept, received).items():
            most = self._drop(name, table[:most], target, most)
        if self._index.bytes_on_disk > target // _SHARE or self.disk_bytes > target:
            with contextlib.suppress(OSError):  # on a full disk; the data are what counts
                self._index.compact(self._is_there, _COMPACTED_AT_ONCE)
        return before - self.disk_bytes

    def _candidates(self, kept: int, received: dict[str, int]) -> dict[str, list[Segment]]:
        """Return what may go of each stream, the larger stream first."""
        newest = self._index.last_record()
        head = self._index.first_where(lambda record: cost_at(record) >= kept // 2)
        if head is None or newest is None:
            return {}
        border = cost_at(newest) - kept // 2
        tail = self._index.first_where(lambda record: cost_at(record) > border) or newest
        tail_begins = dict(zip(("stdout", "stderr"), tail.begins, strict=True))
        names = sorted(received, key=lambda name: -self._data[name].bytes_on_disk)
        return {
            name: droppable(
                self._data[name].segments,
                head.end_of(name),
                min(tail_begins[name], received[name]),
                kept // _SHARE,
            )
            for name in names
        }

    def _drop(self, name: str, table: list[Segment], target: int, most: int | None) -> int | None:
        """Unlink files of one stream, oldest first; return how many more may be unlinked."""
        gone: list[Segment] = []
        try:
            for segment in table:
                if self.disk_bytes <= target:
                    break
                self._data[name].drop(segment)
                self._dropped[name] += segment.size
                gone.append(segment)
        finally:
            if gone:
                self._index.mark_stale(*self._seqs_of(name, gone[0].start, gone[-1].end))
        return None if most is None else most - len(gone)

    def _seqs_of(self, name: str, start: int, end: int) -> tuple[int, int]:
        """Return the seqs of the first and the last event that have bytes of `name` between two offsets."""
        first = self._index.first_where(lambda record: record.end_of(name) > start)
        last = self._index.first_where(lambda record: record.end_of(name) >= end)
        newest = self._index.segments[-1].last
        return first.seq if first else newest, last.seq if last else newest

    def _is_there(self, stream: str, offset: int, length: int) -> bool:
        return self._data[stream].find(offset, length) is not None

    def _count_records(self) -> None:
        """Learn once how many events lie in each file that an earlier life has written."""
        if self.counts_are_known:
            return
        for name in self._dropped:
            for segment in self._data[name].segments:
                first, last = self._seqs_of(name, segment.start, segment.end)
                segment.records = self._index.count(name, first, last)
        self.counts_are_known = True

"""Own the log of one process: its events in order, on disk from its first byte of output on.

Data first, then the index record, and only then may anyone be told: every reader is a cursor into what stands
here. Until there is output, or something else that a restart must find, the few events are held in memory and
no file exists. Where the disk takes nothing any more, the newest events are held in memory too. Knows nothing
of loops, sockets and clients; `now` is passed in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

from execzmq.process.held import Memory
from execzmq.process.index import (
    LAST_KINDS,
    Kind,
    Record,
    RecordStream,
    make,
)
from execzmq.process.paging import CursorMemory, Dropped, LogPage, PageBuilder, page_of_held
from execzmq.process.store import LogStore
from execzmq.settings import MAX_EVENT, PAGE, PAGE_EVENTS
from execzmq.types.events import Stream

__all__ = ["Dropped", "LogPage", "OutputLog", "Record"]

OUTPUT_STREAMS: tuple[Stream, ...] = ("stdout", "stderr")

Memo: TypeAlias = tuple[Kind, bytes, float]
"""An event that was only in memory: its kind, payload and time."""


class OutputLog:
    """What one process did and wrote, in one folder.

    Making the object does no IO.

    Args:
        folder: made at the first byte.
        instance: names this log among those of its process_id.
        budget: bytes that are kept in any case; decides how large a file grows.
        memory: what it may hold while the disk takes nothing, shared with other logs.

    Attributes:
        dropped: bytes per stream that the log no longer has.
        store: where the events are: on disk, and in memory while the disk takes nothing.
    """

    def __init__(self, folder: Path | str, instance: int, budget: int, memory: Memory | None = None) -> None:
        self._folder = folder
        self.instance = instance
        self.budget = budget
        self.last_seq = 0
        self.last_kind: Kind | None = None
        self.ends: dict[str, int] = dict.fromkeys(OUTPUT_STREAMS, 0)
        self.discarded_bytes = 0
        self.store = LogStore(str(folder), budget, memory or Memory())
        self._files = self.store.files
        self.dropped = self._files.dropped
        self._data = self._files.data
        self._index = self._files.index
        self._tail = self.store.tail
        self._meta_end = 0
        self._cursors = CursorMemory()

    @classmethod
    def from_memory(
        cls,
        folder: Path | str,
        instance: int,
        budget: int,
        events: Iterable[Memo],
        memory: Memory | None = None,
    ) -> OutputLog:
        """Rebuild the log of a process that never had output, from what the journal says of it."""
        log = cls(folder, instance, budget, memory)
        for event in events:
            log.append(*event)
        return log

    @classmethod
    def open(
        cls,
        folder: Path | str,
        instance: int,
        budget: int,
        now: float = 0.0,
        first: Iterable[Memo] = (),
        memory: Memory | None = None,
    ) -> OutputLog:
        """Take up the log that an earlier life has left in `folder`; no folder is a log without events.

        A torn last record is cut off. Bytes that no record speaks of become output events stamped `now`, or
        are discarded and counted in `discarded_bytes` where the log has ended. `first` are the events that
        may have been in memory only; they are recorded first where the index has nothing. `damaged` is set
        where bytes are missing or more than one record is bad: what was told may then differ from the log.

        Raises:
            OSError: the folder cannot be read or written.
        """
        log = cls(folder, instance, budget, memory)
        last = log._files.load()
        log._meta_end = log._data["meta"].end
        if last is not None:
            log.last_seq, log.last_kind = last.seq, last.kind
            log.ends = {name: last.end_of(name) for name in OUTPUT_STREAMS}
        else:
            for event in first:
                log.append(*event)
        log._adopt_data(now)
        return log

    def _adopt_data(self, now: float) -> None:
        for name in OUTPUT_STREAMS:
            if self.last_kind in LAST_KINDS or self.damaged or self._files.has_hole(name, self.ends[name]):
                self.discarded_bytes += self._files.cut(name, self.ends[name])
            while self.commit(name, now) is not None:
                pass

    # What is there

    @property
    def folder(self) -> Path:
        """Return where its files are, or will be."""
        return Path(self._folder)

    @property
    def first_seq(self) -> int:
        """Return the seq of the first event that is still there, 0 if there is none."""
        if self._index.segments:
            return self._index.segments[0].first
        return self._tail.first_seq if self._tail else 0

    @property
    def is_on_disk(self) -> bool:
        """Tell whether the log has files."""
        return self._files.exist

    @property
    def damaged(self) -> bool:
        """Tell whether what was told may differ from what was found."""
        return self._files.damaged

    @property
    def disk_bytes(self) -> int:
        """Return the bytes of all files of the log, index and pending bytes counted in."""
        return self._files.trimmer.disk_bytes

    def pending(self, stream: Stream) -> int:
        """Return the bytes of `stream` that were taken but are no event yet."""
        count = self._data[stream].end - self.ends[stream]
        return count if count > 0 else self._tail.pending(stream)

    def room(self, stream: Stream) -> int:
        """Return the bytes that can be added to the pending ones before they must become an event."""
        return self.store.room(self.pending(stream), are_on_disk=self._data[stream].end > self.ends[stream])

    def ends_at(self, seq: int) -> dict[str, int]:
        """Return the end of each stream after the event `seq`.

        Where that is not known any more, it is that after the last event before it that is.
        """
        return dict(zip(OUTPUT_STREAMS, self._ends_at(seq), strict=True))

    def _ends_at(self, seq: int) -> tuple[int, int]:
        if seq >= self.last_seq:
            return self.ends["stdout"], self.ends["stderr"]
        return self._cursors.get(seq) or self.store.ends_at_or_before(seq)

    # Writing

    def splice(self, stream: Stream, fd: int, limit: int) -> int:
        """Move up to `limit` bytes from the non-blocking pipe `fd` into the data of `stream`.

        Returns the bytes moved, 0 at the end of the pipe. Moves no more than still fit into one event.

        Raises:
            BlockingIOError: nothing is there now.
            FileLost: others have taken away what was written; `commit` what is pending, and try again.
            ValueError: a whole event is pending already; `commit` it first.
            OSError: the disk takes nothing; what was not moved is still in the pipe. `commit` what is
                pending, and `hold`.
        """
        room = min(limit, self.room(stream))
        if room <= 0:
            raise ValueError("a whole event is pending")
        return self.store.splice(stream, fd, room)

    def feed(self, stream: Stream, data: bytes | memoryview) -> None:
        """Add bytes that were read elsewhere, at most as many as still fit into one event.

        Raises:
            ValueError: they do not fit.
            OSError: the disk takes nothing; nothing was added. `commit` what is pending, and `hold`.
        """
        if len(data) > self.room(stream):
            raise ValueError("more bytes than fit into one event")
        self.store.feed(stream, data)

    def commit(self, stream: Stream, now: float) -> Record | None:
        """Make one output event of the pending bytes of `stream`; `None` where there are none."""
        data, offset = self._data[stream], self.ends[stream]
        held = None
        if data.end > offset:
            length = min(data.file_end(offset) - offset, MAX_EVENT)
        elif (held := self._tail.take_pending(stream)) is not None:
            length = len(held)
        else:
            return None
        record = _record_after(self.last_seq, self.ends, "output", stream, length, offset, now)
        self._add(record, held, held is None)
        self.ends[stream] = offset + length
        return record

    def append(self, kind: Kind, payload: bytes, now: float) -> Record:
        """Record an event that is no output.

        Before the first output a `started`, `exited`, `closed` or `failed` stays in memory. After `closed`
        and `failed` no descriptor stays open.
        """
        record = _record_after(self.last_seq, self.ends, kind, "meta", len(payload), self._meta_end, now)
        self._meta_end += len(payload)
        self._add(record, payload, self.is_on_disk or kind == "notice")
        if kind in LAST_KINDS:
            self._files.end()
        return record

    def finish(self, seq: int, ends: Mapping[str, int], payload: bytes, now: float) -> None:
        """Record the `closed` that was told as event `seq`, when the streams had ended at `ends`.

        What was told before it and is not there counts as dropped.
        """
        self.last_seq = max(self.last_seq, seq - 1)
        for name in OUTPUT_STREAMS:
            lost = max(0, ends.get(name, 0) - self.ends[name])
            self.ends[name] += lost
            self.dropped[name] += lost
        self.append("closed", payload, now)
        if self.is_on_disk:
            self.recover()

    def _add(self, record: Record, data: bytes | None, tries_disk: bool) -> None:
        """Let `record` be the last event."""
        self.last_seq, self.last_kind = record.seq, record.kind
        self.store.add(record, data, tries_disk)

    def persist(self) -> None:
        """Write what is held in memory, as before the first output; the store tells where that fails.

        Needed where an event was told that a later server could not know: `exited` while a stream is open.
        """
        self.store.persist()

    def recover(self) -> bool:
        """Try a disk again that took nothing; return whether all that was held stands there now.

        To be called with nothing pending. On a failure what could be written stands there.
        """
        is_over = self.store.recover(self.ends)
        if is_over and self.last_kind in LAST_KINDS:
            self.close()
        return is_over

    # Reading

    def page(
        self, after_seq: int, max_bytes: int = PAGE, max_events: int = PAGE_EVENTS, *, by_file: bool = False
    ) -> LogPage:
        """Return the events after `after_seq`: at least one if there is any, none of them in part.

        What is gone is told as `Dropped`. With `by_file` the page may say where its output stands.

        Raises:
            OSError: the files cannot be read.
        """
        after_seq = max(0, min(after_seq, self.last_seq))
        if self._tail and not self._index.segments and not any(self.ends.values()):
            events = ((event.record, event.data or b"") for event in self._tail)
            return page_of_held(events, after_seq, max_bytes, max_events)
        ends = self._ends_at(after_seq)
        builder = PageBuilder(self.store.readable(), after_seq, ends, max_bytes, max_events, by_file)
        if after_seq < self.last_seq and self.store.fill(builder, after_seq):
            builder.close_hole(self.last_seq, (self.ends["stdout"], self.ends["stderr"]))
        self._cursors.note(builder.seq, builder.ends)
        return builder.finish()

    def read_output(self, record: Record) -> bytes:
        """Return the bytes of an output event.

        Raises:
            OSError: they are gone or cannot be read.
        """
        return self.store.readable()[record.stream].read(record.offset, record.length)

    # Giving space back

    def shrink(self, target: int, keep_after: int | None = None, most: int | None = None) -> int:
        """Drop output from the middle until the log has at most `target` bytes; return the bytes freed.

        Of the budget, or of `target` if that is less, the first half and the newest half stay in any case,
        and an eighth for each stream, half from its begin and half from its end. Only whole files go, so
        that some more than `target` may stay.

        Args:
            target: bytes of output and index.
            keep_after: seq after which nothing is dropped, `None` = none.
            most: files unlinked by this call, `None` = no limit; call again where it was reached.

        Raises:
            OSError: a file could not be removed; the log is as if it had not been asked to go.
        """
        if not self._index.segments:
            return 0
        received = self.ends_at(self.last_seq if keep_after is None else keep_after)
        return self._files.trimmer.shrink(target, min(target, self.budget), received, most)

    # The end

    def close(self) -> None:
        """Close the descriptors; reading goes on to work, and writing opens them again. Idempotent."""
        self._files.close()

    def remove(self) -> None:
        """Close the log and unlink all that is in its folder.

        Raises:
            OSError: something could not be removed.
        """
        self.store.remove()


def _record_after(
    seq: int, ends: dict[str, int], kind: Kind, stream: RecordStream, length: int, offset: int, now: float
) -> Record:
    """Return the record that follows the event `seq`, after which the streams ended at `ends`."""
    stdout, stderr = ends["stdout"], ends["stderr"]
    if kind == "output":
        stdout += length if stream == "stdout" else 0
        stderr += length if stream == "stderr" else 0
    return make(seq + 1, kind, stream, length, offset, now, stdout, stderr)

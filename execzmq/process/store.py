"""Own where the events of one log are: in its files, and in memory before the first output and while the disk
takes nothing.

Knows nothing of how seqs are given, or of what follows what.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping

from execzmq.process.files import LogFiles
from execzmq.process.held import HeldStream, HeldTail, Memory
from execzmq.process.index import Kind, Record, meta_records
from execzmq.process.paging import PageBuilder, Readable
from execzmq.process.segments import has_data
from execzmq.settings import MAX_EVENT


class LogStore:
    """The events of one log.

    Args:
        folder: made at the first byte.
        budget: see LogFiles.
        memory: what may be held while the disk takes nothing, shared with other logs.

    Attributes:
        trouble: why the disk took nothing when it was tried last; `None` where all is well. While it is set,
            output is read into memory.
    """

    __slots__ = (
        "_memory",
        "files",
        "tail",
        "trouble",
    )

    def __init__(self, folder: str, budget: int, memory: Memory) -> None:
        self.files = LogFiles(folder, budget)
        self.tail = HeldTail(memory)
        self.trouble: OSError | None = None
        self._memory = memory

    def prepare(self) -> None:
        """Make ready what the first output needs of the disk, while there is time for it."""
        if not self.files.exist and self.trouble is None:
            self.files.prepare()

    # Output that is no event yet

    def room(self, pending: int, *, are_on_disk: bool) -> int:
        """Return the bytes that can be added to the `pending` ones before they must become an event.

        Nothing goes to memory beside bytes that `are_on_disk`: an event is wholly in one of the two.
        """
        if self.trouble is None:
            return max(0, MAX_EVENT - pending)
        return 0 if are_on_disk else max(0, self._memory.largest_event - pending)

    def splice(self, stream: str, fd: int, limit: int) -> int:
        """Move up to `limit` bytes from the pipe `fd`; see OutputLog."""
        if self.trouble is not None:
            return self.tail.feed(stream, os.read(fd, limit))
        if (not self.files.exist or self._memory.is_disk_full) and not has_data(fd):
            return 0
        self._prepare()
        return self.files.data[stream].splice_from(fd, limit)

    def feed(self, stream: str, data: bytes | memoryview) -> None:
        """Add bytes that were read elsewhere; see OutputLog."""
        if self.trouble is not None:
            self.tail.feed(stream, data)
        elif data:
            self._prepare()
            self.files.data[stream].append(data)

    def _prepare(self) -> None:
        """Let output be written from now on."""
        if self._memory.is_disk_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if self.tail or not self.files.exist:
            self._write_held()

    # Events

    def add(self, record: Record, data: bytes | None, tries_disk: bool) -> None:
        """Add the newest event: on disk where that is wanted and possible, else in memory.

        Args:
            data: its output or payload; `None` where that stands on disk already.
        """
        if tries_disk and self.files.exist and not self.tail:
            try:
                self.files.store(record, data)
            except OSError as error:
                self.hold(error)
            else:
                return
        self.tail.add(record, data)
        if tries_disk:
            self.persist()

    def persist(self) -> None:
        """Write what is held in memory, unless the disk is known to take nothing."""
        if self.trouble is None:
            try:
                self._write_held()
            except OSError as error:
                self.hold(error)

    def _write_held(self) -> None:
        if not self.files.exist:
            self.files.make_folder()
        for event in self.tail:
            self.files.store(event.record, event.data)
            self.files.exist = True  # though the next may not find room
            self.tail.remove(event)
        self.files.exist = True

    # A disk that takes nothing

    def hold(self, trouble: OSError) -> None:
        """From now on hold output in memory."""
        self.trouble = trouble
        self.tail.hold()

    def drop_held(self, keep_after: int | None) -> None:
        """Drop the oldest output beyond what may be held, but none after the event `keep_after`."""
        for record in self.tail.drop(keep_after):
            self.files.give_up(record)

    @property
    def is_full(self) -> bool:
        """Tell whether as much is held as may be."""
        return self.trouble is not None and self.tail.is_full

    def recover(self, ends: Mapping[str, int]) -> bool:
        """Try the disk again; return whether all stands there now; the streams have come to `ends`."""
        try:
            self._write_held()
            for name, end in ends.items():
                self.files.data[name].begin_at(end)
        except OSError as error:
            self.trouble = error
            return False
        self.trouble = None
        self.tail.release()
        return True

    def note_losses(self) -> bool:
        """Look after what others have taken away of the files; return whether bytes are gone."""
        return self.files.note_losses()

    def remove(self) -> None:
        """Forget everything, and unlink all files.

        Raises:
            OSError: something could not be removed.
        """
        self.tail.clear()
        self.files.remove()

    # Reading

    def readable(self) -> Mapping[str, Readable]:
        """Return the streams by name, what is in memory of them counted in."""
        if not self.tail:
            return self.files.data
        return {name: HeldStream(name, self.tail, disk) for name, disk in self.files.data.items()}

    def fill(self, builder: PageBuilder, after_seq: int) -> bool:
        """Put the events after `after_seq` on a page until it is full; return whether they ended first."""
        if not builder.fill(self.files.index):
            return False
        return not self.tail or builder.fill_from(self.tail.after(after_seq))

    def ends_at_or_before(self, seq: int) -> tuple[int, int]:
        """Return the ends of stdout and stderr after the last event up to `seq` of which they are known."""
        records = [self.tail.at_or_before(seq), self.files.index.at_or_before(seq)]
        found = [(record.seq, record.ends) for record in records if record is not None]
        return max(*found, self.tail.lost_at_or_before(seq), (0, (0, 0)))[1]

    def payload_of(self, kind: Kind) -> bytes | None:
        """Return the payload of the last event of a kind that is no output, `None` where there is none.

        Looks at the whole index.

        Raises:
            OSError: the files cannot be read.
        """
        held = [event.data for event in self.tail if event.record.kind == kind]
        if held:
            return held[-1]
        found = None
        for block in self.files.index.blocks(1):
            for record in meta_records(block):
                found = record if record.kind == kind else found
        return None if found is None else self.files.data["meta"].read(found.offset, found.length)

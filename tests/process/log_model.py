"""What a log must be after any history: every event in a plain list, compared with what the log tells."""

import contextlib
import errno
import os
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

from execzmq.process.held import Memory
from execzmq.process.index import RECORD_SIZE, Kind
from execzmq.process.log import Dropped, OutputLog
from execzmq.types.events import Stream
from tests.process.logs import STARTED

STREAMS: tuple[Stream, ...] = ("stdout", "stderr")
BUDGET = 32 * 1024
MEMORY = 16 * 1024


@dataclass(frozen=True)
class Told:
    """One event as it was told when it was made."""

    kind: str
    stream: str
    offset: int
    data: bytes

    @property
    def output(self) -> int:
        """Return its bytes of output."""
        return len(self.data) if self.kind == "output" else 0


@dataclass
class Model:
    """A log and all that was ever put into it."""

    folder: Path
    log: OutputLog
    random: random.Random
    told: list[Told] = field(default_factory=list)
    pending: dict[str, bytes] = field(default_factory=lambda: {"stdout": b"", "stderr": b""})
    least_kept: int = BUDGET
    cursors: set[int] = field(default_factory=set)
    has_shrunk: bool = False
    room: int | None = None
    lost: set[int] = field(default_factory=set)

    @classmethod
    def begin(cls, folder: Path, seed: int) -> "Model":
        """Return a log that has its first event."""
        log = OutputLog(folder, 7, BUDGET, Memory(MEMORY, 2 * MEMORY))
        model = cls(folder, log, random.Random(seed))
        model.append("started", STARTED[1])
        return model

    # What may happen

    def take(self, step) -> None:
        """Let happen what `step` names, on a disk that may take little or nothing."""
        with self._disk():
            self._take(step)

    def _take(self, step) -> None:
        match step:
            case ("disk", room):
                self.disk(room)
            case ("feed", stream, size):
                self.feed(stream, size)
            case ("output", stream, size):
                self.feed(stream, size)
                self.commit(stream)
            case ("burst", stream, count):
                for _ in range(count):
                    self.feed(stream, self.random.choice((1, 80, 700)))
                    self.commit(stream)
            case ("commit", stream):
                self.commit(stream)
            case ("notice", payload):
                self.append("notice", payload)
            case ("shrink", target, keep_after):
                self.shrink(target, keep_after)
            case ("crash", torn):
                self.crash(torn)
            case ("check", after_seq, max_bytes, max_events):
                self.check(min(after_seq, len(self.told)), max_bytes, max_events)

    def feed(self, stream: Stream, size: int) -> None:
        """Add bytes that are no event yet."""
        data = self.random.randbytes(size)
        while data:
            if not self.log.room(stream):
                self.commit(stream)
            piece = data[: self.log.room(stream)]
            try:
                self.log.feed(stream, piece)
            except OSError as error:
                self._commit_all()
                self.log.store.hold(error)
                continue
            self.pending[stream] += piece
            data = data[len(piece) :]

    def commit(self, stream: Stream) -> None:
        """Make an event of them."""
        record = self.log.commit(stream, 2.0)
        data, self.pending[stream] = self.pending[stream], b""
        if not data:
            assert record is None
            return
        assert record is not None
        assert (record.seq, record.length) == (len(self.told) + 1, len(data))
        assert self.log.read_output(record) == data
        self.told.append(Told("output", stream, record.offset, data))
        if self.log.store.trouble is not None:
            held = {event.record.seq for event in self.log.store.tail}
            self.log.store.drop_held(None)
            self.lost |= held - {event.record.seq for event in self.log.store.tail}
            assert self.log.store.tail.bytes <= MEMORY

    def _commit_all(self) -> None:
        for stream in STREAMS:
            self.commit(stream)

    def disk(self, room: int | None) -> None:
        """Let the disk have so many bytes left, and try it; `None` = as many as it likes."""
        self.room = room
        self._commit_all()
        if self.log.store.trouble is not None:
            assert self.log.recover() or room is not None

    @contextlib.contextmanager
    def _disk(self) -> Iterator[None]:
        write, open_file = os.pwrite, os.open

        def pwrite(fd: int, data: bytes, offset: int) -> int:
            count = len(data) if self.room is None else min(self.room, len(data))
            if self.room is not None:
                self.room -= count
            if data and not count:
                raise OSError(errno.ENOSPC, "full")
            return write(fd, data[:count], offset)

        def opened(path: str, flags: int, mode: int = 0o777) -> int:
            if self.room == 0 and flags & os.O_CREAT:
                raise OSError(errno.ENOSPC, "full")
            return open_file(path, flags, mode)

        with mock.patch("os.pwrite", pwrite), mock.patch("os.open", opened):
            yield

    def append(self, kind: Kind, payload: bytes) -> None:
        """Add an event that is no output."""
        record = self.log.append(kind, payload, 2.0)
        assert record.seq == len(self.told) + 1
        self.told.append(Told(kind, "meta", record.offset, payload))

    def shrink(self, target: int, keep_after: int | None) -> None:
        """Drop the middle; what had to stay must still be there."""
        before = self.present()
        size = self.log.disk_bytes
        freed = self.log.shrink(target, keep_after)
        assert freed == size - self.log.disk_bytes >= 0
        self.least_kept = min(self.least_kept, target)
        self.has_shrunk = True
        after = self.present()
        if keep_after is not None:
            assert {seq for seq in before if seq > keep_after} <= after
        assert self.must_stay() - self.lost <= after

    def crash(self, torn: int) -> None:
        """Lose the server: `torn` bytes of the last index record were not written."""
        self.disk(None)
        self.log.close()
        if self.log.is_on_disk and torn and not self.lost:  # else a hole shows: damage, and a new instance
            self._tear(torn)
        if not self.log.is_on_disk:
            self.told = self.told[:1]
        memory = Memory(MEMORY, 2 * MEMORY)
        self.log = OutputLog.open(self.folder, 7, BUDGET, now=3.0, first=[STARTED], memory=memory)
        self.cursors.clear()
        assert not self.log.damaged
        self._learn()

    def _tear(self, torn: int) -> None:
        newest = max(
            (name for name in os.listdir(self.folder) if name.startswith("idx.")),
            key=lambda name: int(name[4:]),
            default=None,
        )
        if newest is None:
            self.told = []
            return
        path = self.folder / newest
        os.truncate(path, path.stat().st_size - torn)
        lost = self.told.pop()
        if lost.kind == "output":
            self.pending[lost.stream] = lost.data + self.pending[lost.stream]

    def _learn(self) -> None:
        """Take over the events that the new life made of bytes that nobody had been told of."""
        if not self.told:
            self.told.append(Told("started", "meta", 0, STARTED[1]))
        page = self.log.page(len(self.told))
        position = 0
        for entry in page.entries:
            assert not isinstance(entry, Dropped)
            assert entry.seq == len(self.told) + 1
            data = bytes(page.buffer[position : position + entry.length])
            position += entry.length
            assert self.pending[entry.stream].startswith(data)
            self.pending[entry.stream] = self.pending[entry.stream][len(data) :]
            self.told.append(Told("output", entry.stream, entry.offset, data))
        assert not any(self.pending.values())
        assert self.log.last_seq == len(self.told)

    # What must be true

    def check(self, after_seq: int, max_bytes: int, max_events: int) -> None:
        """Read from a cursor to the end: every event once, as it was told, or in one exact `Dropped`."""
        is_exact = after_seq in self.present() | self.cursors | {0}
        at = after_seq
        while at < len(self.told):
            page = self.log.page(at, max_bytes, max_events)
            assert page.entries
            assert page.next_seq > at
            at = self._check_page(at, page, is_exact or at > after_seq)
            assert len(page.buffer) <= max_bytes or sum(e.kind == "output" for e in page.entries) == 1
        assert not self.log.page(at).entries
        if after_seq == 0:
            self._check_counts()

    def _check_page(self, at: int, page, is_exact: bool) -> int:
        position = 0
        for entry in page.entries:
            if isinstance(entry, Dropped):
                assert entry.from_seq == at + 1
                lost = sum(told.output for told in self.told[at : entry.to_seq])
                assert entry.bytes == lost if is_exact else entry.bytes >= lost
                is_exact, at = True, entry.to_seq
                continue
            told = self.told[at]
            assert (entry.seq, entry.kind, entry.stream) == (at + 1, told.kind, told.stream)
            assert entry.length == len(told.data)
            if told.kind == "output":
                assert entry.offset == told.offset
                assert page.buffer[position : position + entry.length] == told.data
                position += entry.length
            else:
                assert page.payloads[entry.seq] == told.data
            at = entry.seq
        assert position == len(page.buffer)
        assert page.next_seq == at
        self.cursors.add(at)
        if len(self.cursors) > 32:
            self.cursors = {at}
        return at

    def _check_counts(self) -> None:
        present = self.present()
        for stream in STREAMS:
            events = [(seq, told) for seq, told in enumerate(self.told, 1) if told.stream == stream]
            assert self.log.ends[stream] == sum(told.output for _, told in events)
            lost = sum(told.output for seq, told in events if seq not in present)
            assert self.log.dropped[stream] == lost
            assert self.log.pending(stream) == len(self.pending[stream])
        if self.log.is_on_disk and self.log.store.trouble is None:
            files = sum(entry.stat().st_size for entry in os.scandir(self.folder))
            assert self.log.disk_bytes == files

    def present(self) -> set[int]:
        """Return the seqs of the events that the log still has."""
        found: set[int] = set()
        at = 0
        while entries := (page := self.log.page(at)).entries:
            found |= {entry.seq for entry in entries if not isinstance(entry, Dropped)}
            at = page.next_seq
        return found

    def must_stay(self) -> set[int]:
        """Return the seqs of the first and newest half of the budget, each stream's share, and no output."""
        costs = [(seq, told, told.output + RECORD_SIZE) for seq, told in enumerate(self.told, 1)]
        kept = {seq for seq, told, _ in costs if told.kind != "output"}
        kept |= _within(costs, self.least_kept // 2) | _within(costs[::-1], self.least_kept // 2)
        for stream in STREAMS:
            own = [cost for cost in costs if cost[1].stream == stream]
            newest = self.least_kept // 16 - len(self.pending[stream])
            kept |= _within(own, self.least_kept // 16) | _within(own[::-1], newest)
        return kept


def _within(costs: list[tuple[int, Told, int]], budget: int) -> set[int]:
    found = set()
    for seq, _, cost in costs:
        budget -= cost
        if budget < 0:
            break
        found.add(seq)
    return found

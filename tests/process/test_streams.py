"""When bytes become events: the gather rule, pauses, ends, and a disk that takes nothing."""

import asyncio
import errno
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from execzmq.process.log import OutputLog
from execzmq.process.readers import Readers
from execzmq.process.streams import PipeSource, StreamPump, TerminalSource
from execzmq.settings import GATHER_TIME, MAX_EVENT, MIB
from execzmq.types.events import Stream
from tests.process.logs import read_all
from tests.support import deadline


class Rig:
    """A pipe with its pump and log, and a clock that the test moves."""

    def __init__(self, folder: Path, streams: tuple[Stream, ...] = ("stdout",)) -> None:
        self.log = OutputLog(folder / "log", 1, 64 * MIB)
        self.now = 100.0
        self.committed: list[tuple[Stream, int]] = []
        self.ended: list[Stream] = []
        self.news = asyncio.Event()
        self.readers = Readers()
        self.writers: dict[Stream, int] = {}
        self.pumps: dict[Stream, StreamPump] = {}
        for stream in streams:
            reader, self.writers[stream] = os.pipe()
            os.set_blocking(reader, False)
            self.pumps[stream] = self.pump(stream, PipeSource(reader))

    def pump(self, stream: Stream, source: PipeSource | TerminalSource) -> StreamPump:
        """Return a pump of this rig."""
        return StreamPump(
            stream,
            source,
            self.log,
            before=self._before,
            commit=self._commit,
            ended=self._ended,
            refused=self.log.store.hold,
            clock=lambda: self.now,
            readers=self.readers,
        )

    def _before(self, stream: Stream) -> None:
        for other, pump in self.pumps.items():
            if other != stream and self.log.pending(other):
                pump.flush()

    def _commit(self, stream: Stream) -> None:
        record = self.log.commit(stream, self.now)
        if record is not None:
            self.committed.append((stream, record.length))
            self.news.set()

    def _ended(self, stream: Stream) -> None:
        self.ended.append(stream)
        self.news.set()

    def write(self, data: bytes, stream: Stream = "stdout") -> None:
        """Write as the command does."""
        os.write(self.writers[stream], data)

    async def until(self, count: int) -> None:
        """Wait until so many events stand in the log."""
        async with deadline(5):
            while len(self.committed) < count:
                self.news.clear()
                await self.news.wait()

    async def until_ended(self, stream: Stream = "stdout") -> None:
        """Wait for the end of a stream."""
        async with deadline(5):
            while stream not in self.ended:
                self.news.clear()
                await self.news.wait()

    def close(self) -> None:
        """Close everything."""
        for pump in self.pumps.values():
            pump.close()
        for writer in self.writers.values():
            os.close(writer)
        self.writers.clear()
        self.log.close()
        self.readers.close()


async def test_after_a_silence_at_once(short_tmp: Path) -> None:
    """What comes after a silence is an event without delay."""
    rig = Rig(short_tmp)
    rig.pumps["stdout"].start()
    rig.write(b"one")
    await rig.until(1)
    rig.now += GATHER_TIME
    rig.write(b"two")
    await rig.until(2)
    assert rig.committed == [("stdout", 3), ("stdout", 3)]
    rig.close()


async def test_what_comes_soon_is_gathered(short_tmp: Path) -> None:
    """What follows within the gather time is one event, however many writes it was."""
    rig = Rig(short_tmp)
    rig.pumps["stdout"].start()
    rig.write(b"first")
    await rig.until(1)
    for _ in range(10):
        rig.write(b"x")
        await asyncio.sleep(0)
    await rig.until(2)
    assert rig.committed == [("stdout", 5), ("stdout", 10)]
    rig.close()


async def test_other_stream_closes_the_event(short_tmp: Path) -> None:
    """Bytes of one stream are an event before bytes of the other are taken, so that their order holds."""
    rig = Rig(short_tmp, ("stdout", "stderr"))
    for pump in rig.pumps.values():
        pump.start()
    rig.write(b"a")
    await rig.until(1)
    rig.write(b"b")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    rig.write(b"c", "stderr")
    await rig.until(3)
    assert [stream for stream, _ in rig.committed] == ["stdout", "stdout", "stderr"]
    rig.close()


async def test_largest_event(short_tmp: Path) -> None:
    """No event is larger than the limit, and none is lost."""
    rig = Rig(short_tmp)
    rig.pumps["stdout"].start()
    data = os.urandom(MAX_EVENT * 2 + 1000)

    def write_all() -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(rig.writers["stdout"], view) :]

    async with deadline(5):
        await asyncio.to_thread(write_all)
        while sum(size for _, size in rig.committed) < len(data):
            await rig.until(len(rig.committed) + 1)
    assert max(size for _, size in rig.committed) <= MAX_EVENT
    assert read_all(rig.log)[1] == data
    rig.close()


async def test_end(short_tmp: Path) -> None:
    """What is pending is an event before the end is told; the end is told once and closes the descriptor."""
    rig = Rig(short_tmp)
    pump = rig.pumps["stdout"]
    pump.start()
    rig.write(b"one")
    await rig.until(1)
    rig.write(b"last")
    os.close(rig.writers.pop("stdout"))
    await rig.until_ended()
    assert rig.committed == [("stdout", 3), ("stdout", 4)]
    assert (pump.is_open, pump.fd) == (False, -1)
    pump.close()
    assert rig.ended == ["stdout"]
    rig.close()


async def test_pause_lets_the_writer_wait(short_tmp: Path) -> None:
    """A paused pump takes nothing; what it has already still becomes an event; then it goes on."""
    rig = Rig(short_tmp)
    pump = rig.pumps["stdout"]
    pump.start()
    pump.pause()
    rig.write(b"waits")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not rig.committed
    assert pump.is_paused
    pump.resume()
    await rig.until(1)
    assert rig.committed == [("stdout", 5)]
    rig.close()


async def test_pause_with_bytes_pending(short_tmp: Path) -> None:
    """Bytes that wait for more when the pause comes are an event all the same."""
    rig = Rig(short_tmp)
    pump = rig.pumps["stdout"]
    pump.start()
    rig.write(b"one")
    await rig.until(1)
    rig.write(b"two")
    while not rig.log.pending("stdout"):  # noqa: ASYNC110  # no event tells it
        await asyncio.sleep(0)
    pump.pause()
    await rig.until(2)
    rig.write(b"three")
    await asyncio.sleep(0)
    pump.resume()
    await rig.until(3)
    assert read_all(rig.log)[1] == b"onetwothree"
    rig.close()


async def test_drain_takes_what_is_there(short_tmp: Path) -> None:
    """Draining takes a whole pipe without waiting, though nobody listened."""
    rig = Rig(short_tmp)
    rig.write(b"x" * 65536)
    rig.pumps["stdout"].drain()
    assert sum(size for _, size in rig.committed) == 65536
    assert not rig.ended
    os.close(rig.writers.pop("stdout"))
    rig.pumps["stdout"].drain()
    assert rig.ended == ["stdout"]
    rig.pumps["stdout"].drain()
    assert rig.ended == ["stdout"]
    rig.close()


async def test_discard_counts(short_tmp: Path) -> None:
    """What is read to be dropped is counted, and the end is still told."""
    rig = Rig(short_tmp)
    pump = rig.pumps["stdout"]
    pump.start()
    pump.pause()
    pump.discard()
    rig.write(b"x" * 1000)
    os.close(rig.writers.pop("stdout"))
    await rig.until_ended()
    assert pump.discarded == 1000
    assert not rig.committed
    rig.close()


def refuse(*arguments: object, **options: object) -> int:
    """Do what a full disk does."""
    raise OSError(errno.ENOSPC, "full")


async def test_what_the_disk_does_not_take_is_taken_into_memory_x03(
    short_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer does not wait: what is pending on disk is an event, and what follows is in memory."""
    rig = Rig(short_tmp)
    rig.pumps["stdout"].start()
    rig.write(b"first")
    await rig.until(1)
    rig.write(b"second")
    while not rig.log.pending("stdout"):  # noqa: ASYNC110  # no event tells it
        await asyncio.sleep(0)
    with monkeypatch.context() as patch:
        patch.setattr(os, "splice", refuse)
        rig.write(b"third")
        await rig.until(3)
        assert rig.committed == [("stdout", 5), ("stdout", 6), ("stdout", 5)]
        assert rig.log.store.trouble is not None
        assert read_all(rig.log)[1] == b"firstsecondthird"
    rig.close()


async def test_full_disk_at_the_exit(short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Draining a whole pipe does not fail where the disk is full."""
    rig = Rig(short_tmp)
    data = os.urandom(65536)
    rig.write(data)
    os.close(rig.writers.pop("stdout"))
    with monkeypatch.context() as patch:
        patch.setattr(os, "splice", refuse)
        rig.pumps["stdout"].drain()
        rig.pumps["stdout"].drain()
    assert rig.ended == ["stdout"]
    assert read_all(rig.log)[1] == data
    rig.close()


async def test_a_stream_that_cannot_be_read_is_over(
    short_tmp: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is said, and not tried for ever."""
    rig = Rig(short_tmp)
    with monkeypatch.context() as patch:
        for name in ("splice", "read"):
            patch.setattr(os, name, refuse)
        rig.write(b"x")
        rig.pumps["stdout"].drain()
    assert rig.ended == ["stdout"]
    assert "cannot be read" in caplog.text
    rig.close()


async def test_terminal(short_tmp: Path) -> None:
    """A terminal is read through its pipe; its end is an end and no error."""
    rig = Rig(short_tmp, ())
    master, slave = os.openpty()
    reader, writer = os.pipe()
    for fd in (master, reader, writer):
        os.set_blocking(fd, False)
    pump = rig.pumps["stdout"] = rig.pump("stdout", TerminalSource(master, reader, writer))
    pump.start()
    os.write(slave, b"a\nb")
    await rig.until(1)
    os.close(slave)
    await rig.until_ended()
    assert read_all(rig.log)[1] == b"a\r\nb"
    assert not pump.is_open
    rig.close()


async def test_terminal_that_is_discarded(short_tmp: Path) -> None:
    """A terminal is read and dropped like a pipe."""
    rig = Rig(short_tmp, ())
    master, slave = os.openpty()
    reader, writer = os.pipe()
    for fd in (master, reader, writer):
        os.set_blocking(fd, False)
    pump = rig.pumps["stdout"] = rig.pump("stdout", TerminalSource(master, reader, writer))
    pump.discard()
    os.write(slave, b"abc")
    async with deadline(5):
        while pump.discarded < 3:  # noqa: ASYNC110  # no event tells it
            await asyncio.sleep(0)
    os.close(slave)
    await rig.until_ended()
    rig.close()


async def test_all_streams_share_a_turn_of_the_loop_c17() -> None:
    """Each has its share, whoever comes first, and what is taken in one turn is bounded."""
    turn = Readers()
    taken: list[int] = []

    def reader(number: int) -> Callable[[], None]:
        def read() -> None:
            if turn.has_room_for(read):
                taken.append(number)
                turn.took(256 * 1024)

        return read

    readers = [reader(number) for number in range(10)]
    for _ in range(5):
        before = len(taken)
        for read in readers:  # as the loop's poll lists them, always in this order
            read()
        await asyncio.sleep(0)
        assert len(taken) - before <= 8
    counts = Counter(taken)
    assert max(counts.values()) - min(counts.values()) <= 1


async def test_dribbles_are_not_counted() -> None:
    """To count them costs more than they do."""
    turn = Readers()
    for _ in range(10_000):
        turn.took(100)
    assert turn.has_room_for(lambda: None)

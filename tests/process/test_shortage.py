"""A disk that takes nothing: what a process goes on with, how it is said, and how it ends."""

import asyncio
import contextlib
import errno
import logging
import os
from pathlib import Path

import pytest

from execzmq.process import payloads
from execzmq.process.held import Memory
from execzmq.process.log import OutputLog
from execzmq.process.managed import ManagedProcess
from execzmq.process.readers import Readers
from execzmq.process.shortage import Reserve, Shortage
from execzmq.settings import KIB, MIB
from execzmq.types.events import Event, Exited, Gap, Notice, last_seq_of
from tests.commands import assert_seqs_whole, output_of
from tests.disk import fill_disk
from tests.process.processes import Notes, end, make_spec, start
from tests.process.test_managed import until
from tests.support import deadline


class Rig(Notes):
    """An observer that passes on what a backend would, with one process."""

    def __init__(self, folder: Path, **more: object) -> None:
        super().__init__()
        self.memory = Memory(each=64 * KIB, total=MIB)
        self.owes = False
        self.asked_for_room = 0
        self.shortage = Shortage(folder, self.memory, self._make_room, lambda: not self.owes)
        spec = make_spec(**more)  # type: ignore[arg-type]  # passed on
        log = OutputLog(folder / "p" / spec.key, spec.instance, spec.log_budget, self.memory)
        self.process = ManagedProcess(spec, log, self, lambda: 100.0)
        self.readers = Readers()
        self.writers = start(self.process, readers=self.readers)

    def _make_room(self) -> None:
        self.asked_for_room += 1

    def degraded(self, process: ManagedProcess, error: OSError) -> None:
        """Let it be tried again."""
        super().degraded(process, error)
        self.shortage.add(process, error)

    def write(self, data: bytes) -> None:
        """Write as the command does."""
        os.write(self.writers["stdout"], data)

    async def until_output(self, size: int) -> None:
        """Wait until so many bytes are events."""
        await until(self.process, lambda: self.process.log.ends["stdout"] >= size)

    async def until_recovered(self) -> None:
        """Wait until the disk takes everything again."""
        async with deadline(10):
            while self.process.log.store.trouble is not None:
                await self.process.wait_change(0.02)

    def read(self) -> list[Event]:
        """Return what a reader gets."""
        events: list[Event] = []
        while page := payloads.events_of(self.process.log.page(last_seq_of(events[-1]) if events else 0)):
            events += page
        assert_seqs_whole(events)
        return events

    def close(self) -> None:
        """Leave nothing."""
        for writer in self.writers.values():
            os.close(writer)
        self.shortage.close()
        self.process.release()
        self.process.log.close()
        self.readers.close()


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Try a disk again soon, however often it has failed."""
    monkeypatch.setattr("execzmq.process.held._LAST_RETRY", 0.02)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
@pytest.mark.usefixtures("hurried")
async def test_it_begins_and_ends_with_a_notice_x03(
    short_tmp: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """What was held is written when the disk takes it, with the seqs that it was told with."""
    rig = Rig(short_tmp)
    rig.write(b"one")
    await rig.until_output(3)
    with monkeypatch.context() as patch:
        fill_disk(patch, number=number)
        rig.write(b"two")
        await rig.until_output(6)
        told = rig.read()
        assert [error.errno for error in rig.troubles] == [number]
        assert rig.memory.is_disk_full == (number != errno.EIO)
    await rig.until_recovered()
    rig.write(b"three")
    await rig.until_output(11)
    events = rig.read()
    assert events[: len(told)] == told
    assert output_of(events) == b"onetwothree"
    begun, over = [event for event in events if isinstance(event, Notice)]
    assert (begun.kind, begun.data) == (
        "degraded",
        {"error": errno.errorcode[number], "text": f"[Errno {number}] {os.strerror(number)}"},
    )
    assert (over.kind, over.data) == ("recovered", {"dropped_bytes": 0})
    assert (rig.recoveries, rig.memory.used, rig.memory.holders, rig.memory.is_disk_full) == (1, 0, 0, False)
    assert rig.asked_for_room == 0 or number != errno.EIO
    again = OutputLog.open(rig.process.log.folder, 1, MIB)
    assert (again.damaged, again.last_seq) == (False, rig.process.log.last_seq)
    rig.close()


@pytest.mark.usefixtures("hurried")
async def test_what_does_not_fit_is_a_gap_x03(short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest stays, the loss is exact and counted, for a late reader and for one who follows."""
    rig = Rig(short_tmp)
    with monkeypatch.context() as patch:
        fill_disk(patch)
        cursors = {0}
        for number in range(64):
            rig.write(b"%07d\n" % number * 512)
            await rig.until_output((number + 1) * 4096)
            cursors.add(rig.process.log.last_seq)
        events = rig.read()
        lost = sum(event.bytes for event in events if isinstance(event, Gap))
        assert lost + len(output_of(events)) == 64 * 4096
        assert len(output_of(events)) > 32 * KIB
        assert rig.process.log.dropped["stdout"] == lost
        for cursor in cursors:
            ends = rig.process.log.ends_at(cursor)["stdout"]
            page = payloads.events_of(rig.process.log.page(cursor))
            gone = sum(event.bytes for event in page if isinstance(event, Gap))
            assert ends + gone + len(output_of(page)) == 64 * 4096
    await rig.until_recovered()
    again = OutputLog.open(rig.process.log.folder, 1, MIB)
    assert (again.damaged, again.dropped["stdout"], again.ends["stdout"]) == (False, lost, 64 * 4096)
    assert payloads.events_of(again.page(0)) == rig.read()
    rig.close()


@pytest.mark.usefixtures("hurried")
async def test_a_paused_command_goes_on_with_the_disk_x03(
    short_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the starter is the reader, the bytes wait in the pipe when the memory is used up."""
    rig = Rig(short_tmp, backpressure="pause")
    os.set_blocking(rig.writers["stdout"], False)
    written = 0
    with monkeypatch.context() as patch:
        fill_disk(patch)
        while rig.pauses == 0:
            with contextlib.suppress(BlockingIOError):
                written += os.write(rig.writers["stdout"], bytes(4096))
            await asyncio.sleep(0)
        taken = rig.process.log.ends["stdout"]
        rig.process.streams.told(rig.process.log.last_seq)
        with contextlib.suppress(BlockingIOError):
            written += os.write(rig.writers["stdout"], bytes(4096))
        await rig.until_output(taken + 1)
        while rig.pauses == 1:
            with contextlib.suppress(BlockingIOError):
                written += os.write(rig.writers["stdout"], bytes(4096))
            await asyncio.sleep(0)
        received = rig.process.log.ends_at(rig.process.streams.backlog.seq)["stdout"]  # type: ignore[union-attr]
    await rig.until_recovered()
    await rig.until_output(written)
    assert rig.process.log.dropped["stdout"] <= received
    rig.close()


@pytest.mark.usefixtures("hurried")
async def test_an_end_in_memory_is_written_later_x03(
    short_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`exited` and `closed` are told at once, and stand on disk when there is room."""
    rig = Rig(short_tmp)
    with monkeypatch.context() as patch:
        fill_disk(patch)
        rig.write(b"held")
        end(rig.process, rig.writers)
        await until(rig.process, lambda: rig.process.life.is_over)
        assert [kind for kind in rig.kinds if kind != "notice"] == ["started", "output", "exited", "closed"]
    await rig.until_recovered()
    again = OutputLog.open(rig.process.log.folder, 1, MIB)
    assert (again.last_kind, again.ends["stdout"]) == ("closed", 4)
    assert any(isinstance(event, Exited) for event in payloads.events_of(again.page(0)))
    rig.close()


async def test_bytes_that_are_no_event_yet_are_written_at_the_close_x03(
    short_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are in memory only, and gone from the pipe: a later life has them as an event."""
    monkeypatch.setattr("execzmq.process.streams.GATHER_TIME", 1000.0)
    rig = Rig(short_tmp)
    with monkeypatch.context() as patch:
        fill_disk(patch)
        rig.write(b"held")
        async with deadline(5):
            while not rig.process.log.pending("stdout"):  # noqa: ASYNC110  # no event tells it
                await asyncio.sleep(0)
    rig.shortage.close()
    again = OutputLog.open(rig.process.log.folder, 1, MIB)
    assert (again.damaged, again.ends["stdout"]) == (False, 4)
    assert output_of(payloads.events_of(again.page(0))) == b"held"
    again.close()
    rig.close()


@pytest.mark.usefixtures("hurried")
async def test_a_full_disk_is_not_written_by_others_x03(
    short_tmp: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What the reserve gives is for ends: while the disk is full the output of all goes to memory."""
    rig = Rig(short_tmp)
    rig.shortage.start()
    rig.owes = True
    with caplog.at_level(logging.WARNING):
        assert rig.shortage.refused(OSError(errno.ENOSPC, "full"))
        assert not rig.shortage.refused(OSError(errno.ENOSPC, "full"))
        rig.write(b"held")
        await rig.until_output(4)
        assert [error.errno for error in rig.troubles] == [errno.ENOSPC]
        rig.owes = False
        await rig.until_recovered()
        async with deadline(5):
            while len(caplog.messages) < 2:
                await rig.process.wait_change(0.02)
    assert caplog.messages == [
        "the disk takes nothing, output is held in memory: [Errno 28] full",
        "the disk takes what is written again",
    ]
    assert (short_tmp / "reserve").stat().st_blocks > 0
    rig.close()


def test_the_reserve_is_room_on_disk(short_tmp: Path) -> None:
    """It is taken and given back any number of times; one that a crash has left counts."""
    reserve = Reserve(short_tmp / "reserve")
    assert not reserve.release()
    for _ in range(2):
        assert reserve.take()
        assert reserve.take()
        assert (short_tmp / "reserve").stat().st_blocks * 512 >= 256 * KIB
        assert Reserve(short_tmp / "reserve").release()
        assert not reserve.release()


async def test_no_room_for_the_reserve_is_a_full_disk(
    short_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that begins so holds output in memory from the start; without a reserve it goes on as ever."""

    def refuse(*arguments: object) -> None:
        raise OSError(numbers[0], os.strerror(numbers[0]))

    numbers = [errno.EOPNOTSUPP, errno.ENOSPC]
    monkeypatch.setattr(os, "posix_fallocate", refuse)
    for is_full in (False, True):
        rig = Rig(short_tmp)
        rig.shortage.start()
        assert rig.memory.is_disk_full == is_full
        numbers.pop(0)
        rig.close()

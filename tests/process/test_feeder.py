"""Feeding stdin: whole, in order, no further than there is room, and to nobody who does not read."""

import asyncio
import os
from pathlib import Path

import pytest

from execzmq.errors import InvalidRequest, StdinClosed
from execzmq.process.feeder import StdinFeeder
from execzmq.process.stdin import StdinQueue
from execzmq.settings import STDIN_UNREAD
from tests.support import deadline

MIB = 1 << 20


class Rig:
    """A pipe with its feeder."""

    def __init__(self, folder: Path) -> None:
        self.reader, writer = os.pipe()
        os.set_blocking(writer, False)
        os.set_blocking(self.reader, False)
        self.drained = 0
        self.feeder = StdinFeeder(StdinQueue(folder / "log", writer), writer, drained=self._drained)

    def _drained(self) -> None:
        self.drained += 1

    async def read(self, size: int) -> bytes:
        """Read that much, as the command does."""
        data = b""
        async with deadline(10):
            while len(data) < size:
                try:
                    part = os.read(self.reader, min(size - len(data), 1 << 16))
                except BlockingIOError:
                    await asyncio.sleep(0)
                    continue
                if not part:
                    break
                data += part
        return data

    def close(self) -> None:
        """Close both ends."""
        self.feeder.close()
        if self.reader != -1:
            os.close(self.reader)


async def taken(accepted: int | asyncio.Future[int]) -> int:
    """Return the accepted offset, however long it takes."""
    async with deadline(10):
        return accepted if isinstance(accepted, int) else await accepted


async def test_accepts_at_once_where_there_is_room(short_tmp: Path) -> None:
    """A write for which there is room needs no waiting, and is fed at once."""
    rig = Rig(short_tmp)
    assert rig.feeder.write("s", None, b"abc", False) == 3
    assert rig.feeder.write("s", None, memoryview(b"def"), False) == 6
    assert os.read(rig.reader, 100) == b"abcdef"
    rig.close()


async def test_offsets_are_of_one_session(short_tmp: Path) -> None:
    """A repeat is accepted once, a hole is refused, and other sessions have offsets of their own."""
    rig = Rig(short_tmp)
    assert rig.feeder.write("a", 0, b"abc", False) == 3
    assert rig.feeder.write("a", 0, b"abcd", False) == 4
    assert rig.feeder.write("b", 0, b"X", False) == 1
    with pytest.raises(InvalidRequest):
        rig.feeder.write("a", 9, b"?", False)
    assert os.read(rig.reader, 100) == b"abcdX"
    rig.close()


async def test_end(short_tmp: Path) -> None:
    """The end is told once all is fed; nothing is accepted after it."""
    rig = Rig(short_tmp)
    rig.feeder.write("s", None, b"x" * (1 << 17), False)
    rig.feeder.write("s", None, b"", True)
    assert rig.drained == 0
    assert len(await rig.read(1 << 18)) == 1 << 17
    assert rig.drained == 1
    with pytest.raises(StdinClosed):
        rig.feeder.write("s", None, b"y", False)
    rig.close()


async def test_writes_wait_in_order(short_tmp: Path) -> None:
    """Without room writes wait, a small one behind a large one that came before it; then all come whole."""
    rig = Rig(short_tmp)
    await taken(rig.feeder.write("s", None, b"a" * STDIN_UNREAD, False))
    large = rig.feeder.write("s", None, b"b" * MIB, False)
    small = rig.feeder.write("t", None, b"c", False)
    assert isinstance(large, asyncio.Future)
    assert isinstance(small, asyncio.Future)
    data = await rig.read(STDIN_UNREAD + MIB + 1)
    assert data == b"a" * STDIN_UNREAD + b"b" * MIB + b"c"
    assert (await taken(large), await taken(small)) == (STDIN_UNREAD + MIB, 1)
    rig.close()


async def test_cancelled_write_is_not_accepted(short_tmp: Path) -> None:
    """Who does not wait any more has written nothing."""
    rig = Rig(short_tmp)
    await taken(rig.feeder.write("s", None, b"a" * STDIN_UNREAD, False))
    dropped = rig.feeder.write("s", None, b"b" * MIB, False)
    kept = rig.feeder.write("s", None, b"c" * MIB, False)
    assert isinstance(dropped, asyncio.Future)
    dropped.cancel()
    data = await rig.read(STDIN_UNREAD + MIB)
    assert data.endswith(b"ac" + b"c" * (MIB - 1))
    assert await taken(kept) == STDIN_UNREAD + MIB
    rig.close()


async def test_nobody_reads_any_more(short_tmp: Path) -> None:
    """When the reader closes its end, what waits is refused, and so is what comes later."""
    rig = Rig(short_tmp)
    await taken(rig.feeder.write("s", None, b"a" * STDIN_UNREAD, False))
    waiting = rig.feeder.write("s", None, b"b" * MIB, False)
    os.close(rig.reader)
    rig.reader = -1
    with pytest.raises(StdinClosed):
        await taken(waiting)
    with pytest.raises(StdinClosed):
        rig.feeder.write("s", None, b"c", False)
    assert rig.drained == 1
    rig.close()


async def test_give_up(short_tmp: Path) -> None:
    """When the command has ended, what is unread is dropped with its files, and who waits is told."""
    rig = Rig(short_tmp)
    await taken(rig.feeder.write("s", None, b"a" * STDIN_UNREAD, False))
    waiting = rig.feeder.write("s", None, b"b" * MIB, False)
    rig.feeder.give_up()
    rig.feeder.give_up()
    with pytest.raises(StdinClosed):
        await taken(waiting)
    assert not [path for path in (short_tmp / "log").iterdir() if path.name.startswith("in.0")]
    rig.close()


async def test_close_leaves_the_rest_to_a_later_life(short_tmp: Path) -> None:
    """Closing keeps what is unread on disk; nothing is accepted any more."""
    rig = Rig(short_tmp)
    await taken(rig.feeder.write("s", None, b"a" * MIB, False))
    rig.feeder.close()
    rig.feeder.close()
    with pytest.raises(StdinClosed):
        rig.feeder.write("s", None, b"b", False)
    assert [path for path in (short_tmp / "log").iterdir() if path.name.startswith("in.")]
    rig.close()

"""What a wrapper is told: whole and with its end, however slowly it reads, and no harm where it has gone."""

import asyncio
import os

import pytest

from execzmq.backends.telling import Telling
from tests.support import wait_until

LARGE = os.urandom(1 << 20) * 4


async def read_all(fd: int) -> bytes:
    def read() -> bytes:
        with open(fd, "rb") as file:
            return file.read()

    return await asyncio.to_thread(read)


@pytest.mark.parametrize("data", [b"", b"--bind\0", LARGE], ids=["nothing", "little", "much"])
async def test_all_of_it_and_the_end(data: bytes) -> None:
    """More than the kernel holds goes on as it is read; the end comes while a copy of our end is open."""
    telling = Telling()
    reader = telling.take_reader()
    copy = os.dup(telling._socket.fileno())
    try:
        telling.tell(data)
        assert await read_all(reader) == data
    finally:
        os.close(copy)
        telling.close()
    telling.close()


async def test_one_that_has_gone_is_told_nothing() -> None:
    """That it has gone is told elsewhere: before, or while it reads."""
    telling = Telling()
    os.close(telling.take_reader())
    telling.tell(b"x")
    telling.close()
    telling = Telling()
    reader = telling.take_reader()
    telling.tell(LARGE)
    os.close(reader)
    await asyncio.to_thread(wait_until, lambda: not telling._left)
    telling.close()


async def test_closed_while_it_waits() -> None:
    """Nothing is left of what was not read, nor an end that was never taken."""
    telling = Telling()
    reader = telling.take_reader()
    telling.tell(LARGE)
    telling.close()
    assert LARGE.startswith(await read_all(reader))
    Telling().close()

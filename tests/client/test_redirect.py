"""Where output goes in the caller: memory within a limit, files on a thread."""

import asyncio
import os
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from execzmq.client.arguments import DEVNULL, PIPE
from execzmq.client.redirect import (
    MOST_WAITING,
    Capture,
    FileSink,
    Null,
    open_outputs,
    open_source,
    write_all,
)
from tests.support import ms


async def keep(capture: Capture, pieces: list[bytes]) -> None:
    for piece in pieces:
        await capture.write(piece)


@given(st.integers(0, 12), st.lists(st.binary(max_size=8), max_size=8))
def test_capture_within_a_limit(limit: int, pieces: list[bytes]) -> None:
    """However output is cut, the first and the newest half are kept and the rest is counted."""
    capture, whole = Capture(limit), b"".join(pieces)
    asyncio.run(keep(capture, pieces))
    head, tail = limit - limit // 2, limit // 2
    assert capture.omitted == max(len(whole) - limit, 0)
    if capture.omitted:
        newest = whole[len(whole) - tail :]
        assert capture.value() == whole[:head] + b"\n[... %d bytes omitted ...]\n" % capture.omitted + newest
    else:
        assert capture.value() == whole


async def test_capture_without_a_limit() -> None:
    """Without a limit everything is kept."""
    capture = Capture()
    await keep(capture, [b"a", b"", b"b" * 100_000])
    assert (capture.value(), capture.omitted) == (b"a" + b"b" * 100_000, 0)


async def test_slow_file_holds_up_the_copying() -> None:
    """While a file is not written, only so much waits for it; nothing is lost and the order is kept."""
    gate, written = threading.Event(), []

    def write(data: bytes) -> None:
        gate.wait(ms(10000))
        written.append(data)

    closed = threading.Event()
    sink = FileSink(write, closed.set)
    await sink.write(b"first")
    await asyncio.sleep(0)
    await sink.write(b"x" * MOST_WAITING)
    more = asyncio.create_task(sink.write(b"y"))
    await asyncio.wait((more,), timeout=ms(20))
    assert not more.done()
    gate.set()
    await more
    await sink.finish()
    sink.close()
    assert closed.wait(ms(10000))
    assert b"".join(written) == b"first" + b"x" * MOST_WAITING + b"y"


async def test_error_of_a_file_is_raised_once_it_is_known() -> None:
    """A failed write is raised by `finish`, and by the next `write`."""

    def write(data: bytes) -> None:
        raise OSError(28, "No space left")

    sink = FileSink(write, lambda: None)
    await sink.write(b"x")
    with pytest.raises(OSError, match="space"):
        await sink.finish()
    with pytest.raises(OSError, match="space"):
        await sink.write(b"y")
    sink.close()


async def test_one_file_for_both_streams_has_one_sink(tmp_path: Any) -> None:
    """The same file, object or descriptor for both streams is one sink; pipes are two."""
    with (tmp_path / "f").open("wb") as file:
        for target in (file, file.fileno()):
            sinks = open_outputs(target, target, lambda _: Null())
            assert sinks["stdout"] is sinks["stderr"]
            sinks["stdout"].close()
    sinks = open_outputs(PIPE, PIPE, lambda _: Capture())
    assert sinks["stdout"] is not sinks["stderr"]
    assert isinstance(open_outputs(DEVNULL, DEVNULL, lambda _: Capture())["stderr"], Null)


async def test_source_that_is_closed_while_it_waits() -> None:
    """Closing a source ends a read that waits for another's silent pipe."""
    read_end, write_end = os.pipe()
    source = open_source(read_end)
    reading = asyncio.create_task(source.read())
    await asyncio.sleep(0)
    source.close()
    source.close()
    assert await reading == b""
    os.close(read_end)
    os.close(write_end)


def test_write_to_a_descriptor_that_does_not_block() -> None:
    """A descriptor that somebody has made non-blocking gets everything too."""
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    read = bytearray()

    def drain() -> None:
        while data := os.read(read_end, 100_000):
            read.extend(data)

    thread = threading.Thread(target=drain)
    thread.start()
    write_all(write_end, b"x" * 1_000_000)
    os.close(write_end)
    thread.join()
    os.close(read_end)
    assert len(read) == 1_000_000

"""Where output goes: memory within a limit, and what may block, on a thread."""

import asyncio
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from execzmq.client.sinks import MOST_WAITING, Capture, FileSink
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
    gate = threading.Event()
    written: list[bytes] = []

    def write(pieces: list[bytes]) -> None:
        gate.wait(ms(10000))
        written.extend(pieces)

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

    def write(pieces: list[bytes]) -> None:
        raise OSError(28, "No space left")

    sink = FileSink(write, lambda: None)
    await sink.write(b"x")
    with pytest.raises(OSError, match="space"):
        await sink.finish()
    with pytest.raises(OSError, match="space"):
        await sink.write(b"y")
    sink.close()

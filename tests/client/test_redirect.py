"""What the caller's `stdin`, `stdout` and `stderr` come to."""

import asyncio
import os
import threading
from typing import Any

from execzmq.client.arguments import DEVNULL, PIPE
from execzmq.client.redirect import open_outputs, open_source, write_all
from execzmq.client.sinks import Capture, Null


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
    write_all(write_end, [b"a", b"", b"x" * 1_000_000, *(b"%04d" % number for number in range(3000))])
    os.close(write_end)
    thread.join()
    os.close(read_end)
    assert read == b"a" + b"x" * 1_000_000 + b"".join(b"%04d" % number for number in range(3000))

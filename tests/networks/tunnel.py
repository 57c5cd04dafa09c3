"""A way for Unix sockets from one host to another, over TCP.

Beside the server: `tunnel.py near PORT PATH…` takes what comes at PORT, PORT + 1 … to the sockets. Far away:
`tunnel.py far FOLDER ADDRESS PORT NAME…` listens at `FOLDER/NAME` for each of them, in the same order. Either
prints `ready` when it listens, and ends with its stdin.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeAlias

Streams: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Open: TypeAlias = Callable[[], Awaitable[Streams]]

_PIECE = 65536
_PATIENCE = 2.0
"""Seconds for which a connection is tried; who waits for it has given up after three."""


async def join(open_other: Open, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass bytes between a connection that has come and one that is made, until either ends."""
    writers = [writer]
    try:
        async with asyncio.timeout(_PATIENCE):
            other_reader, other = await open_other()
        writers.append(other)
        async with asyncio.TaskGroup() as both:
            both.create_task(pass_on(reader, other))
            both.create_task(pass_on(other_reader, writer))
    except* (OSError, EOFError):  # a TimeoutError is an OSError
        pass
    finally:
        for one in writers:
            one.transport.abort()


async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass bytes on one way."""
    while data := await reader.read(_PIECE):
        writer.write(data)
        await writer.drain()
    raise EOFError


async def near(port: int, *paths: str) -> None:
    """Be the end beside the server."""
    for number, path in enumerate(paths):
        come = partial(join, partial(asyncio.open_unix_connection, path))
        await asyncio.start_server(come, "::", port + number)
        await asyncio.start_server(come, "0.0.0.0", port + number)


async def far(folder: str, address: str, port: int, *names: str) -> None:
    """Be the far end."""
    for number, name in enumerate(names):
        come = partial(join, partial(asyncio.open_connection, address, port + number))
        await asyncio.start_unix_server(come, os.path.join(folder, name))


async def main(place: str, words: list[str]) -> None:
    """Be one of the ends until stdin ends."""
    if place == "near":
        await near(int(words[0]), *words[1:])
    else:
        await far(words[0], words[1], int(words[2]), *words[3:])
    print("ready", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main(sys.argv[1], sys.argv[2:]))

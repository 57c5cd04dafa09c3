"""Own the bytes between two connections: both ways at once, no more in memory than one is willing to take.

The end of one direction is passed on and leaves the other open. It must not know what the bytes are.
"""

from __future__ import annotations

import asyncio
import contextlib

BUFFER_BYTES = 32 * 1024
_HALF_OPEN_SECONDS = 600.0
"""Silence after which a connection of which one direction has ended counts as ended."""
_FLUSH_SECONDS = 30.0

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def join(one: Connection, other: Connection) -> None:
    """Pass bytes both ways until both have ended; closes neither.

    Raises:
        OSError: one of the two broke. TimeoutError: one direction has ended, and the other is silent.
    """
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(None) as limit:

        async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while data := await reader.read(BUFFER_BYTES):
                if limit.when() is not None:
                    limit.reschedule(loop.time() + _HALF_OPEN_SECONDS)
                writer.write(data)
                await writer.drain()
            if writer.can_write_eof():
                writer.write_eof()
            limit.reschedule(loop.time() + _HALF_OPEN_SECONDS)

        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(carry(one[0], other[1]))
                tasks.create_task(carry(other[0], one[1]))
        except* OSError as exc:
            raise OSError("a connection broke") from exc


async def finish(connection: Connection) -> None:
    """Close a connection after what was written has gone out, or at once where that takes too long."""
    writer = connection[1]
    writer.close()
    try:
        with contextlib.suppress(OSError):
            async with asyncio.timeout(_FLUSH_SECONDS):
                await writer.wait_closed()
    finally:
        writer.transport.abort()


async def part(connection: Connection, last_words: bytes, seconds: float = 2.0) -> None:
    """Say something to who may still be speaking, and close.

    Closed with something unread, the system would take back what was said: so that is read, for a while.
    """
    reader, writer = connection
    with contextlib.suppress(OSError):
        writer.write(last_words)
        async with asyncio.timeout(seconds):
            await writer.drain()
            writer.write_eof()
            while await reader.read(BUFFER_BYTES):
                pass
    await finish(connection)
